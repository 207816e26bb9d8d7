"""Every change keeps what was before: it can be taken back, read, and blamed."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from refold.errors import Conflict, Denied, Invalid, NotFound
from refold.memory import FileLimits
from tests.memory.files.kit import call, contents, opened, said, tree

NOTES = "/memories/notes.md"


def test_a_change_that_is_taken_back_leaves_the_file_as_it_was(tmp_path):
    """Y-75."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="one\r\ntwo\r\n")
    before = (tree(tmp_path) / "notes.md").read_bytes()
    said(files, "str_replace", NOTES, old_str="one", new_str="1")
    undone = files.undo()
    assert (undone.command, undone.undoes) == ("undo", 2)
    assert (tree(tmp_path) / "notes.md").read_bytes() == before
    assert files.version(NOTES, 2) == "1\ntwo\n" and files.version(NOTES, 1) == "one\ntwo\n"


class Changes(RuleBasedStateMachine):
    """Whatever was done, taking back step by step gives every earlier state again."""

    paths = st.sampled_from(
        [
            "/memories/a.md",
            "/memories/b.md",
            "/memories/d/a.md",
            "/memories/d/e/b.md",
            "/memories/d",
        ]
    )

    def __init__(self):
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.files = opened(self.place)
        self.states = [contents(tree(self.place))]

    def teardown(self):
        self.files.close()
        shutil.rmtree(self.place)

    def did(self, command, **given):
        before = len(self.files.history())
        self.files.call({"command": command, **given})
        if len(self.files.history()) > before:
            self.states.append(contents(tree(self.place)))

    @rule(path=paths, text=st.text("ab\n", max_size=5))
    def create(self, path, text):
        self.did("create", path=path, file_text=text)

    @rule(path=paths, number=st.integers(0, 3))
    def insert(self, path, number):
        self.did("insert", path=path, insert_line=number, insert_text="new")

    @rule(path=paths)
    def replace(self, path):
        self.did("str_replace", path=path, old_str="a", new_str="b")

    @rule(path=paths)
    def delete(self, path):
        self.did("delete", path=path)

    @rule(old=paths, new=paths)
    def rename(self, old, new):
        self.did("rename", old_path=old, new_path=new)

    @rule()
    def undo(self):
        if len(self.states) > 1:
            self.files.undo()
            self.states.pop()
        assert contents(tree(self.place)) == self.states[-1]


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def test_an_empty_folder_that_was_deleted_is_the_newest_change(tmp_path):
    files, folder = opened(tmp_path), tree(tmp_path) / "d"
    said(files, "create", NOTES, file_text="one\n")
    said(files, "create", "/memories/d/e/a.md", file_text="a\n")
    said(files, "insert", NOTES, insert_line=1, insert_text="two")
    said(files, "delete", "/memories/d/e/a.md")
    said(files, "delete", "/memories/d")
    assert files.history()[0].folders == ("/memories/d/e",)
    assert not folder.exists() and files.undo().path == "/memories/d"
    assert (folder / "e").is_dir() and contents(tree(tmp_path)) == {"notes.md": "one\ntwo\n"}
    assert files.undo("/memories/d/e/a.md").undoes == 4
    said(files, "create", "/memories/d/b.md", file_text="b\n")
    (folder / "f").mkdir()
    said(files, "delete", "/memories/d")
    files.undo()
    assert (folder / "f").is_dir() and (folder / "e/a.md").read_text() == "a\n"


def test_nothing_is_taken_back_over_a_change_made_since(tmp_path):
    """Y-75."""
    files = opened(tmp_path)
    with pytest.raises(NotFound):
        files.undo()
    said(files, "create", NOTES, file_text="one\n")
    (tree(tmp_path) / "notes.md").write_text("by hand\n")
    with pytest.raises(Conflict, match="changed since"):
        files.undo()
    said(files, "insert", NOTES, insert_line=1, insert_text="two")
    files.undo(NOTES)
    assert contents(tree(tmp_path)) == {"notes.md": "by hand\n"}
    said(files, "rename", old_path=NOTES, new_path="/memories/b.md")
    (tree(tmp_path) / "notes.md").write_text("again\n")
    with pytest.raises(Conflict, match="exists again"):
        files.undo()


def test_one_path_can_be_taken_back_alone(tmp_path):
    """Y-75."""
    files = opened(tmp_path)
    for name in ("a", "b"):
        said(files, "create", f"/memories/{name}", file_text=name)
    files.undo("/memories/a")
    assert contents(tree(tmp_path)) == {"b": "b"}
    with pytest.raises(NotFound):
        files.undo("/memories/a")


def test_a_history_follows_a_file_through_its_names(tmp_path):
    """Y-75."""
    files = opened(tmp_path, by="ada")
    said(files, "create", "/memories/d/a.md", file_text="one\n")
    said(files, "create", "/memories/other.md", file_text="other\n")
    said(files, "rename", old_path="/memories/d", new_path="/memories/e")
    said(files, "insert", "/memories/e/a.md", insert_line=1, insert_text="two")
    found = files.history("/memories/e/a.md")
    assert [change.command for change in found] == ["insert", "rename", "create"]
    assert {change.by for change in found} == {"ada"} and len(files.history()) == 4
    assert files.version("/memories/e/a.md", 2) == "one\n"
    for path, seq in [("/memories/e/a.md", 0), ("/memories/nope", 9)]:
        with pytest.raises(NotFound):
            files.version(path, seq)
    said(files, "delete", "/memories/e")
    with pytest.raises(NotFound, match="did not exist"):
        files.version("/memories/e/a.md", 9)


def test_each_line_knows_who_wrote_it(tmp_path):
    """Y-75."""
    ada, bob = opened(tmp_path, by="ada"), opened(tmp_path, by="bob")
    said(ada, "create", NOTES, file_text="one\ntwo\nthree\n")
    said(bob, "str_replace", NOTES, old_str="two", new_str="2")
    path = tree(tmp_path) / "notes.md"
    path.write_text(path.read_text() + "by hand\n")
    said(ada, "insert", NOTES, insert_line=0, insert_text="zero")
    found = [(line.line, line.by, line.seq) for line in bob.blame(NOTES)]
    assert found == [
        ("zero", "ada", 3), ("one", "ada", 1), ("2", "bob", 2), ("three", "ada", 1), ("by hand", "", 0),
    ]  # fmt: skip
    with pytest.raises(NotFound):
        ada.blame("/memories/nope")


def test_what_a_person_asks_wrongly_is_refused(tmp_path):
    files = opened(tmp_path)
    for wrong in (
        lambda: files.undo(3),
        lambda: files.version(NOTES, "1"),
        lambda: files.blame(None),
    ):
        with pytest.raises(Invalid):
            wrong()
    with pytest.raises(Denied):
        files.history("/etc")
    assert files.history() == [] and not call(files, "view", "/memories").is_error


# --- forgetting, and what is no longer kept ---


def words_on_disk(place: Path, word: str) -> list[str]:
    return [
        str(path)
        for path in place.rglob("*")
        if path.is_file() and word.encode() in path.read_bytes()
    ]


def test_what_is_forgotten_is_in_no_file_any_more(tmp_path):
    files = opened(tmp_path)
    said(files, "create", "/memories/d/a.md", file_text="first hunter2 words\n")
    said(files, "str_replace", "/memories/d/a.md", old_str="hunter2", new_str="hunter2 hunter3")
    said(files, "rename", old_path="/memories/d", new_path="/memories/e")
    said(files, "create", "/memories/d/a.md", file_text="another file, kept\n")
    said(files, "create", "/memories/same.md", file_text="first hunter2 words\n")
    assert files.forget("/memories/e/a.md") == 2
    assert words_on_disk(tmp_path, "hunter3") == []
    assert words_on_disk(tmp_path, "hunter2") == [str(tree(tmp_path) / "same.md")]
    files.forget("/memories/same.md")
    assert words_on_disk(tmp_path, "hunter2") == []
    assert contents(tree(tmp_path)) == {"d/a.md": "another file, kept\n"}
    assert files.history()[0].command == "forget"
    assert files.version("/memories/d/a.md", 9) == "another file, kept\n"
    files.undo()
    assert contents(tree(tmp_path)) == {}
    with pytest.raises(Denied):
        files.forget("/memories")


def test_a_file_that_was_deleted_can_be_forgotten_with_its_folder(tmp_path):
    files = opened(tmp_path)
    for name in ("d/a.md", "d/e/b.md"):
        said(files, "create", f"/memories/{name}", file_text=f"hunter2 {name}")
    said(files, "delete", "/memories/d/a.md")
    assert files.forget("/memories/d") == 2
    assert words_on_disk(tmp_path, "hunter2") == [] and contents(tree(tmp_path)) == {}
    with pytest.raises(NotFound, match="no longer kept"):
        files.undo("/memories/d/a.md")
    assert contents(tree(tmp_path)) == {}


def test_contents_of_old_changes_are_let_go(tmp_path, monkeypatch):
    """Y-73."""
    monkeypatch.setattr("refold.memory.files.tree.DROP_EVERY", 10)
    files = opened(tmp_path, limits=FileLimits(versions=5))
    said(files, "create", NOTES, file_text="0\n")
    for n in range(1, 30):
        said(files, "str_replace", NOTES, old_str=f"{n - 1}\n", new_str=f"{n}\n")
    assert len(files.history()) == 30
    assert files.version(NOTES, 30) == "29\n" and files.version(NOTES, 27) == "26\n"
    with pytest.raises(NotFound, match="no longer kept"):
        files.version(NOTES, 3)
    assert [(line.line, line.seq) for line in files.blame(NOTES)] == [("29", 30)]
    for _ in range(5):
        files.undo()
    assert contents(tree(tmp_path)) == {"notes.md": "24\n"}


def test_threads_that_read_the_history_while_it_is_written_see_whole_changes(tmp_path):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="")
    seen: list[int] = []

    def read():
        for _ in range(30):
            found = files.history()
            assert [one.seq for one in found] == list(range(len(found), 0, -1))
            seen.append(len(found))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(30):
        said(files, "insert", NOTES, insert_line=0, insert_text=str(n))
    for reader in readers:
        reader.join()
    assert len(seen) == 60 and len(files.history()) == 31
