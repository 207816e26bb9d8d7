"""What can stand where the cursor is: slash commands and their options, handles, conversations,
paths.

Names that the conversation has are given as they were when the line began, so a key never waits
for the log; only paths are looked up. Neighbours: `prompt` offers them, `edges.commands` has the
commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from refold.edges.commands import load
from refold.edges.commands.line import table
from refold.edges.commands.parameters import Parameter, parameters_of
from refold.edges.workspace.ignored import NEVER

ENTRIES_MAX = 500


class Names(Struct, frozen=True):
    """What a line can name: the folder's files, handles of the conversation, other conversations,
    and commands that only the chat has."""

    root: Path
    handles: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


def words_for(text: str, names: Names) -> list[str]:
    """The words that the last, unfinished word of a text could become."""
    *before, last = text.split(" ")
    if text.startswith("/"):
        found = _command_words(before, last, names)
    elif last.startswith("@"):
        found = [f"@{path}" for path in paths(last[1:], names.root)]
    else:
        found = []
    return sorted({word for word in found if word.startswith(last) and word != last})


def _command_words(before: Sequence[str], last: str, names: Names) -> Iterable[str]:
    known = [*table(), *names.own]
    if not before:
        return [f"/{name.split()[0]}" for name in known]
    typed = " ".join(before).removeprefix("/")
    inner = [
        name.removeprefix(f"{typed} ").split()[0] for name in known if name.startswith(f"{typed} ")
    ]
    return [*inner, *_argument_words(before, last, names)]


def _argument_words(before: Sequence[str], last: str, names: Names) -> Iterable[str]:
    """What a command takes here: its options, or the values of the one before."""
    if before[0].removeprefix("/") in names.own:
        return names.conversations
    parameters = _parameters(before)
    if last.startswith("-"):
        return [one.option for one in parameters if one.option]
    named = next((one for one in parameters if one.option and one.option == before[-1]), None)
    if named is not None and named.choices:
        return named.choices
    if last.startswith("#") or last.startswith("art-"):
        return names.handles
    return [*_choices(parameters), *names.handles, *names.conversations, *paths(last, names.root)]


def _parameters(before: Sequence[str]) -> tuple[Parameter, ...]:
    """What the command takes whose name has been typed."""
    for count in (2, 1):
        name = " ".join(before[:count]).removeprefix("/")
        if name in table():
            return parameters_of(load(name))
    return ()


def _choices(parameters: Iterable[Parameter]) -> list[str]:
    return [choice for one in parameters if not one.option for choice in one.choices]


def paths(text: str, root: Path) -> list[str]:
    """The files and folders of the folder that begin with a text; folders end with a slash."""
    folder, _, name = text.rpartition("/")
    if os.path.isabs(text) or ".." in folder.split("/"):
        return []
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(root / folder) as found:
            entries = list(islice((one for one in found if one.name.startswith(name)), ENTRIES_MAX))
    except OSError:
        return []
    shown = [one for one in entries if one.name not in NEVER]
    return [f"{prefix}{one.name}{'/' if one.is_dir() else ''}" for one in shown]
