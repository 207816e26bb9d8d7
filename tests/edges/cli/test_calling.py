"""A command that an output or an error names can be pasted: it works where this call worked, and
the shell reads every value as it is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.cli.options import (
    PLACES,
    STORE_HELP,
    Place,
    at_places,
    in_chat,
    in_shell,
    parameters,
    places_of,
)
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.command import parameters_of
from refold.edges.commands.command_line import split
from tests.edges.cli.rooms import as_json, run, seeded
from tests.edges.commands.test_commands import arguments

pytestmark = pytest.mark.usefixtures("alone")
ELSEWHERE = 'sqlite:some where/it\'s "other".db'
# These talk until somebody ends them, or show the help and name no command to run next.
NOT_RUN = ("ui", "chat", "demo", "serve", "proxy", "mcp", "watch", "run", "help", "login", "logout")
WITH_STORE = [name for name in COMMANDS if load(name).on != "nothing" and name not in NOT_RUN]
NAMES = "|".join(sorted(COMMANDS, key=len, reverse=True))
CALLED = re.compile(rf"\brefold ({NAMES})\b(?! wrote)([^\n]*?)(?=\brefold |\n|$)")


def takes_store(name: str) -> bool:
    return any("--store" in one.opts for one in parameters(load(name)))


def words_of(name: str, url: str) -> list[str]:
    """The example of a command as words of a command line."""
    command, example = load(name), arguments(name, url)
    words = [*name.split(), *(["fix-login"] if command.on == "conversation" else [])]
    for one in sorted(parameters_of(command), key=lambda one: one.option == ""):
        value: Any = getattr(example, one.name)
        values = value if one.is_many else [value]
        for each in [] if value == one.default else values:
            options = [one.option] if one.option else []
            words += options if one.kind == "flag" else [*options, str(each)]
    return words


@pytest.mark.parametrize("name", WITH_STORE)
def test_every_command_that_an_output_names_has_the_store_of_the_call(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "some where").mkdir()
    seeded(ELSEWHERE)
    words = words_of(name, ELSEWHERE)
    # What was said once is there to be taken back.
    run("compact", "fix-login", "--strategy", "hide", "--target", "60", "--store", ELSEWHERE)
    shown = run(*words, "--store", ELSEWHERE)
    for called, rest in CALLED.findall(shown.output):
        if takes_store(called) and not rest.startswith(" --help"):
            assert f"--store {shlex.quote(ELSEWHERE)}" in rest, shown.output


@pytest.mark.parametrize("name", WITH_STORE)
def test_every_command_that_an_error_names_has_the_store_of_the_call(name: str) -> None:
    seeded("sqlite:other.db")
    words = [word.replace("fix-login", "nobody") for word in words_of(name, "sqlite:other.db")]
    shown = run(*words, "--store", "sqlite:other.db")
    for called, rest in CALLED.findall(shown.output):
        if takes_store(called) and not rest.startswith(" --help"):
            assert "--store sqlite:other.db" in rest, shown.output


def test_an_undo_that_is_pasted_changes_the_conversation_it_was_printed_for(url: str) -> None:
    seeded("sqlite:other.db")
    compact = ("compact", "fix-login", "--strategy", "hide", "--target", "60")
    run(*compact)
    ours = as_json("show", "fix-login")["slots"]
    shown = run(*compact, "--store", "sqlite:other.db").stdout
    [pasted] = re.findall(r"Undo with: refold (.*)", shown)
    assert run(*shlex.split(pasted)).exit_code == 0
    assert as_json("show", "fix-login")["slots"] == ours
    there = as_json("show", "fix-login", "--store", "sqlite:other.db")["slots"]
    assert len(there) > len(ours)


def test_a_call_without_a_conversation_is_told_the_way_in_its_store() -> None:
    seeded("sqlite:other.db")
    error = run("undo", "--store", "sqlite:other.db").stderr
    assert "refold undo @1 --store sqlite:other.db is about the newest" in error
    assert "refold list --store sqlite:other.db shows all" in error


@pytest.mark.parametrize("place", [("--project", "the project"), ("--store", "sqlite:o'ther.db")])
@pytest.mark.parametrize("scope", ["user", "agent.reader"])
def test_what_was_remembered_elsewhere_is_forgotten_there(
    place: tuple[str, str], scope: str, tmp_path: Path
) -> None:
    (tmp_path / "the project").mkdir()
    seeded("sqlite:o'ther.db")
    shown = run("memory", "add", "The port is 7000", "--scope", scope, *place).stdout
    [pasted] = re.findall(r"Forget it with: refold (.*)", shown)
    assert run(*shlex.split(pasted), "--yes").exit_code == 0
    assert not as_json("memory", "list", "--scope", scope, *place)["entries"]


def test_a_chat_says_how_to_go_on_in_its_store() -> None:
    said = run("chat", "--model", "scripted", "--store", "sqlite:o ther.db", input="hello\n")
    assert re.search(
        r"go on with: refold chat --resume \S+ --store 'sqlite:o ther.db'", said.stderr
    )
    unset = run("chat", "--store", "sqlite:o ther.db", input="")
    assert unset.stderr.count("refold chat --store 'sqlite:o ther.db' --model") >= 1


def test_what_stayed_at_its_default_is_not_said() -> None:
    add = load("memory add")
    assert places_of(add, {"scope": "project", "store": None, "project": None}) == ()
    assert [one.option for one in places_of(add, {"scope": "user"})] == ["--scope"]
    assert run("list").exit_code == 0 and "--store" not in run("show", "nobody").stderr


def test_only_the_very_same_option_is_carried() -> None:
    team = places_of(load("token list"), {"store": "sqlite:team", "org": "acme"})
    assert "--store sqlite:team" in in_shell("token create", (), team)
    assert in_shell("list", (), team) == "refold list"
    assert "--scope" not in in_shell("token create", (), (Place("--scope", "x", "user"),))
    assert {one.option for one in places_of(load("memory list"), {"scope": "user"})} <= {*PLACES}


@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), max_size=4))
def test_a_shell_reads_every_word_as_it_is(words: list[str]) -> None:
    store = Place("--store", STORE_HELP, "sqlite:a b'c\".db")
    written = shlex.split(in_shell("restore", tuple(words), (store,)))
    assert written == [
        "refold",
        "restore",
        *words,
        *(["--store", store.value] * ("--store" not in words)),
    ]


@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), max_size=4))
def test_a_chat_reads_every_word_as_it_is(words: list[str]) -> None:
    assert split(in_chat("restore", tuple(words))) == ["/restore", *words]


@given(name=st.sampled_from(sorted(COMMANDS)), value=st.text(min_size=1, max_size=20))
def test_a_text_keeps_all_but_the_places_that_it_is_given(name: str, value: str) -> None:
    store = Place("--store", STORE_HELP, value)
    text = f"look with refold {name} ID, or upgrade refold"
    placed = at_places(text, (store,))
    assert placed.replace(f" --store {shlex.quote(value)}", "", 1) == text
    assert (placed != text) == (load(name).on != "nothing")
    assert at_places(text, ()) == text
    assert at_places(placed, (store,)) == placed or "--store" not in placed.split()


def test_a_file_with_spaces_is_quoted(url: str, tmp_path: Path) -> None:
    shown = run("checkpoint", "fix-login", "before it's $HOME").stdout
    [pasted] = re.findall(r"Go back with: refold (.*)", shown)
    assert shlex.split(pasted)[2] == "before it's $HOME"
    assert run(*shlex.split(pasted), "--dry-run").exit_code == 0
