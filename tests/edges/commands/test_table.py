"""The table of commands is small, every name of the designs is in it, and every old name answers."""

from __future__ import annotations

import pytest

from refold.edges.chat.slash import OWN
from refold.edges.cli.options import parse
from refold.edges.commands import ALIASES, COMMANDS, DAILY, GROUPS, MOVED, PREFIXES, load
from refold.edges.commands.command import parameters_of
from refold.edges.commands.command_line import resolved, table
from refold.errors import OUTCOMES, Invalid
from tests.edges.cli.rooms import run

# A new command or option replaces one; the note of the change says why a user needs more.
COMMANDS_MAX, OPTIONS_MAX = 57, 170


def test_there_are_no_more_commands_than_a_person_can_know() -> None:
    assert len(COMMANDS) <= COMMANDS_MAX
    assert len(DAILY) == 10 and {*DAILY} <= COMMANDS.keys()
    assert {entry.group for entry in COMMANDS.values()} == GROUPS.keys()


def test_there_are_no_more_options_to_learn() -> None:
    """An option that several commands take, with the same name and the same help, is one."""
    taken = [one for name in COMMANDS for one in parameters_of(load(name)) if one.option]
    assert len({(one.option, one.help) for one in taken}) <= OPTIONS_MAX


def test_a_name_is_a_command_an_alias_or_a_moved_name() -> None:
    assert not COMMANDS.keys() & ALIASES.keys()
    assert not COMMANDS.keys() & MOVED.keys() and not ALIASES.keys() & MOVED.keys()


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_presets_options_that_its_command_takes(name: str) -> None:
    alias = ALIASES[name]
    known = {one.option for one in parameters_of(load(alias.command))}
    preset = {word.partition("=")[0] for word in alias.preset}
    assert preset | {option for option, _ in alias.options.values()} <= known
    assert alias.summary.endswith(".") and load(name) is load(alias.command)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("context ID", "show --summary ID"),
        ("context messages ID --role user", "show --list ID --role user"),
        ("context prune ID", "compact --strategy=relevance --target=50% ID"),
        (
            "context prune ID --strategy hide --max-tokens 9",
            "compact ID --strategy hide --target 9",
        ),
        ("context prune ID --max-tokens=9", "compact --strategy=relevance ID --target 9"),
        ("context summarize ID --keep 2", "compact --strategy=summarize ID --set keep=2"),
        ("context search ID login test", "search --here --in ID login test"),
        ("context add-search ID def login", "add --search ID def login"),
        ("condense ID --accept", "compact --condense ID --accept"),
        ("show ID", "show ID"),
    ],
)
def test_an_alias_is_its_command_with_options(typed: str, words: str) -> None:
    assert resolved(typed.split(), is_shell=True) == words.split()


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_moved_says_in_both_doors_what_it_is_called_now(name: str) -> None:
    done = run(*name.split(), "x")
    said = f"refold: refold {name} is now refold {MOVED[name]}; "
    assert done.exit_code == OUTCOMES["invalid"][1] and done.stderr.startswith(said)
    if name in OWN:
        return
    with pytest.raises(Invalid) as raised:
        parse(f"/{name} x")
    assert raised.value.message.startswith(f"/{name} is ") and raised.value.hint


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_name_leads_to_a_command_that_takes_the_options(name: str) -> None:
    new = MOVED[name].split()
    command = max((one for one in COMMANDS if MOVED[name].startswith(one)), key=len)
    known = {one.option for one in parameters_of(load(command))}
    assert {word for word in new if word.startswith("--")} <= known


def test_help_lists_the_daily_commands_first_and_aliases_on_request() -> None:
    listed = run("help").stdout.splitlines()
    assert [line.split()[1] for line in listed[: len(DAILY)]] == [*DAILY]
    assert not any(line.startswith("refold context") for line in listed) and len(listed) < 20
    forms = run("help", "context").stdout
    assert all(f"refold {name} " in forms for name in ALIASES if name.startswith("context"))


@pytest.mark.parametrize(("group", "heading"), GROUPS.items())
def test_a_group_is_explained_by_its_name_and_by_its_heading(group: str, heading: str) -> None:
    explained = run("help", group)
    assert explained.exit_code == 0
    assert run("help", *heading.split()).stdout == explained.stdout
    assert run("help", *heading.lower().split()).stdout == explained.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_only_a_number_is_asked_for_as_n(name: str) -> None:
    for one in parameters_of(load(name)):
        if one.option and one.shown.endswith(" N"):
            assert one.kind in ("int", "float"), one.option


@pytest.mark.parametrize("words", [("--json", "cost", "x"), ("help", "cost"), ("cost", "--help")])
def test_a_moved_name_answers_wherever_it_is_named(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.exit_code == 2 and "refold cost is now refold stats --cost" in done.output


def test_what_is_for_a_shell_only_is_not_a_line_of_a_chat() -> None:
    for name in COMMANDS.keys() - table().keys() - PREFIXES.keys() - OWN.keys():
        with pytest.raises(Invalid, match="for a shell"):
            parse(f"/{name}")
