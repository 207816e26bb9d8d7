"""`refold memory search`: the entries that answer a question, with the reason."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import cut, one_line
from refold.edges.commands.command import TEXT, Command, Screen
from refold.edges.commands.memory import (
    AS_OF,
    SCOPE,
    SHOWN_CHARS,
    TAG,
    Entries,
    MemoryArguments,
    memory_of,
    waiting,
)
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.memory.entry import MemoryEntry

QUERY = Meta(description="What to look for.", extra=TEXT)
LIMIT = Meta(description="How many at most.", ge=1, le=1_000)
THRESHOLD = Meta(description="The lowest score, from 0 to 1.", ge=0.0, le=1.0)


class SearchArguments(MemoryArguments, frozen=True, kw_only=True):
    query: Annotated[str, QUERY]
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()
    limit: Annotated[int, LIMIT] = 10
    threshold: Annotated[float, THRESHOLD] | None = None
    as_of: Annotated[str, AS_OF] | None = None


def run(session: Session, arguments: SearchArguments) -> Entries:
    with memory_of(session, arguments) as memory:
        found = memory.retrieve(
            arguments.query,
            arguments.limit,
            scope=arguments.scope,
            tags=arguments.tag,
            threshold=arguments.threshold,
            as_of=time_of(arguments.as_of),
        )
    return Entries(entries=tuple(found))


def show(found: Entries, screen: Screen) -> None:
    if found.entries:
        screen.table(("ID", ">SCORE", "CONTENT", "WHY"), map(_cells, found.entries))
    else:
        screen.line("Nothing that is remembered answers this.")


def _cells(entry: MemoryEntry) -> tuple[str, ...]:
    said = waiting(entry) + cut(one_line(entry.content), SHOWN_CHARS)
    return entry.id, f"{entry.score:.2f}", said, entry.why


COMMAND = Command(
    name="memory search",
    on="store",
    reads=True,
    arguments=SearchArguments,
    run=run,
    show=show,
)
