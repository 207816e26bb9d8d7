"""`refold memory inbox`: what waits to be remembered, accepted or rejected by a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.memory import (
    SCOPE,
    Entries,
    MemoryArguments,
    entry_meant,
    memory_of,
    show_entries,
)
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.memory.entry import MemoryEntry
from refold.memory.semantic import SemanticMemory

ACCEPT = Meta(description="Remember this entry, or all; may be given several times.")
REJECT = Meta(description="Drop this entry, or all, for good; may be given several times.")
ALL = "all"
AS = Meta(description="The words in which the accepted entry is remembered.")


class InboxArguments(MemoryArguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    accept: Annotated[tuple[str, ...], ACCEPT] = ()
    reject: Annotated[tuple[str, ...], REJECT] = ()
    content: Annotated[str, AS] | None = None


class Inbox(Entries, frozen=True, kw_only=True):
    """What waits, and what was accepted just now."""

    accepted: tuple[MemoryEntry, ...] = ()


def run(session: Session, arguments: InboxArguments) -> Inbox:
    if arguments.content is not None and len(arguments.accept) != 1:
        raise Invalid("--content needs one entry to accept", hint="name it by --accept")
    with memory_of(session, arguments, arguments.scope) as memory:
        accepted = [
            memory.accept(entry, arguments.content) for entry in _named(memory, arguments.accept)
        ]
        for entry in _named(memory, arguments.reject):
            memory.reject(entry)
        return Inbox(entries=tuple(memory.inbox()), accepted=tuple(accepted))


def _named(memory: SemanticMemory, ids: tuple[str, ...]) -> Sequence[str]:
    """The entries that are meant; `all` means what waits now."""
    if ALL in ids:
        return [entry.id for entry in memory.inbox()]
    return [entry_meant(memory, id) for id in ids]


def show(inbox: Inbox, screen: Screen) -> None:
    for one in inbox.accepted:
        if one.rivals:
            screen.line(f"{one.id} is true, and so is {', '.join(one.rivals)}: others said that.")
    show_entries(inbox.entries, screen, "Nothing waits.")


COMMAND = Command(
    name="memory inbox",
    details="Shows what still waits: imports, what tools said, and with memory_extract = ask the "
    "facts of conversations.",
    on="store",
    arguments=InboxArguments,
    run=run,
    show=show,
)
