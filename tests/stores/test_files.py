"""What the readable tree promises beyond the contract: its names and modes, what a person finds,
what does not stay."""

from __future__ import annotations

import gc
import json
import os
import stat
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest

from refold.core import codec
from refold.core.codec import to_line
from refold.core.ids import (
    artifact_id,
)
from refold.errors import Corrupt, Denied, Invalid, Unavailable
from refold.stores import open_store
from refold.stores.contract.kit import TEXT, grown, sealed, titled
from refold.stores.files import FilesStore
from refold.stores.files import log as files_log
from refold.stores.files import tree as files_tree
from refold.system import disk
from tests.stores.trees import artifact_event, log_of, tree


def test_the_tree_is_the_one_that_the_design_draws(tmp_path: Path) -> None:
    """M-10, M-20: these paths and no others; the content is one file with two names."""
    store = FilesStore(str(tmp_path / "s"))
    events = grown(store, "log", 2)
    event = artifact_event(store, b"the output\n", events[-1])
    store.append("log", [event], expect=2)
    store.keep_bookmark("log", b"mark")
    store.close()
    name = artifact_id(json.loads(event.body)["digest"]) + ".txt"
    folder = "conversations/log"
    assert tree(tmp_path / "s") == sorted(
        [
            ".lock",
            "artifacts",
            f"artifacts/{name}",
            "conversations",
            folder,
            f"{folder}/artifacts",
            f"{folder}/artifacts/{name}",
            f"{folder}/artifacts/{name}.meta.json",
            f"{folder}/bookmark",
            f"{folder}/messages.jsonl",
            f"{folder}/metadata.json",
            "index.json",
        ]
    )
    shown = tmp_path / "s" / folder / "artifacts" / name
    assert (
        shown.samefile(tmp_path / "s" / "artifacts" / name)
        and shown.read_bytes() == b"the output\n"
    )
    about = json.loads(Path(f"{shown}.meta.json").read_bytes())
    assert about["name"] == "out.txt" and datetime.fromisoformat(about["createdAt"]).tzinfo


def test_a_line_is_the_bytes_that_every_store_gives(tmp_path: Path) -> None:
    """M-12: one event a line, the lines of `core.lines`; a space before the end says that the
    batch goes on."""
    store = FilesStore(str(tmp_path))
    events = sealed(None, [TEXT] * 4)
    store.append("log", events[:1], expect=0)
    store.append("log", events[1:], expect=1)
    lines = log_of(tmp_path).read_bytes().split(b"\n")
    assert [line.rstrip(b" ") for line in lines] == [*map(to_line, events), b""]
    assert [line.endswith(b" ") for line in lines] == [False, True, True, False, False]
    assert [json.loads(line)["seq"] for line in lines[:-1]] == [1, 2, 3, 4]
    store.close()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_files_and_folders_are_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        store = FilesStore(str(tmp_path / "a" / "s"))
        events = grown(store, "log", 2)
        store.append("log", [artifact_event(store, b"x", events[-1])], expect=2)
        store.fork("log", 1, "fork")
        store.keep_bookmark("fork", b"mark")
        store.erase("log", 2)
        store.close()
    finally:
        os.umask(before)
    for path in (tmp_path / "a").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_ids_that_differ_only_in_case_have_folders_that_differ_in_more(tmp_path: Path) -> None:
    """M-24: no file system may take one conversation for another."""
    ids = ["fix", "Fix", "fIX", "FIX", "x" * 64, "X" * 64, "a.b-c_d"]
    names = [files_tree.folder_of(id) for id in ids]
    assert len({name.lower() for name in names}) == len(ids) and max(map(len, names)) < 100
    assert [files_tree.id_of(name) for name in names] == ids
    assert names[0] == "fix" and names[1].startswith("Fix~")
    for strange in ("..", ".new-1", "fix~0", "Fix", "Fix~2", "a/b", "fix~", "con"):
        assert files_tree.id_of(strange) is None, strange
    store = FilesStore(str(tmp_path))
    logs = {id: grown(store, id, 2) for id in ids}
    assert [found.id for found in store.conversations()] == sorted(ids)
    assert all(store.read(id) == events for id, events in logs.items())


def test_those_who_only_read_change_nothing(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    events = grown(store, "log", 3)
    store.close()
    (tmp_path / "index.json").unlink()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = FilesStore(str(tmp_path))
    assert len(again.conversations()) == 1 and again.read("log") == events
    again.close()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_closed_store_refuses_work(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    events = grown(store, "log", 1)
    store.close()
    for refused in (
        lambda: store.read("log"),
        lambda: store.append("log", sealed(events[0], [b"{}"]), expect=1),
        lambda: store.put([b"x"]),
    ):
        with pytest.raises(Invalid, match="closed"):
            refused()


@pytest.mark.parametrize("place", ["root", "conversations"])
def test_a_file_in_place_of_a_folder_is_refused(place: str, tmp_path: Path) -> None:
    root = tmp_path / "s"
    if place == "conversations":
        root.mkdir()
    (root if place == "root" else root / "conversations").write_bytes(b"")
    with pytest.raises(Invalid, match="not a folder"):
        FilesStore(str(root)).conversations()


def test_links_are_not_followed_out_of_the_tree(tmp_path: Path) -> None:
    outside = FilesStore(str(tmp_path / "outside"))
    grown(outside, "log", 1)
    outside.close()
    store = FilesStore(str(tmp_path / "s"))
    grown(store, "own", 1)
    folders = tmp_path / "s" / "conversations"
    (folders / "linked").symlink_to(tmp_path / "outside" / "conversations" / "log")
    with pytest.raises(Denied, match="link"):
        store.read("linked")
    (folders / "linked").unlink()
    log_of(tmp_path / "s", "own").rename(tmp_path / "moved")
    log_of(tmp_path / "s", "own").symlink_to(tmp_path / "moved")
    with pytest.raises((Unavailable, Corrupt)):
        store.read("own")


def test_a_link_of_another_user_is_denied(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("making a link of another user needs root")
    (tmp_path / "real").mkdir()
    (tmp_path / "s").symlink_to(tmp_path / "real")
    assert FilesStore(str(tmp_path / "s")).conversations() == []
    os.chown(tmp_path / "s", 12_345, 12_345, follow_symlinks=False)
    with pytest.raises(Denied, match="user 12345"):
        FilesStore(str(tmp_path / "s")).conversations()


def test_a_log_that_somebody_holds_is_busy_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-17: the wait is bounded; reading does not wait at all."""
    monkeypatch.setattr(files_tree, "LOCK_S", 0.05)
    store = FilesStore(str(tmp_path))
    events = grown(store, "log", 2)
    other = files_log.LogFile(str(log_of(tmp_path)))
    files_tree.lock(other.fd, other.path)
    with pytest.raises(Unavailable, match="busy") as refusal:
        store.append("log", sealed(events[-1], [TEXT]), expect=2)
    assert refusal.value.retry_after_s
    assert store.read("log") == events and FilesStore(str(tmp_path)).read("log") == events
    other.close()
    grown(store, "log", 1, before=events[-1])


def test_a_store_goes_on_in_a_forked_child_and_in_its_parent(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    events = grown(store, "log", 2)
    child = os.fork()
    if child == 0:
        try:
            grown(store, "log", 1, before=events[-1])
            store.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = store.read("log")
    assert [event.seq for event in found] == [1, 2, 3]
    grown(store, "log", 1, before=found[-1])
    store.close()


def test_an_eraser_and_writers_in_other_stores_lose_nothing(tmp_path: Path) -> None:
    """An erase puts another file in place; who waits for the lock of the old one must not write
    into it."""
    url = f"files:{tmp_path}"
    here, there = open_store(url), open_store(url)
    events = grown(here, "log", 40)

    def erase() -> None:
        for seq in range(1, 40):
            there.erase("log", seq)

    eraser = threading.Thread(target=erase)
    eraser.start()
    events += grown(here, "log", 200, before=events[-1])
    eraser.join()
    for store in (here, there, open_store(url)):
        found = store.read("log")
        assert [event.chain for event in found] == [event.chain for event in events]
        assert sum(event.erased for event in found) == 39


def test_more_conversations_than_may_be_open_are_all_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()  # what earlier tests in this process left open
    before = len(os.listdir("/proc/self/fd"))
    store = FilesStore(str(tmp_path))
    synced: list[int] = []
    sync = disk.sync
    monkeypatch.setattr(disk, "sync", lambda fd: (synced.append(os.fstat(fd).st_ino), sync(fd))[1])
    logs = {f"c{n}": grown(store, f"c{n}", 1) for n in range(150)}
    store.flush()
    assert {log_of(tmp_path, id).stat().st_ino for id in logs} <= set(synced)
    assert all(store.read(id) == events for id, events in logs.items())
    assert len(os.listdir("/proc/self/fd")) - before < 100
    store.close()


def test_what_was_erased_is_in_no_file(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    first = titled(None, "secret title")
    events = [first, *sealed(first, [b'{"a":"secret text"}', b'"plain"', b"secret\nlines"])]
    store.append("log", events, expect=0)
    store.fork("log", 4, "fork")
    for id in ("log", "fork"):
        store.keep_bookmark(id, b"secret facts")
    Path(f"{log_of(tmp_path)}.quarantine").write_bytes(b"secret draft")
    store.close()
    assert b"secret" in (tmp_path / "index.json").read_bytes()
    store = FilesStore(str(tmp_path))
    for name in ("bookmark.new", "messages.jsonl.new"):
        (tmp_path / "conversations" / "log" / name).write_bytes(b"secret, left by a killed process")
    for seq in (1, 2, 4):
        store.erase("fork", seq)
    left = [
        path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()
    ]
    encoded = [
        path for path in tmp_path.rglob("*") if path.is_file() and b"c2VjcmV0" in path.read_bytes()
    ]
    assert left == encoded == []
    store.close()
    again = FilesStore(str(tmp_path))
    assert list(codec.check(again.read("fork"))) == [] and again.conversation("fork").title == ""


def test_what_was_deleted_is_in_no_file(tmp_path: Path) -> None:
    """M-23: the folder and the entry of the index are gone."""
    store = FilesStore(str(tmp_path))
    store.append("log", [titled(None, "secret title")], expect=0)
    store.close()
    again = FilesStore(str(tmp_path))
    again.delete("log")
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    again.close()
    assert json.loads((tmp_path / "index.json").read_bytes())["conversations"] == []


def test_what_killed_processes_left_on_its_way_is_swept(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    grown(store, "log", 1)
    store.close()
    for name in (".new-1", ".gone-2"):
        (tmp_path / "conversations" / name).mkdir()
        (tmp_path / "conversations" / name / "messages.jsonl").write_bytes(b"x")
    again = FilesStore(str(tmp_path))
    assert [found.id for found in again.conversations()] == ["log"]
    grown(again, "other", 1)
    assert sorted(os.listdir(tmp_path / "conversations")) == ["log", "other"]
    again.close()


def test_opening_the_tree_does_not_load_sqlite(tmp_path: Path) -> None:
    code = f"import sys; from refold.stores import open_store; open_store('files:{tmp_path}/x').conversations(); "
    code += "print('apsw' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "False\n"
    )
