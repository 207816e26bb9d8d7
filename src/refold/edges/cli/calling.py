"""How a command is written for whoever is to run it next, so that it can be pasted: every word is
quoted for the shell, and it works where this call worked.

What a call was told about its place (`--store`, `--project`, `--scope`, ...) is carried into every
command it names that takes the very same option. One that stayed at its default is not: the next
call has that default, too. Neighbours: `Screen.call` writes the commands of results by `in_shell`
and `in_chat`, `app` those in the hints of errors by `at_places`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from refold.edges.cli.options import STORE_HELP
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.command import Command
from refold.edges.commands.line import split
from refold.edges.commands.parameters import parameters_of

PLACES = ("--store", "--project", "--scope", "--far", "--key")


class Place(NamedTuple):
    """An option that says where a command works, with the value it was given. Two options are
    the same if they say the same: the store of a server is not that of a conversation."""

    option: str
    help: str
    value: str


def places_of(command: Command[Any, Any], given: Mapping[str, Any]) -> tuple[Place, ...]:
    """Where a call was told to work."""
    taken = _place_options(command.name)
    values = ((option, help, default, given.get(option[2:])) for option, help, default in taken)
    return tuple(
        Place(option, help, value)
        for option, help, default, value in values
        if isinstance(value, str) and value != default
    )


def in_shell(name: str, words: tuple[str, ...], places: tuple[Place, ...]) -> str:
    """`refold undo ID --store sqlite:other.db`, as a shell reads it."""
    quoted = map(shlex.quote, words)
    return " ".join(("refold", name, *quoted, *_carried(name, " ".join(words), places)))


def in_chat(name: str, words: tuple[str, ...]) -> str:
    """`/restore "two words"`, as a chat reads it."""
    return " ".join((f"/{name}", *map(_quoted_in_chat, words)))


def at_places(text: str, places: tuple[Place, ...], conversation: str = "") -> str:
    """A text of ours that names commands of the shell, with these places in each."""
    if not places:
        return text

    def placed(found: re.Match[str]) -> str:
        return " ".join((found[0], *_carried(found[1], text, places)))

    return _calls_in_text(conversation or "ID").sub(placed, text)


def _carried(name: str, written: str, places: tuple[Place, ...]) -> Iterator[str]:
    """The options of a command that say where it works, but for those that are written already."""
    if not places:
        return
    taken = {(option, help) for option, help, _ in _place_options(name)}
    for option, help, value in places:
        if (option, help) in taken and option not in written.split():
            yield f"{option} {shlex.quote(value)}"


@cache
def _place_options(name: str) -> tuple[tuple[str, str, object], ...]:
    """The options of a command that say where it works: name, help and default."""
    if name not in COMMANDS:
        return ()
    command = load(name)
    own = [(one.option, one.help, one.default) for one in parameters_of(command)]
    store = [("--store", STORE_HELP, None)] if command.on != "nothing" else []
    return tuple(one for one in (*store, *own) if one[0] in PLACES)


@cache
def _calls_in_text(conversation: str) -> re.Pattern[str]:
    """Finds commands to run, with their conversation; not those whose help is to be read, nor
    what one of them `wrote` before."""
    names = "|".join(sorted(COMMANDS, key=len, reverse=True))
    id = f"(?: (?:ID|@1|{re.escape(conversation)})(?![\\w.-]))?"
    return re.compile(rf"\brefold ({names})\b(?!-)(?! --help| wrote){id}")


def _quoted_in_chat(word: str) -> str:
    if split(word) == [word]:
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
