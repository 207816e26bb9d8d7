"""`refold memory log`: what was written into a memory, the newest change first."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import cut, moment, one_line
from refold.edges.commands.command import Command, Result, Screen
from refold.edges.commands.memory import SCOPE, SHOWN_CHARS, MemoryArguments, memory_of, replacing
from refold.edges.commands.session import Session
from refold.memory.changes import MemoryChange

LIMIT = Meta(description="How many at most.", ge=1, le=1_000)


class LogArguments(MemoryArguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    limit: Annotated[int, LIMIT] = 50


class Changes(Result, frozen=True, kw_only=True):
    changes: tuple[MemoryChange, ...]


def run(session: Session, arguments: LogArguments) -> Changes:
    with memory_of(session, arguments, arguments.scope) as memory:
        return Changes(changes=tuple(memory.log(limit=arguments.limit)))


def show(log: Changes, screen: Screen) -> None:
    if log.changes:
        screen.table((">SEQ", "WHEN", "BY", "WHAT", "ENTRY", "CONTENT"), map(_cells, log.changes))
    else:
        screen.line("Nothing was written into this memory.")


def _cells(change: MemoryChange) -> tuple[str, ...]:
    said = replacing(change.replaces) + cut(one_line(change.content), SHOWN_CHARS)
    if change.reverts:
        said = f"change {change.reverts}"
    what = f"({change.what})" if change.is_off else change.what
    return f"{change.seq}", moment(change.at_ms), change.by, what, change.entry, said


COMMAND = Command(
    name="memory log",
    details="Changes in brackets were taken back. refold memory revert SEQ takes a change back.",
    on="store",
    reads=True,
    arguments=LogArguments,
    run=run,
    show=show,
)
