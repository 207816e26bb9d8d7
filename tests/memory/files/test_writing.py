"""Files are written whole, for their owner alone, and nobody's change is lost."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from refold.memory import MemoryFiles
from refold.memory.files import descriptors
from tests.memory.files.kit import call, contents, opened, refused, said, tree

NOTES = "/memories/notes.md"


def test_files_and_folders_are_for_their_owner_alone(tmp_path):
    """Y-72."""
    before = os.umask(0)
    try:
        files = opened(tmp_path / "deep")
        said(files, "create", "/memories/a/b/c.md", file_text="x")
        said(files, "insert", "/memories/a/b/c.md", insert_line=0, insert_text="y")
    finally:
        os.umask(before)
    for path in (tmp_path / "deep").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, path
        if tree(tmp_path / "deep") in path.parents:
            assert mode == (0o700 if path.is_dir() else 0o600), path


# --- kills ---

STEPS = ("open", "link", "rename", "fsync", "fdatasync", "unlink", "mkdir")


def killed_at(number: int, work) -> bool:
    """Runs `work` in a process that is killed before its step of this number; True if it was."""
    child = os.fork()
    if child == 0:
        count = 0

        def stepping(plain):
            def step(*given, **named):
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return plain(*given, **named)

            return step

        for name in STEPS:
            setattr(os, name, stepping(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


COMMANDS = {
    "create": ({"path": "/memories/new/x.md", "file_text": "new"}, {"notes.md": "old\n", "new/x.md": "new"}),
    "str_replace": ({"path": NOTES, "old_str": "old", "new_str": "new"}, {"notes.md": "new\n"}),
    "insert": ({"path": NOTES, "insert_line": 1, "insert_text": "more"}, {"notes.md": "old\nmore\n"}),
    "delete": ({"path": NOTES}, {}),
    "rename": ({"old_path": NOTES, "new_path": "/memories/a/b.md"}, {"a/b.md": "old\n"}),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_write_that_is_killed_leaves_the_old_content_or_the_new(tmp_path, command):
    """Y-72."""
    arguments, after = COMMANDS[command]
    for number in range(1, 200):
        place = tmp_path / str(number)
        files = opened(place)
        said(files, "create", NOTES, file_text="old\n")
        files.close()
        was_killed = killed_at(
            number, lambda place=place: call(opened(place), command, **arguments)
        )
        found = contents(tree(place))
        assert found in ({"notes.md": "old\n"}, after)
        if not was_killed:
            break
        # What was interrupted is not in the way, and can be done again or taken back.
        if found != after:
            said(files, command, **arguments)
        assert contents(tree(place)) == after
        files.undo()
        assert contents(tree(place)) == {"notes.md": "old\n"}
        assert list((place / "base" / "staging").iterdir()) == []
        files.close()
    assert 5 < number < 199 and found == after


def test_a_disk_that_fails_leaves_the_old_content_and_says_no_host_path(tmp_path, monkeypatch):
    """Y-63, Y-72."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="old")

    def full(*given, **named):
        raise OSError(28, "No space left on device", str(tmp_path))

    for name in ("fdatasync", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            texts = [refused(files, "create", "/memories/new.md", file_text="x")]
            if name != "link":
                texts.append(refused(files, "insert", NOTES, insert_line=0, insert_text="x"))
            for text in texts:
                assert "No space" in text or "history" in text
                assert str(tmp_path) not in text
        assert contents(tree(tmp_path)) == {"notes.md": "old"}


def test_a_history_that_cannot_be_written_keeps_the_tool_from_changing_anything(tmp_path):
    """Y-63, Y-75."""
    base = tmp_path / "base"
    base.mkdir()
    (base / "history.db").write_text(
        "this is no database, but long enough to be taken for one" * 99
    )
    text = refused(opened(tmp_path), "create", NOTES, file_text="x")
    assert "history" in text and str(tmp_path) not in text
    assert contents(tree(tmp_path)) == {}


# --- several at once ---

INSERT = """
import sys
from refold.memory import MemoryFiles
files = MemoryFiles(folder=sys.argv[1], by=sys.argv[2])
for n in range(int(sys.argv[3])):
    text = f"{sys.argv[2]}-{n}"
    arguments = {"command": "insert", "path": "/memories/notes.md", "insert_line": 0, "insert_text": text}
    answer = files.call(arguments)
    while "busy" in answer.text:  # A loaded machine may make one of many wait for long.
        answer = files.call(arguments)
    assert not answer.is_error, answer.text
"""


def test_sixteen_processes_that_insert_lose_nothing(tmp_path):
    """Y-78."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="")
    arguments = [sys.executable, "-c", INSERT, str(tmp_path / "base")]
    running = [subprocess.Popen([*arguments, f"agent{n}", "4"]) for n in range(16)]
    assert [process.wait(300) for process in running] == [0] * 16
    lines = contents(tree(tmp_path))["notes.md"].splitlines()
    assert sorted(lines) == sorted(f"agent{n}-{m}" for n in range(16) for m in range(4))
    assert len(files.history(NOTES)) == 65
    assert {line.by for line in files.blame(NOTES)} == {f"agent{n}" for n in range(16)}


def test_of_parallel_creates_one_succeeds(tmp_path):
    """Y-66, Y-78."""
    answers = []
    shared = opened(tmp_path)
    tools = [shared, shared, opened(tmp_path), opened(tmp_path)]

    def create(files: MemoryFiles, number: int) -> None:
        answers.append((call(files, "create", NOTES, file_text=str(number)).is_error, number))

    threads = [threading.Thread(target=create, args=(files, n)) for n, files in enumerate(tools)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [number for is_error, number in answers if not is_error]
    assert contents(tree(tmp_path)) == {"notes.md": str(winner)} and len(answers) == 4


def test_a_change_by_somebody_without_the_lock_is_not_overwritten(tmp_path, monkeypatch):
    """Y-78."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="old\n")
    plain = os.fdatasync

    def interrupted(fd):
        (tree(tmp_path) / "notes.md").write_text("written by an editor\n")
        plain(fd)

    monkeypatch.setattr(os, "fdatasync", interrupted)
    assert "has changed since it was read" in refused(
        files, "insert", NOTES, insert_line=0, insert_text="x"
    )
    assert contents(tree(tmp_path)) == {"notes.md": "written by an editor\n"}


def test_a_list_that_is_read_while_files_come_and_go_is_no_error(tmp_path):
    """Y-78."""
    files = opened(tmp_path)
    said(files, "create", "/memories/d/kept.md", file_text="x")
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            for n in range(20):
                (tree(tmp_path) / "d" / str(n)).write_text("x")
            for n in range(20):
                (tree(tmp_path) / "d" / str(n)).unlink()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(300):
            assert "kept.md" in said(files, "view", "/memories")
    finally:
        ended.set()
        other.join()


def test_a_lock_that_is_held_too_long_is_said(tmp_path, monkeypatch):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="x")
    monkeypatch.setattr(descriptors, "LOCK_S", 0.05)
    holder = descriptors.Place(str(tmp_path / "base"))
    with holder.locked():
        assert "busy" in refused(files, "create", "/memories/b.md", file_text="x")
        assert said(files, "view", NOTES)
    assert Path(holder.tree) == tree(tmp_path)


def test_a_process_that_was_forked_goes_on_with_the_same_tool(tmp_path):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="")
    child = os.fork()
    if child == 0:
        status = 2
        try:
            answer = call(files, "insert", NOTES, insert_line=0, insert_text="child")
            status = int(answer.is_error)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    said(files, "insert", NOTES, insert_line=0, insert_text="parent")
    assert status == 0 and contents(tree(tmp_path)) == {"notes.md": "parent\nchild\n"}
    assert len(files.history()) == 3
