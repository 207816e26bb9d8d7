"""A line of a chat is read as a command of the table, or refused with what to write instead."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.cli.options import Line, parse
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.command import parameters_of
from refold.edges.commands.command_line import as_lines, split, table
from refold.errors import Invalid, RefoldError
from tests.edges.commands.test_commands import EXAMPLES


def given_by(line: str) -> dict[str, object]:
    return msgspec.structs.asdict(parse(line).arguments)


def as_line(name: str) -> str:
    """The example of a command as a person would type it."""
    command = load(name)
    written = {one.name: one.encode_name for one in msgspec.structs.fields(command.arguments)}
    words = [f"/{name}"]
    for one in parameters_of(command):
        value = EXAMPLES[name].get(written[one.name], False)
        for each in value if isinstance(value, list) else [value]:
            if each is not False:
                words += [one.option, "" if each is True else f'"{each}"']
    return " ".join(words)


@pytest.mark.parametrize("name", table())
def test_the_example_of_every_command_can_be_typed(name: str) -> None:
    line = parse(as_line(name))
    assert line.command.name == name and not line.json_output
    expected = msgspec.convert(EXAMPLES[name], line.command.arguments)
    assert line.arguments == expected


@pytest.mark.parametrize("name", table())
def test_every_command_has_json_and_help(name: str) -> None:
    assert parse(f"{as_line(name)} --json").json_output
    asked = parse(f"/{name} --help")
    assert asked.command.name == "help" and asked.arguments.command == name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ('"two words" x', ["two words", "x"]),
        ("'it is' --name='a b' --n=\"c d\"", ["it is", "--name=a b", "--n=c d"]),
        ("don't it's Bob's", ["don't", "it's", "Bob's"]),
        (r'"say \"no\"" C:\new', ['say "no"', r"C:\new"]),
        ('"not closed', ['"not', "closed"]),
        ('"" x', ["", "x"]),
        ("", []),
    ],
)
def test_words_are_split_as_they_are_meant(line: str, words: list[str]) -> None:
    assert split(line) == words


@given(st.lists(st.text(min_size=1).filter(lambda text: "\n" not in text)))
def test_a_quoted_word_is_read_as_it_was(words: list[str]) -> None:
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in words)
    assert split(" ".join(f'"{word}"' for word in escaped)) == words


def test_a_text_of_several_words_needs_no_quotes() -> None:
    assert given_by("/checkpoint before  the change")["name"] == "before the change"
    assert given_by("/memory add The port isn't 6432")["content"] == "The port isn't 6432"
    assert given_by("/search login test")["query"] == ("login", "test")
    assert given_by("/checkpoint -- --odd name")["name"] == "--odd name"


def test_an_option_may_stand_alone_where_it_has_a_value_of_its_own() -> None:
    assert given_by("/compact --writer --dry-run")["writer"] == "configured"
    assert given_by("/compact --writer=http://x")["writer"] == "http://x"


@pytest.mark.parametrize(
    ("line", "reason", "hint"),
    [
        ("/", "no command is named", "/help"),
        ("/compct", "there is no command /compct", "did you mean /compact?"),
        ("/qit", "there is no command /qit", "did you mean /quit?"),
        ("/artifact", "/artifact needs one of: list, show", "/help artifact"),
        ("/artifact lst", "there is no command /artifact lst", "did you mean list?"),
        ("/compact --dryrun", "/compact has no option --dryrun", "did you mean --dry-run?"),
        ("/compact --target", "option '--target' requires an argument", "/help compact"),
        ("/stats --window x", "'x' is not a valid integer", "/help stats"),
        ("/stats --window -1", "-1 is not in the range", "/help stats"),
        ("/artifact grep x --limit 50000", "50000 is not in the range", "/help artifact grep"),
        ("/show --role judge", "'judge' is not one of 'assistant', 'system', 'tool', 'user'", ""),
        ("/pin", "/pin needs SEQ", "/help pin"),
        ("/show 1 2", "got unexpected extra argument (2)", "/help show"),
        ("/compact --dry-run=yes", "'--dry-run' does not take a value", "/help compact"),
        ("/cost", "/cost is now /stats --cost", "/help stats"),
        ("/unfold #41", "/unfold is now /show HANDLE", "/help show"),
        ("/context mesages", "there is no command /context mesages", "did you mean messages?"),
    ],
)
def test_what_is_not_understood_says_what_to_write(line: str, reason: str, hint: str) -> None:
    with pytest.raises(Invalid) as raised:
        parse(line, also=["quit"])
    assert reason in raised.value.message and hint in raised.value.hint


@given(st.text(), st.sampled_from(sorted(COMMANDS)))
def test_any_line_is_a_command_or_invalid(text: str, name: str) -> None:
    for line in (text, f"/{text}", f"/{name} {text}"):
        try:
            assert isinstance(parse(line), Line)
        except RefoldError as error:
            assert isinstance(error, Invalid) and error.hint


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Nothing is lost: refold undo takes it back.", "Nothing is lost: /undo takes it back."),
        ("refold show fix-login --all --brief names", "/show --all --brief names"),
        ("refold list shows their ids", "/list shows their ids"),
        ("refold history ID", "/history"),
        ("refold memory forget mem-1", "/memory forget mem-1"),
        ("refold artifact remove --help", "/artifact remove --help"),
        ("refold serve listens", "refold serve listens"),
        ("upgrade refold", "upgrade refold"),
        ("refold show ID #41 reads a message, refold undo", "/show #41 reads a message, /undo"),
    ],
)
def test_a_hint_for_the_shell_is_said_for_the_chat(text: str, line: str) -> None:
    assert as_lines(text, "fix-login") == line


def test_what_is_for_the_shell_only_is_not_in_the_table() -> None:
    assert "serve" in COMMANDS and "serve" not in table()
