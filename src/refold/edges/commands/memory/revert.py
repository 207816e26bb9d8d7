"""`refold memory revert`: a change of a memory is taken back."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Command, Result, Screen
from refold.edges.commands.memory import SCOPE, MemoryArguments, memory_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.memory.changes import MemoryChange

SEQ = Meta(
    description="The number of the change.", ge=1, extra={"positional": True, "metavar": "SEQ"}
)


class RevertArguments(MemoryArguments, frozen=True, kw_only=True):
    seq: Annotated[int, SEQ]
    scope: Annotated[str, SCOPE] | None = None


class TakenBack(Result, frozen=True, kw_only=True):
    """The change that was taken back, and the one that did it."""

    change: MemoryChange
    by: int


def run(session: Session, arguments: RevertArguments) -> TakenBack:
    with memory_of(session, arguments, arguments.scope) as memory:
        change = memory.revert(arguments.seq)
        return TakenBack(change=change, by=memory.log(limit=1)[0].seq)


def show(taken: TakenBack, screen: Screen) -> None:
    change = taken.change
    said = f": {short_line(change.content, 60)}" if change.content else ""
    screen.line(f"Change {change.seq} ({change.what}) is taken back{said}")
    scope = () if change.scope == "project" else ("--scope", change.scope)
    back = screen.call("memory revert", "", str(taken.by), *scope)
    screen.line(f"Bring it back with: {back}")


COMMAND = Command(
    name="memory revert",
    details="SEQ is a number of refold memory log. What was forgotten cannot be brought back.",
    on="store",
    arguments=RevertArguments,
    run=run,
    show=show,
)
