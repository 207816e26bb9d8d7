"""`refold memory list`: what is remembered and true now."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.memory import (
    AS_OF,
    SCOPE,
    TAG,
    Entries,
    MemoryArguments,
    memory_of,
    show_entries,
)
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session

ENDED = Meta(description="Also those that are true no longer.")
LIMIT = Meta(description="How many at most.", ge=1, le=1_000)


class ListArguments(MemoryArguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()
    ended: Annotated[bool, ENDED] = False
    as_of: Annotated[str, AS_OF] | None = None
    limit: Annotated[int, LIMIT] = 100


def run(session: Session, arguments: ListArguments) -> Entries:
    with memory_of(session, arguments) as memory:
        found = memory.list(
            scope=arguments.scope,
            tags=arguments.tag,
            ended=arguments.ended,
            as_of=time_of(arguments.as_of),
            limit=arguments.limit,
        )
    return Entries(entries=tuple(found))


def show(listed: Entries, screen: Screen) -> None:
    show_entries(listed.entries, screen, "Nothing is remembered here.")


COMMAND = Command(
    name="memory list",
    details="Without a scope, those of this project and of the user. [?] marks what others deny, "
    "[waits] what waits in the inbox.",
    on="store",
    reads=True,
    arguments=ListArguments,
    run=run,
    show=show,
)
