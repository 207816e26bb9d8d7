"""`refold memory list`: what is remembered and true now."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.memory import SCOPE, TAG, Entries, memory_of, show_entries
from refold.edges.commands.session import Session

ENDED = Meta(description="Also those that are true no longer.")
LIMIT = Meta(description="How many at most.", ge=1, le=1_000)


class ListArguments(Arguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()
    ended: Annotated[bool, ENDED] = False
    limit: Annotated[int, LIMIT] = 100


def run(session: Session, arguments: ListArguments) -> Entries:
    with memory_of(session) as memory:
        found = memory.list(
            scope=arguments.scope,
            tags=arguments.tag,
            ended=arguments.ended,
            limit=arguments.limit,
        )
    return Entries(entries=tuple(found))


def show(listed: Entries, screen: Screen) -> None:
    show_entries(listed.entries, screen, "Nothing is remembered here.")


COMMAND = Command(
    name="memory list",
    details="Without a scope, those of this project and of the user. [?] marks what others deny.",
    on="store",
    reads=True,
    arguments=ListArguments,
    run=run,
    show=show,
)
