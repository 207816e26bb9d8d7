"""Which conversation a command acted on: `@1` and names are found once, and said first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import refold
from refold.edges.commands import COMMANDS, load
from tests.edges.cli.rooms import as_json, on_terminal, run, seeded

pytestmark = pytest.mark.usefixtures("alone")
TITLE = "Conversation fix-login ({}): Fix the login test"

# Every command that changes the conversation it is given, and can be undone: `test_removal` has the
# others. What comes first makes it possible.
CHANGES = {
    "compact": ((), ("compact", "@2", "--strategy", "hide", "--target", "50")),
    "undo": (("hide", "fix-login", "5", "6"), ("undo", "@1")),
    "undo of the second": (("hide", "fix-login", "5", "6"), ("undo", "@2")),
    "redo": (("undo", "fix-login"), ("redo", "@2")),
    "revert": (("hide", "fix-login", "5", "6"), ("undo", "@2", "BATCH")),
    "hide": ((), ("hide", "@2", "5", "6")),
    "pin": ((), ("pin", "@2", "5")),
    "unpin": ((), ("pin", "@2", "5", "--off")),
    "checkpoint": ((), ("checkpoint", "@2", "here")),
    "restore": ((), ("restore", "@2", "4")),
    "clear": ((), ("clear", "@2", "--yes")),
    "edit": ((), ("edit", "@2", "--tag", "x")),
    "edit of the model": ((), ("edit", "@2", "--model", "gpt-4o")),
    "fork": ((), ("fork", "@2", "new")),
    "verify": ((), ("verify", "@2", "--repair")),
    "add": ((), ("add", "@2", "a.txt")),
    "context add": ((), ("context", "add", "@2", "a.txt")),
    "context add-folder": ((), ("context", "add-folder", "@2", ".")),
    "context add-search": ((), ("context", "add-search", "@2", "some")),
    "context prune": ((), ("context", "prune", "@2", "--max-tokens", "50")),
    "context summarize": ((), ("context", "summarize", "@2", "--keep", "2")),
    "condense": ((), ("condense", "@2", "--accept")),
}


@pytest.fixture
def two(url: str, tmp_path: Path) -> str:
    """A store where `fix-login` is the second newest."""
    (tmp_path / "a.txt").write_text("some text")
    time.sleep(0.002)
    seeded(url, "other")
    return url


@pytest.mark.parametrize("name", CHANGES)
def test_a_command_that_changes_says_first_which_conversation_that_was(name: str, two: str) -> None:
    before, call = CHANGES[name]
    if before:
        time.sleep(0.002)
        run("hide", "fix-login", "8", "10")
        assert run(*before).exit_code == 0
        if call[1] == "@2":
            time.sleep(0.002)
            run("pin", "other", "5")
    done = run(*[_word(word) for word in call])
    assert done.exit_code == 0, done.stderr
    place = next(word for word in call if word.startswith("@"))
    assert done.stdout.splitlines()[0] == TITLE.format(place)


def _word(word: str) -> str:
    """A word of a call, with what only the store knows."""
    if word == "BATCH":
        return str(as_json("history", "fix-login")["batches"][0]["id"])
    return word


def test_every_command_that_changes_a_conversation_is_tried() -> None:
    changing = {
        name for name in COMMANDS if not load(name).reads and load(name).on == "conversation"
    }
    # `erase` wants a whole id, and `resume` runs a program.
    assert changing - {"erase", "resume"} <= CHANGES.keys()


def test_what_was_found_once_stays_that_conversation(two: str) -> None:
    """The change makes it the newest: then `@2` would be another."""
    run("hide", "fix-login", "5", "6")
    time.sleep(0.002)
    run("pin", "other", "5")
    undone = as_json("undo", "@2")
    assert undone["conversation"] == "fix-login"
    assert (undone["undo_steps"], undone["redo_steps"]) == (0, 1)


def test_a_name_is_said_with_its_conversation_and_an_id_is_not(two: str) -> None:
    run("edit", "fix-login", "--name", "the login")
    said = run("pin", "the login", "5").stdout
    assert said.splitlines()[0] == TITLE.format("the login")
    assert "Conversation fix-login" not in run("pin", "fix-login", "6").stdout
    assert "Conversation fix-login" not in run("show", "@1").stdout


def test_a_question_comes_after_the_conversation_that_it_is_about(two: str, tmp_path: Path) -> None:
    status, shown = on_terminal("clear", "@2", cwd=tmp_path, typed="n\n", when="off the page")
    assert status != 0
    assert shown.index("Conversation fix-login (@2)") < shown.index("off the page of fix-login")
    assert shown.count("Conversation fix-login") == 1
    with refold.open("fix-login", store=two, read_only=True) as context:
        assert context.view.slots
