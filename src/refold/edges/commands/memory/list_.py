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
from refold.memory.semantic import LISTED_MAX

ENDED = Meta(description="Also those that are no longer true.")
LIMIT = Meta(description="How many at most.", ge=1, le=LISTED_MAX)


class ListArguments(MemoryArguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()
    ended: Annotated[bool, ENDED] = False
    as_of: Annotated[str, AS_OF] | None = None
    limit: Annotated[int, LIMIT] = 100


class Listed(Entries, frozen=True, kw_only=True):
    """The first of the entries that were asked for, and how many those are in all."""

    total: int


def run(session: Session, arguments: ListArguments) -> Listed:
    with memory_of(session, arguments) as memory:
        found = memory.list(
            scope=arguments.scope,
            tags=arguments.tag,
            ended=arguments.ended,
            as_of=time_of(arguments.as_of),
            limit=LISTED_MAX,
        )
    return Listed(entries=tuple(found[: arguments.limit]), total=len(found))


def show(listed: Listed, screen: Screen) -> None:
    show_entries(listed.entries, screen, "Nothing is remembered here.")
    shown, total = len(listed.entries), listed.total
    if shown < total:
        all_shown = "memory export has all" if total == LISTED_MAX else f"--limit {total} shows all"
        screen.line(f"{total - shown:,} more are not shown; {all_shown}.")


COMMAND = Command(
    name="memory list",
    details="Without a scope, lists those of this project and of the user. [?] marks entries that "
    "others deny, [waits] those that wait in the inbox.",
    on="store",
    reads=True,
    arguments=ListArguments,
    run=run,
    show=show,
)
