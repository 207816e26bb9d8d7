"""Options may stand before a command's name, inside it and after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.cli.options import parameters, parse
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.command import Parameter, parameters_of
from refold.edges.commands.command_line import named_first
from tests.edges.cli.rooms import as_json, run

# Also values that are names of commands: an option takes them all the same.
VALUES = st.sampled_from(["x", "list", "artifact", "show", "memory", "12", "a b"])


def options_of(name: str) -> list[Parameter]:
    return [one for one in parameters_of(load(name)) if one.option]


@st.composite
def given_options(draw: st.DrawFn, name: str) -> list[list[str]]:
    """Some options of a command, each with its value."""
    found = []
    for one in draw(
        st.lists(st.sampled_from(options_of(name)), max_size=3) if options_of(name) else st.just([])
    ):
        if one.kind == "flag":
            found.append([one.option])
            continue
        value = draw(VALUES)
        found.append(draw(st.sampled_from([[one.option, value], [f"{one.option}={value}"]])))
    if load(name).on != "nothing":
        found += draw(st.sampled_from([[], [["--store", "list"]], [["--store=files:x"]]]))
    return found + draw(st.lists(st.sampled_from([["--json"], ["--no-color"]]), max_size=2))


def test_a_value_that_is_a_name_stays_a_value() -> None:
    words = ["--project", "memory", "--store", "list", "memory", "log", "last"]
    assert named_first(words, COMMANDS) == ["memory", "log", *words[:4], "last"]


def test_a_value_that_is_the_name_of_a_group_stays_with_its_option() -> None:
    words = ["--limit", "memory", "memory", "search", "last"]
    assert named_first(words, COMMANDS) == ["memory", "search", "--limit", "memory", "last"]


@given(st.data())
def test_options_stand_wherever_one_likes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(COMMANDS)))
    names = name.split()
    options = data.draw(given_options(name))
    places = [data.draw(st.integers(0, len(names))) for _ in options]
    words: list[str] = []
    for at in range(len(names) + 1):
        for place, option in zip(places, options, strict=True):
            words += option if place == at else []
        words += names[at : at + 1]
    ordered = named_first([*words, "last"], COMMANDS)
    assert ordered[: len(names)] == names and ordered[-1] == "last"
    rest = ordered[len(names) :]
    assert sorted(rest) == sorted([word for option in options for word in option] + ["last"])


@pytest.mark.parametrize(
    "words",
    [
        ("--store", "{url}", "artifact", "list", "fix-login"),
        ("artifact", "--store", "{url}", "list", "fix-login"),
        ("artifact", "--store={url}", "--json", "list", "fix-login"),
        ("artifact", "list", "--store", "{url}", "fix-login"),
        ("--json", "--store", "{url}", "artifact", "--no-color", "list", "fix-login"),
    ],
)
@pytest.mark.usefixtures("alone")
def test_the_same_artifacts_are_listed(url: str, words: tuple[str, ...]) -> None:
    known = as_json("artifact", "list", "fix-login")
    got = run(*(word.format(url=url) for word in words), "--json")
    assert got.exit_code == 0, got.stderr
    assert json.loads(got.stdout) == known


@pytest.mark.parametrize("first", [("--json",), ("--no-color", "--json"), ("--json", "--debug")])
def test_a_group_that_is_a_command_may_be_told_first_how_to_print(
    url: str, tmp_path: Path, first: tuple[str, ...]
) -> None:
    assert as_json("context", *first, "fix-login") == as_json("context", "fix-login")
    synced = ("sync", *first, "--far", f"files:{tmp_path}/far", "--store", url)
    assert as_json(*synced)["far"] == f"files:{tmp_path}/far"
    got = run("context", *first, "mesages", "fix-login")
    assert got.exit_code == 2 and "did you mean messages" in got.stdout + got.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nope", "list"), "no command is named that takes --nope"),
        (("--store",), "no command is named that takes --store"),
        (("artifact", "--store", "x"), "no command is named that takes --store"),
        (("--limit", "x", "undoo"), ""),
    ],
)
@pytest.mark.usefixtures("alone")
def test_what_is_no_option_is_refused_as_ever(words: tuple[str, ...], message: str) -> None:
    got = run(*words)
    assert got.exit_code == 2 and message in got.stderr


def test_a_line_of_a_chat_may_have_them_before_its_name_too() -> None:
    line = parse("/context --role user messages")
    assert line.command.name == "show" and getattr(line.arguments, "list", None) is True
    assert getattr(line.arguments, "role", None) == "user"
    assert parse("/--json stats").json_output


def test_every_option_of_a_command_is_one_of_its_command_line() -> None:
    """What is put in order is what click knows."""
    for name in COMMANDS:
        known: set[Any] = {option for one in parameters(load(name)) for option in one.opts}
        assert {one.option for one in options_of(name)} <= known
