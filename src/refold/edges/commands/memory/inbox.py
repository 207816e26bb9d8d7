"""`refold memory inbox`: what waits to be remembered, accepted or rejected by a person."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.memory import Entries, memory_of, show_entries
from refold.edges.commands.session import Session
from refold.errors import Invalid

ACCEPT = Meta(description="Remember this entry; may be given several times.")
REJECT = Meta(description="Drop this entry for good; may be given several times.")
AS = Meta(description="The words in which the accepted entry is remembered.")


class InboxArguments(Arguments, frozen=True, kw_only=True):
    accept: Annotated[tuple[str, ...], ACCEPT] = ()
    reject: Annotated[tuple[str, ...], REJECT] = ()
    content: Annotated[str, AS] | None = None


def run(session: Session, arguments: InboxArguments) -> Entries:
    if arguments.content is not None and len(arguments.accept) != 1:
        raise Invalid("--content is for one entry that is accepted", hint="name it by --accept")
    with memory_of(session) as memory:
        for entry in arguments.accept:
            memory.accept(entry, arguments.content)
        for entry in arguments.reject:
            memory.reject(entry)
        return Entries(entries=tuple(memory.inbox()))


def show(inbox: Entries, screen: Screen) -> None:
    show_entries(inbox.entries, screen, "Nothing waits.")


COMMAND = Command(
    name="memory inbox",
    details="Shows what still waits. memory_extract = ask puts facts of conversations here.",
    on="store",
    arguments=InboxArguments,
    run=run,
    show=show,
)
