"""Options may stand before the name of a command, inside it and after it: `artifacts --json list`
means what `artifacts list --json` means.

The name is put first, and what reads the words after it need not know. What takes a value is known
only once the command is, so every name that the words could mean is tried, the longest first.
Neighbours: the shell (`edges/cli/app`) and the chat (`line`) both put their words in order here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from refold.edges.commands import GROUPS, Entry, load
from refold.edges.commands.parameters import parameters_of

FLAGS = ("--json", "--no-color", "--debug", "--help", "-h")
WORDS_MAX = 100
Value = Literal["none", "maybe", "needed"]


def named_first(words: Sequence[str], known: Mapping[str, Entry]) -> list[str]:
    """The same words with the name of the command first; as they are, where no command of the
    known ones takes the options that stand before its name."""
    if not _has_options_first(words):
        return list(words)
    for places in _names(words[:WORDS_MAX], known):
        name = " ".join(words[place] for place in places)
        # A value stands beside its option, never behind a word of the name.
        parts = [words[after + 1 : at] for after, at in zip((-1, *places), places)]
        if all(_takes(name, part) for part in parts):
            before = [word for part in parts for word in part]
            return [*name.split(), *before, *words[places[-1] + 1 :]]
    return list(words)


def _has_options_first(words: Sequence[str]) -> bool:
    first, second = [*words, "", ""][:2]
    return _is_option(first) or (first in GROUPS and _is_option(second))


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _names(words: Sequence[str], known: Mapping[str, Entry]) -> Iterator[tuple[int, ...]]:
    """Where the words of a command's name could stand, of one in a group first."""
    for at, word in enumerate(words):
        if word == "--":
            return
        yield from _going_on(words, (at,), known)


def _going_on(
    words: Sequence[str], places: tuple[int, ...], known: Mapping[str, Entry]
) -> Iterator[tuple[int, ...]]:
    """The same, for names that begin with the words at these places."""
    name = " ".join(words[place] for place in places)
    if name in GROUPS:
        for later in range(places[-1] + 1, len(words)):
            yield from _going_on(words, (*places, later), known)
    if name in known:
        yield places


def _takes(name: str, words: Sequence[str]) -> bool:
    """Whether the words are options of the command, each with its value."""
    values = _values(name)
    rest = list(words)
    while rest:
        option, equals, _ = rest.pop(0).partition("=")
        value = values.get(option)
        if value is None:
            return False
        if equals or value == "none":
            continue
        # An option is never another's value: else a value that is a command's name would be one.
        if rest and not _is_option(rest[0]):
            rest.pop(0)
        elif value == "needed":
            return False
    return True


def _values(name: str) -> dict[str, Value]:
    """By option: whether it takes a value."""
    command = load(name)
    values: dict[str, Value] = dict.fromkeys(FLAGS, "none")
    if command.on != "nothing":
        values["--store"] = "needed"
    for one in parameters_of(command):
        value: Value = "none" if one.kind == "flag" else "needed" if one.bare is None else "maybe"
        values |= {option: value for option in (one.option, one.short) if option}
    return values
