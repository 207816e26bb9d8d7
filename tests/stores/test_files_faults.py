"""Full, read-only and failing disks under the tree: one clear error, nothing acknowledged is
lost, and it goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refold.core.model import Event
from refold.errors import Denied, Unavailable
from refold.stores import open_store
from refold.stores.contract.kit import grown, sealed, titled
from refold.stores.files import FilesStore
from tests.stores.disks import needs_strace, run, tmpfs
from tests.stores.syncs import check_kept, injected


def test_a_read_only_disk_can_be_read_and_says_so_when_written(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 4 * 1024 * 1024) as disk:
        store = FilesStore(str(disk / "s"))
        events = grown(store, "log", 5)
        store.close()
        with open(disk / "s" / "conversations" / "log" / "messages.jsonl", "ab") as file:
            file.write(b'{"torn')
        run("mount", "-o", "remount,ro", disk)
        store = FilesStore(str(disk / "s"))
        assert store.read("log") == events and store.conversations()[0].head == 5
        for refused in (
            lambda: store.append("log", sealed(events[-1], [b"{}"]), expect=5),
            lambda: store.append("new", sealed(None, [b"{}"]), expect=0),
            lambda: store.put([b"content"]),
            lambda: store.fork("log", 1, "fork"),
            lambda: store.erase("log", 1),
            lambda: store.keep_bookmark("log", b"x"),
        ):
            with pytest.raises(Unavailable) as refusal:
                refused()
            assert "read-only" in refusal.value.hint
        assert store.read("log") == events
        store.flush()
        run("mount", "-o", "remount,rw", disk)
        grown(store, "log", 1, before=events[-1])
        assert len(store.recovered) == 1
        store.close()


def test_a_tree_of_another_user_is_denied_or_only_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    store = FilesStore(str(tmp_path / "s"))
    events = grown(store, "log", 2)
    store.close()
    for path in (tmp_path.parent, tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    os.seteuid(65_534)
    try:
        other = FilesStore(str(tmp_path / "s"))
        try:
            assert other.read("log") == events
        except Denied as error:
            # A folder further up may be closed to others.
            assert error.hint
        with pytest.raises(Denied):
            other.append("log", sealed(events[-1], [b"{}"]), expect=2)
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("size", [10, 700, 3_000, 9_000])
def test_a_full_disk_loses_nothing_and_works_again_when_there_is_space(
    size: int, tmp_path: Path
) -> None:
    """P3: short writes and refused ones leave no half record; batches too."""
    with tmpfs(tmp_path / "disk", 512 * 1024) as disk:
        (disk / "filler").write_bytes(bytes(200_000))
        store = FilesStore(str(disk / "s"))
        events: list[Event] = []
        with pytest.raises(Unavailable) as refusal:
            while len(events) < 20_000:
                batch = sealed(events[-1] if events else None, [b'"%s"' % (b"x" * size)] * 3)
                store.append("log", batch, expect=len(events))
                events += batch
        assert "space" in refusal.value.hint
        assert store.read("log", limit=30_000) == events
        assert open_store(store.url).read("log", limit=30_000) == events
        store.flush()
        with pytest.raises(Unavailable):
            store.append("log", batch, expect=len(events))
        (disk / "filler").unlink()
        store.append("log", batch, expect=len(events))
        store.close()
        again = FilesStore(str(disk / "s"))
        assert again.read("log", limit=30_000) == [*events, *batch] and again.recovered == []
        again.close()


def test_a_disk_without_room_leaves_no_half_conversation_and_no_half_title(tmp_path: Path) -> None:
    """M-14: the old metadata stays whole where the new cannot be written."""
    with tmpfs(tmp_path / "disk", 128 * 1024) as disk:
        store = FilesStore(str(disk / "s"))
        first = titled(None, "one")
        store.append("log", [first], expect=0)
        with open(disk / "filler", "wb", buffering=0) as file, pytest.raises(OSError):
            while file.write(bytes(4_096)):
                pass
        for refused in (
            lambda: store.append("log", [titled(first, "two " * 2_000)], expect=1),
            lambda: store.append("new", sealed(None, [b'"x"'] * 50), expect=0),
            lambda: store.fork("log", 1, "fork"),
        ):
            with pytest.raises(Unavailable):
                refused()
        assert [(found.id, found.title) for found in store.conversations()] == [("log", "one")]
        (disk / "filler").unlink()
        store.append("log", [titled(first, "two")], expect=1)
        store.fork("log", 2, "fork")
        assert [found.title for found in store.conversations()] == ["two", "two"]
        store.close()


@needs_strace
@pytest.mark.parametrize(
    ("call", "when"),
    [("fdatasync", n) for n in (1, 2, 4, 6)]
    + [("fsync", n) for n in (1, 2, 3, 4)]
    + [("flock", n) for n in (1, 2, 3, 5)]
    + [("rename", 1), ("mkdir", 2), ("ftruncate", 1)],
)
def test_nothing_is_acknowledged_after_a_failed_sync_and_no_write_error_is_hidden(
    call: str, when: int, tmp_path: Path
) -> None:
    """P4: each of these calls fails once with EIO; the trace of a good run says that it is made."""
    url = f"files:{tmp_path / 'x'}"
    full = ["write:error=ENOSPC:when=12"] if call == "ftruncate" else []
    lines = injected(url, f"{call}:error=EIO:when={when}", *full)
    errors = check_kept(url, lines)
    assert (errors or full) and set(errors) <= {"unavailable hinted", "conflict hinted"}, lines
