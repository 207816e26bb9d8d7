"""Full, read-only and failing disks: one clear error, nothing acknowledged is lost, and it goes
on afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.core.model import Event
from refold.errors import Unavailable
from refold.stores.contract.kit import grown, sealed
from refold.stores.sqlite import SqliteStore
from tests.stores.disks import needs_strace, run, tmpfs
from tests.stores.places import filled
from tests.stores.syncs import check_kept, injected


def test_a_read_only_disk_can_be_read_and_says_so_when_written(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 4 * 1024 * 1024) as disk:
        events = filled(disk / "x.db")
        run("mount", "-o", "remount,ro", disk)
        store = SqliteStore(str(disk / "x.db"))
        assert store.read("log") == events
        with pytest.raises(Unavailable, match=r"x\.db") as refusal:
            store.append("log", sealed(events[-1], [b"{}"]), expect=5)
        assert "read-only" in refusal.value.hint
        with pytest.raises(Unavailable):
            store.put([b"content"])
        with pytest.raises(Unavailable):
            SqliteStore(str(disk / "new" / "y.db")).append("log", sealed(None, [b"{}"]), expect=0)
        assert store.read("log") == events
        store.close()


def test_a_wal_left_on_a_read_only_disk_is_not_passed_over(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 4 * 1024 * 1024) as disk:
        writer = SqliteStore(str(tmp_path / "w" / "x.db"))
        events = grown(writer, "log", 5)
        for suffix in ("", "-wal"):
            (disk / f"x.db{suffix}").write_bytes((tmp_path / "w" / f"x.db{suffix}").read_bytes())
        writer.close()
        run("mount", "-o", "remount,ro", disk)
        store = SqliteStore(str(disk / "x.db"))
        try:
            assert store.read("log") == events
        except Unavailable as error:
            assert error.hint
        store.close()


def test_a_full_disk_loses_nothing_and_works_again_when_there_is_space(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 1024 * 1024) as disk:
        (disk / "filler").write_bytes(bytes(300_000))
        store = SqliteStore(str(disk / "x.db"))
        events: list[Event] = []
        with pytest.raises(Unavailable) as refusal:
            while len(events) < 2_000:
                [event] = sealed(events[-1] if events else None, [b"x" * 3_000])
                store.append("log", [event], expect=len(events))
                events.append(event)
        assert "space" in refusal.value.hint
        assert store.read("log") == events
        store.flush()
        (disk / "filler").unlink()
        store.append("log", [event], expect=len(events))
        store.close()
        assert SqliteStore(str(disk / "x.db")).read("log") == [*events, event]


def test_a_disk_without_room_for_the_first_write_is_unavailable(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 256 * 1024) as disk:
        (disk / "filler").write_bytes(bytes(256 * 1024))
        store = SqliteStore(str(disk / "a" / "x.db"))
        with pytest.raises(Unavailable):
            grown(store, "log", 1)
        (disk / "filler").unlink()
        events = grown(store, "log", 3)
        assert store.read("log") == events
        store.close()


@needs_strace
@pytest.mark.parametrize(
    # SQLite passes over a failed sync of the folder (its 2nd and 5th); ours, the 2nd fsync, makes
    # up for it.
    ("call", "when"),
    [("fdatasync", n) for n in (1, 3, 4, 6, 8)]
    + [("fsync", 2)]
    + [("pwrite64", n) for n in (1, 4, 9)],
)
def test_nothing_is_acknowledged_after_a_failed_sync_and_no_write_error_is_hidden(
    call: str, when: int, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path / 'x' / 'x.db'}"
    lines = injected(url, f"{call}:error=EIO:when={when}")
    assert set(check_kept(url, lines)) == {"unavailable hinted"}, lines
