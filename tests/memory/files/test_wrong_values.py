"""A wrong value at any argument is refused by an error of the family, and changes nothing."""

from __future__ import annotations

import inspect

import pytest

from refold.checked import checked
from refold.errors import RefoldError
from refold.memory import MemoryFiles
from tests.memory.files.kit import contents, opened, said, tree
from tests.test_checked import WRONG

NOTES = "/memories/notes.md"
RIGHT = {
    "__init__": {},
    "tool": {},
    "sdk_tool": {},
    "undo": {"path": "/memories/nope"},
    "forget": {"path": "/memories/nope"},
    "history": {"path": NOTES},
    "version": {"path": NOTES, "seq": 1},
    "blame": {"path": NOTES},
}
METHODS = [name for name, value in vars(MemoryFiles).items() if inspect.isfunction(value)]
PUBLIC = [name for name in METHODS if not name.startswith("_")]
CASES = [
    (name, argument)
    for name in RIGHT
    for argument in list(inspect.signature(getattr(MemoryFiles, name)).parameters)[1:]
]


def test_every_method_checks_its_arguments():
    # `call` answers a model; `close` takes nothing.
    assert {*RIGHT} == {*PUBLIC, "__init__"} - {"call", "close"}
    for name in RIGHT:
        assert getattr(MemoryFiles, name).__code__ is checked(lambda: None).__code__, name


@pytest.mark.parametrize(("name", "argument"), CASES, ids=[f"{n}-{a}" for n, a in CASES])
def test_a_wrong_value_is_refused_and_changes_nothing(tmp_path, monkeypatch, name, argument):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="kept")
    for value in WRONG:
        # Without a path, these are for all files.
        if value == "" and name == "undo":
            continue
        given = {**RIGHT[name], argument: value}
        try:
            if name == "__init__":
                MemoryFiles(**given)
            else:
                getattr(files, name)(**given)
        except RefoldError as error:
            assert str(error)
    assert contents(tree(tmp_path)) == {"notes.md": "kept"}
    assert [one.name for one in tmp_path.iterdir()] == ["base"]


@pytest.mark.parametrize("value", WRONG, ids=lambda one: f"{one!r:.20}")
def test_a_wrong_value_in_a_call_is_answered(tmp_path, value):
    """Y-71."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="kept")
    for arguments in (value, {"command": value}, {"command": "view", "path": value}):
        answer = files.call(arguments)
        assert answer.is_error and answer.text.encode() and len(answer.text) < 1_000
    for field in ("old_str", "new_str"):
        arguments = {
            "command": "str_replace",
            "path": NOTES,
            "old_str": "nope",
            "new_str": "x",
            field: value,
        }
        assert files.call(arguments).is_error
    assert contents(tree(tmp_path)) == {"notes.md": "kept"}
