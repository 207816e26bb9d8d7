"""`refold context search`: what this conversation said, and what is remembered across all."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands import search
from refold.edges.commands.command import TEXT, Arguments, Command, Result, Screen
from refold.edges.commands.memory import MemoryArguments, memory_of, show_entries
from refold.edges.commands.session import Session
from refold.memory.entry import MemoryEntry
from refold.search.hits import LIMIT_MAX

QUERY = Meta(description="What to look for.", extra=TEXT)
LIMIT = Meta(description="At most this many of each.", ge=1, le=LIMIT_MAX)


class ContextSearchArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, QUERY]
    limit: Annotated[int, LIMIT] = 10


class ContextFound(Result, frozen=True, kw_only=True):
    conversation: str
    said: search.Found
    remembered: tuple[MemoryEntry, ...]


def run(session: Session, arguments: ContextSearchArguments) -> ContextFound:
    id = session.conversation
    words = (arguments.query,)
    given = search.SearchArguments(query=words, conversations=(id,), limit=arguments.limit)
    with memory_of(session, MemoryArguments()) as memory:
        remembered = memory.retrieve(arguments.query, arguments.limit)
    return ContextFound(
        conversation=id, said=search.run(session, given), remembered=tuple(remembered)
    )


def show(result: ContextFound, screen: Screen) -> None:
    search.show(result.said, screen)
    if result.remembered:
        screen.line(("bold", "Remembered"))
        show_entries(result.remembered, screen, "")


COMMAND = Command(
    name="context search",
    derives=True,
    arguments=ContextSearchArguments,
    run=run,
    show=show,
)
