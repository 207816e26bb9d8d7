"""Full, read-only and failing disks: one clear error, nothing acknowledged is lost, and it goes on afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refold.core import codec
from refold.core.model import Event
from refold.errors import Unavailable
from refold.stores import open_store
from refold.stores.contract.kit import grown, sealed
from refold.stores.sqlite import SqliteStore
from tests.stores.disks import needs_strace, run, tmpfs
from tests.stores.places import filled


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


APPENDER = """
import sys
from refold.errors import RefoldError
from refold.stores import open_store
from refold.stores.contract.kit import sealed
store = open_store(sys.argv[1])
before = None
for n in range(6):
    [event] = sealed(before, [b"x" * 2000])
    try:
        store.append("log", [event], expect=event.seq - 1)
        store.flush()
        store.flush()
        print("acked", event.seq, flush=True)
        before = event
    except RefoldError as error:
        print(error.code, "hinted" if error.hint else "bare", "cannot sync" in str(error), flush=True)
"""


@needs_strace
def test_a_flush_is_one_sync_and_none_when_nothing_was_appended(tmp_path: Path) -> None:
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync,write", "-o", tmp_path / "trace", sys.executable, "-c"]
    run(*command, APPENDER, f"sqlite:{tmp_path / 'x' / 'x.db'}")
    trace = (tmp_path / "trace").read_text()
    between = [part.count("sync(") for part in trace.split('"acked')][1:-1]
    assert between == [1] * 5, trace


@needs_strace
@pytest.mark.parametrize(
    # SQLite passes over a failed sync of the folder (its 2nd and 5th); ours, the 2nd fsync, makes up for it.
    ("call", "when"),
    [("fdatasync", n) for n in (1, 3, 4, 6, 8)] + [("fsync", 2)] + [("pwrite64", n) for n in (1, 4, 9)],
)  # fmt: skip
def test_nothing_is_acknowledged_after_a_failed_sync_and_no_write_error_is_hidden(
    call: str, when: int, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path / 'x' / 'x.db'}"
    command = ["strace", "-f", "-o", "/dev/null", "-e", f"inject={call}:error=EIO:when={when}", sys.executable, "-c"]
    done = subprocess.run([*command, APPENDER, url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")[:-1]
    acked = [int(line.split()[1]) for line in lines if line.startswith("acked")]
    errors = [line for line in lines if not line.startswith("acked")]
    assert errors and {line.rsplit(" ", 1)[0] for line in errors} == {"unavailable hinted"}, lines
    if (failed := "unavailable hinted True") in lines:
        assert not any(line.startswith("acked") for line in lines[lines.index(failed) :]), lines
    store = open_store(url)
    read = store.read("log") if store.conversations() else []
    assert [event.seq for event in read][: len(acked)] == acked and list(codec.check(read)) == []
    store.close()
