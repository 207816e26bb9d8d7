"""There are several scopes, some for reading only, and what is kept is there in the next session."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys

import pytest

import refold
from refold.errors import Denied, Invalid, Unavailable
from refold.memory import MemoryFiles
from refold.memory.files.descriptors import place_of
from tests.memory.files.kit import contents, opened, refused, said, tree


def test_what_one_session_keeps_the_next_one_sees(tmp_path):
    """Y-60."""
    said(opened(tmp_path), "create", "/memories/notes.md", file_text="kept")
    code = f"from refold.memory import MemoryFiles; print(MemoryFiles(folder={str(tmp_path / 'base')!r}).call("
    code += "{'command': 'view', 'path': '/memories/notes.md'}).text)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("     1\tkept\n")


def test_each_scope_has_a_place_of_its_own(tmp_path, monkeypatch):
    """Y-60, Y-76."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    scopes = ("user", "project", "agent.reviewer", "agent.coder")
    for scope in scopes:
        said(MemoryFiles(scope), "create", "/memories/who.md", file_text=scope)
    for scope in scopes:
        assert said(MemoryFiles(scope), "view", "/memories/who.md").endswith(f"\t{scope}")
    assert (tmp_path / "data/refold/memory/user/memories/who.md").exists()
    assert (tmp_path / ".refold/memory/agent.coder/memories/who.md").exists()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert said(MemoryFiles(), "view", "/memories/who.md").endswith("\tproject")
    for wrong in (
        "",
        "team",
        "agent",
        "agent.",
        "agent.a/b",
        "agent...",
        "agent.\0",
        "users",
        3,
        "agent." + "x" * 99,
    ):
        with pytest.raises(Invalid):
            MemoryFiles(wrong)


@pytest.mark.parametrize("home", [None, "", "~", "relative"])
def test_without_a_home_the_system_says_where_the_user_lives(monkeypatch, home):
    """Y-60."""
    environ = {} if home is None else {"HOME": home}
    assert place_of("user", environ).folder.startswith(pwd.getpwuid(os.getuid()).pw_dir)

    def nobody(number):
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(Unavailable, match="home"):
        place_of("user", environ)


def test_a_folder_for_reading_only_is_read_and_never_written(tmp_path):
    """Y-76."""
    writer = opened(tmp_path)  # held, because its end removes files of its database
    said(writer, "create", "/memories/notes.md", file_text="one\n")
    files = opened(tmp_path, read_only=True)
    before = sorted(tmp_path.rglob("*"))
    assert said(files, "view", "/memories/notes.md").endswith("\tone")
    for command, given in [
        ("create", {"path": "/memories/x", "file_text": "x"}),
        ("str_replace", {"path": "/memories/notes.md", "old_str": "one", "new_str": "x"}),
        ("insert", {"path": "/memories/notes.md", "insert_line": 0, "insert_text": "x"}),
        ("delete", {"path": "/memories/notes.md"}),
        ("rename", {"old_path": "/memories/notes.md", "new_path": "/memories/x"}),
    ]:
        assert "read-only" in refused(files, command, **given)
    with pytest.raises(Denied):
        files.undo()
    assert [change.command for change in files.history()] == ["create"]
    assert [line.line for line in files.blame("/memories/notes.md")] == ["one"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_mount_is_seen_below_the_root_under_its_name(tmp_path):
    """Y-76."""
    team = opened(tmp_path / "team")
    said(team, "create", "/memories/rules/style.md", file_text="tabs\n")
    shown = opened(tmp_path / "team", read_only=True)
    files = opened(tmp_path, mounts={"team": shown, "own": opened(tmp_path / "own")})
    said(files, "create", "/memories/notes.md", file_text="mine")
    said(files, "create", "/memories/own/x.md", file_text="x")
    rows = said(files, "view", "/memories").split("\n")[1:]
    assert [row.split("\t")[1] for row in rows] == [
        "/memories", "/memories/notes.md", "/memories/own/", "/memories/own/x.md", "/memories/team/", "/memories/team/rules/",
    ]  # fmt: skip
    assert said(files, "view", "/memories/team/rules/style.md").endswith("\ttabs")
    assert "/memories/team/rules/style.md" in said(files, "view", "/memories/team")
    assert "read-only" in refused(files, "create", "/memories/team/x", file_text="x")
    assert "read-only" in refused(files, "delete", "/memories/team/rules")
    assert refused(files, "view", "/memories/team/nope") == (
        "The path /memories/team/nope does not exist. Please provide a valid path."
    )
    for name in ("team", "own"):
        assert "itself" in refused(files, "delete", f"/memories/{name}")
        assert "itself" in refused(
            files, "rename", old_path=f"/memories/{name}", new_path="/memories/z"
        )
        text = refused(
            files, "rename", old_path="/memories/notes.md", new_path=f"/memories/{name}/n"
        )
        assert "mounts" in text
    assert files.history("/memories/own/x.md")[0].path == "/memories/x.md"
    assert files.blame("/memories/own/x.md")[0].by == "model"
    files.undo("/memories/own/x.md")
    assert contents(tree(tmp_path / "own")) == {} and contents(tree(tmp_path)) == {
        "notes.md": "mine"
    }


def test_a_mount_has_a_plain_name_and_no_mounts_of_its_own(tmp_path):
    inner = opened(tmp_path / "inner")
    for name in ("", "..", "a/b", "a\0", "CON"):
        with pytest.raises(Invalid, match="mounts"):
            opened(tmp_path, mounts={name: inner})
    with pytest.raises(Invalid, match="of its own"):
        opened(tmp_path, mounts={"a": opened(tmp_path, mounts={"b": inner})})


def test_the_room_is_public():
    assert refold.memory.MemoryFiles is MemoryFiles


def test_what_is_no_folder_and_no_author_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for wrong in ("", "~nobody-of-this-name/x", "a\0b", 3):
        with pytest.raises(Invalid):
            MemoryFiles(folder=wrong)
    for wrong in ("", "\ud800", None):
        with pytest.raises(Invalid):
            MemoryFiles(folder=str(tmp_path), by=wrong)
    said(MemoryFiles(folder="~/notes"), "create", "/memories/a", file_text="")
    assert (tmp_path / "notes/memories/a").exists()


def test_a_folder_for_reading_only_that_nobody_wrote_to_is_empty(tmp_path):
    """Y-76."""
    files = opened(tmp_path, read_only=True)
    assert said(files, "view", "/memories").endswith("0B\t/memories")
    assert files.history() == [] and list(tmp_path.iterdir()) == []


def test_a_project_cannot_lead_its_memories_elsewhere(tmp_path, monkeypatch):
    """Y-62, Y-76."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    said(MemoryFiles("user"), "create", "/memories/private.md", file_text="private")
    user = tmp_path / "data/refold/memory/user"
    before = contents(user / "memories")
    for number, (link, target) in enumerate(
        [
            (".refold/memory/project", user),
            (".refold/memory", user.parent),
            (".refold/memory/project/history.db", user / "history.db"),
            (".refold/memory/project/history.artifacts", user / "history.artifacts"),
            (".refold/memory/project/memories", user / "memories"),
        ]
    ):
        project = tmp_path / str(number)
        (project / link).parent.mkdir(parents=True)
        (project / link).symlink_to(target)
        monkeypatch.chdir(project)
        if link == ".refold/memory":
            with pytest.raises(Denied, match="link"):
                MemoryFiles("project")
            continue
        files = MemoryFiles("project")
        for command, given in [("view", {}), ("create", {"file_text": "x"}), ("delete", {})]:
            text = refused(files, command, "/memories/private.md", **given)
            assert "link" in text and str(tmp_path) not in text
        if not link.endswith("memories"):
            with pytest.raises(Denied):
                files.history()
    assert contents(user / "memories") == before and len(MemoryFiles("user").history()) == 1
