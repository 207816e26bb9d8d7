"""`refold memory add`: something is remembered."""

from __future__ import annotations

from typing import Annotated

from refold.display import cut, one_line
from refold.edges.commands.command import Command, Result, Screen
from refold.edges.commands.memory import (
    CONTENT,
    SCOPE,
    SHOWN_CHARS,
    TAG,
    MemoryArguments,
    memory_of,
)
from refold.edges.commands.session import Session
from refold.memory.entry import MemoryEntry


class AddArguments(MemoryArguments, frozen=True, kw_only=True):
    content: Annotated[str, CONTENT]
    scope: Annotated[str, SCOPE] = "project"
    tag: Annotated[tuple[str, ...], TAG] = ()


class Added(Result, frozen=True, kw_only=True):
    """What is remembered now, and the entries that it ended."""

    entry: MemoryEntry
    ended: tuple[MemoryEntry, ...] = ()


def run(session: Session, arguments: AddArguments) -> Added:
    with memory_of(session, arguments, arguments.scope, creates=True) as memory:
        entry = memory.store(arguments.content, tags=arguments.tag)
        # What it says again has ended the others before.
        past = memory.history(entry.id) if entry.count == 1 else ()
    ended = tuple(one for one in past if one.valid_until_ms == entry.valid_from_ms)
    return Added(entry=entry, ended=ended)


def show(added: Added, screen: Screen) -> None:
    entry = added.entry
    known = f", said {entry.count} times" if entry.count > 1 else ""
    screen.line(f"Remembered as {entry.id}{known}.")
    for one in added.ended:
        screen.line(f"It ends {one.id}: {cut(one_line(one.content), SHOWN_CHARS)}")
    screen.line(f"Forget it with: {screen.call('memory forget', '', entry.id)}")


COMMAND = Command(name="memory add", on="store", arguments=AddArguments, run=run, show=show)
