"""`refold memory update`: an entry gets other words or tags."""

from __future__ import annotations

from typing import Annotated

from refold.edges.commands.command import Command, Result, Screen
from refold.edges.commands.memory import (
    CONTENT,
    ENTRY,
    TAG,
    MemoryArguments,
    entry_meant,
    memory_of,
)
from refold.edges.commands.session import Session
from refold.memory.entry import MemoryEntry


class UpdateArguments(MemoryArguments, frozen=True, kw_only=True):
    entry: Annotated[str, ENTRY]
    content: Annotated[str, CONTENT] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()


class Updated(Result, frozen=True, kw_only=True):
    entry: MemoryEntry


def run(session: Session, arguments: UpdateArguments) -> Updated:
    with memory_of(session, arguments) as memory:
        tags = arguments.tag or None
        entry = entry_meant(memory, arguments.entry)
        return Updated(entry=memory.update(entry, arguments.content, tags=tags))


def show(updated: Updated, screen: Screen) -> None:
    entry = updated.entry
    screen.line(f"{entry.id} is version {entry.version} now.")
    screen.line(f"What it said before: {screen.call('memory history', '', entry.id)}")


COMMAND = Command(name="memory update", on="store", arguments=UpdateArguments, run=run, show=show)
