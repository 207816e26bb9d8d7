"""`refold memory add`: something is remembered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import cut, one_line
from refold.edges.commands.command import Command, Result, Screen
from refold.edges.commands.memory import (
    CONTENT,
    SCOPE,
    SHOWN_CHARS,
    TAG,
    MemoryArguments,
    entry_meant,
    memory_of,
)
from refold.edges.commands.session import Session
from refold.memory.entry import MemoryEntry

REPLACES = Meta(
    description="An entry that this replaces; may be given several times.",
    extra={"metavar": "ENTRY"},
)


class AddArguments(MemoryArguments, frozen=True, kw_only=True):
    content: Annotated[str, CONTENT]
    scope: Annotated[str, SCOPE] = "project"
    tag: Annotated[tuple[str, ...], TAG] = ()
    replaces: Annotated[tuple[str, ...], REPLACES] = ()


class Added(Result, frozen=True, kw_only=True):
    """What is remembered now, the entries that it ended, those that may be about the same, and
    those that came in the place of what it replaces and are true beside it."""

    entry: MemoryEntry
    ended: tuple[MemoryEntry, ...] = ()
    near: tuple[MemoryEntry, ...] = ()
    beside: tuple[MemoryEntry, ...] = ()


def run(session: Session, arguments: AddArguments) -> Added:
    with memory_of(session, arguments, arguments.scope, creates=True) as memory:
        replaced = [entry_meant(memory, typed) for typed in arguments.replaces]
        # Unless another scope is named, it is kept in the scope of what it replaces.
        scope = None if replaced and arguments.scope == "project" else arguments.scope
        entry = memory.store(arguments.content, tags=arguments.tag, scope=scope, replaces=replaced)
        # What was said before ended others then, unless it replaces them only now.
        past = memory.history(entry.id) if entry.count == 1 or replaced else ()
        near = () if replaced else tuple(memory.near(entry.id))
    since_ms = entry.valid_from_ms
    ends = [
        one
        for one in past
        if one.valid_until_ms == since_ms
        or (one.id in replaced and (one.valid_until_ms or 0) > since_ms)
    ]
    beside = [one for one in past if one.id in entry.rivals and one.is_current]
    return Added(entry=entry, ended=tuple(ends), near=near, beside=tuple(beside))


def show(added: Added, screen: Screen) -> None:
    entry = added.entry
    known = f", said {entry.count} times" if entry.count > 1 else ""
    screen.line(f"Remembered as {entry.id}{known}.")
    others = {
        "It ends": added.ended,
        "It may be about the same as": added.near,
        "It is true as well as": added.beside,
    }
    for how, entries in others.items():
        for one in entries:
            screen.line(f"{how} {one.id}: {cut(one_line(one.content), SHOWN_CHARS)}")
    if left := (*added.near, *added.beside):
        call = screen.call("memory add", "", "--replaces", left[0].id, entry.content)
        screen.line(f"If it replaces one of them, say so: {call}")
    screen.line(f"Forget it with: {screen.call('memory forget', '', entry.id)}")


COMMAND = Command(name="memory add", on="store", arguments=AddArguments, run=run, show=show)
