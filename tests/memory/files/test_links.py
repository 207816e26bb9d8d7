"""Links are not followed, whoever put them there and whenever; what is no file is refused and
never waited for."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from tests.memory.files.kit import SECRET, call, contents, opened, outside, refused, said, tree


def all_commands(path: str) -> list[dict[str, object]]:
    return [
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "canary", "new_str": "x"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/stolen"},
        {"command": "rename", "old_path": "/memories/own.md", "new_path": path},
    ]


@pytest.mark.parametrize(
    "target", ["folder", "file", "relative", "absent", "loop", "chain", "root"]
)
def test_no_link_is_followed(tmp_path, target):
    """Y-62."""
    away = outside(tmp_path)
    files = opened(tmp_path)
    said(files, "create", "/memories/own.md", file_text="own")
    link = tree(tmp_path) / "link"
    places = {
        "folder": away, "file": away / "canary.txt", "relative": "../../outside", "absent": away / "new",
        "loop": link, "chain": tree(tmp_path) / "second", "root": "/",
    }  # fmt: skip
    link.symlink_to(places[target])
    (tree(tmp_path) / "second").symlink_to(away)
    for path in ("/memories/link", "/memories/link/canary.txt", "/memories/link/new/x.md"):
        for command in all_commands(path):
            answer = files.call(command)
            assert answer.is_error and SECRET not in answer.text, command
            assert "link" in answer.text or "already exists" in answer.text, answer.text
            assert str(tmp_path) not in answer.text
    assert contents(away) == {"canary.txt": SECRET}
    assert link.is_symlink() and (tree(tmp_path) / "own.md").exists()


def test_a_tree_that_holds_a_link_is_deleted_without_what_the_link_leads_to(tmp_path):
    """Y-62."""
    away = outside(tmp_path)
    files = opened(tmp_path)
    said(files, "create", "/memories/a/x.md", file_text="x")
    (tree(tmp_path) / "a" / "link").symlink_to(away)
    said(files, "delete", "/memories/a")
    assert contents(away) == {"canary.txt": SECRET} and contents(tree(tmp_path)) == {}
    files.undo()
    assert contents(tree(tmp_path)) == {"a/x.md": "x"}


def test_a_root_staging_or_lock_that_is_a_link_is_refused(tmp_path):
    """Y-62."""
    away = outside(tmp_path)
    for name in ("memories", "staging", "lock"):
        place = tmp_path / name
        (place / "base").mkdir(parents=True)
        (place / "base" / name).symlink_to(away if name != "lock" else away / "canary.txt")
        files = opened(place)
        text = refused(files, "create", "/memories/x.md", file_text="x")
        assert str(tmp_path) not in text
    assert contents(away) == {"canary.txt": SECRET}


def test_a_hard_link_leaves_the_other_file_as_it_was(tmp_path):
    away = outside(tmp_path)
    files = opened(tmp_path)
    said(files, "create", "/memories/own.md", file_text="own")
    os.link(away / "canary.txt", tree(tmp_path) / "hard.md")
    said(files, "str_replace", "/memories/hard.md", old_str="canary", new_str="changed")
    said(files, "delete", "/memories/hard.md")
    assert contents(away) == {"canary.txt": SECRET}


def test_pipes_sockets_and_devices_are_refused_at_once(tmp_path):
    files = opened(tmp_path)
    said(files, "create", "/memories/own.md", file_text="own")
    os.mkfifo(tree(tmp_path) / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(tree(tmp_path), os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{folder}/socket")
        finally:
            os.close(folder)
    start = time.monotonic()
    for name in ("pipe", "socket"):
        for command in all_commands(f"/memories/{name}"):
            assert files.call(command).is_error
    assert time.monotonic() - start < 60
    assert said(files, "view", "/memories").count("\n") == 2


# --- races ---


class Swapper(threading.Thread):
    """Swaps a folder of the tree for a link to a place outside, back and forth."""

    def __init__(self, folder, away):
        super().__init__(daemon=True)
        self.folder, self.away, self.aside = folder, away, folder.parent.parent / "aside"
        self.ended, self.swaps = threading.Event(), 0

    def run(self):
        while not self.ended.is_set():
            os.rename(self.folder, self.aside)
            self.put(lambda: os.symlink(self.away, self.folder))
            time.sleep(0)
            os.unlink(self.folder)
            self.put(lambda: os.rename(self.aside, self.folder))
            self.swaps += 1
            time.sleep(0)

    def put(self, step):
        """Takes a step; a folder that the tool made in its way meanwhile is moved aside."""
        while True:
            try:
                return step()
            except OSError:
                os.rename(self.folder, self.aside.parent / f"made-{time.monotonic_ns()}")


def race(place, rounds):
    """How many rounds of all commands reached the folder that is being swapped."""
    away = outside(place)
    files = opened(place)
    said(files, "create", "/memories/d/own.md", file_text="own")
    said(files, "create", "/memories/source.md", file_text="source")
    swapper = Swapper(tree(place) / "d", away)
    swapper.start()
    # As many as were asked for, and more where the machine gave one of the two no time.
    reached, n = 0, 0
    while swapper.is_alive() and n < 50 * rounds:
        if n >= rounds and swapper.swaps > rounds / 10 and reached > rounds:
            break
        n += 1
        commands = [
            {"command": "view", "path": "/memories/d"},
            {"command": "view", "path": "/memories/d/canary.txt"},
            {"command": "view", "path": "/memories"},
            {"command": "create", "path": f"/memories/d/{n}.md", "file_text": "x"},
            {"command": "insert", "path": "/memories/d/canary.txt", "insert_line": 0, "insert_text": "x"},
            {"command": "delete", "path": "/memories/d/canary.txt"},
            {"command": "rename", "old_path": "/memories/d/canary.txt", "new_path": f"/memories/s{n}.md"},
            {"command": "rename", "old_path": "/memories/source.md", "new_path": "/memories/d/source.md"},
            {"command": "rename", "old_path": "/memories/d/source.md", "new_path": "/memories/source.md"},
            {"command": "delete", "path": f"/memories/d/{n}.md"},
        ]  # fmt: skip
        for command in commands:
            answer = files.call(command)
            assert SECRET not in answer.text and "the tool failed" not in answer.text
            assert "canary.txt\n" not in answer.text
            reached += not answer.is_error
    swapper.ended.set()
    swapper.join()
    assert contents(away) == {"canary.txt": SECRET}
    assert (away / "canary.txt").stat().st_nlink == 1
    assert swapper.swaps > rounds / 10 and reached > rounds
    files.close()


@pytest.fixture
def without_syncs(monkeypatch):
    """Nothing is waited for: the race is about names, not about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(tmp_path, without_syncs):
    """Y-62."""
    race(tmp_path, 200)


@pytest.mark.soak
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere_in_many_rounds(tmp_path, without_syncs):
    """Y-62."""
    race(tmp_path, 20_000)


@pytest.mark.parametrize("number", [1, 2])
def test_a_swap_between_the_check_and_the_open_is_refused(tmp_path, monkeypatch, number):
    """Y-62."""
    away = outside(tmp_path)
    files = opened(tmp_path)
    said(files, "create", "/memories/d/canary.txt", file_text="own")
    plain, looks = os.stat, []

    def stat_then_swap(path, **given):
        found = plain(path, **given)
        if path == "canary.txt":
            looks.append(path)
            if len(looks) == number:
                own = tree(tmp_path) / "d" / "canary.txt"
                os.unlink(own)
                os.symlink(away / "canary.txt", own)
        return found

    monkeypatch.setattr(os, "stat", stat_then_swap)
    answer = call(files, "view", "/memories/d/canary.txt")
    assert len(looks) == 2 and answer.is_error and SECRET not in answer.text


def test_a_pipe_that_is_put_between_the_check_and_the_open_is_not_waited_for(tmp_path, monkeypatch):
    """Y-62."""
    files = opened(tmp_path)
    said(files, "create", "/memories/x.md", file_text="own")
    plain, looks = os.stat, []

    def stat_then_swap(path, **given):
        found = plain(path, **given)
        if path == "x.md":
            looks.append(path)
            if len(looks) == 2:
                os.unlink(tree(tmp_path) / "x.md")
                os.mkfifo(tree(tmp_path) / "x.md")
        return found

    monkeypatch.setattr(os, "stat", stat_then_swap)
    assert "neither a file" in refused(files, "view", "/memories/x.md")
