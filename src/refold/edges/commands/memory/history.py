"""`refold memory history`: what an entry said before, and what else was said of the same."""

from __future__ import annotations

from typing import Annotated

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.memory import (
    ENTRY,
    Entries,
    MemoryArguments,
    entry_meant,
    memory_of,
    show_entries,
)
from refold.edges.commands.session import Session


class HistoryArguments(MemoryArguments, frozen=True, kw_only=True):
    entry: Annotated[str, ENTRY]


def run(session: Session, arguments: HistoryArguments) -> Entries:
    with memory_of(session, arguments) as memory:
        return Entries(entries=tuple(memory.history(entry_meant(memory, arguments.entry))))


def show(history: Entries, screen: Screen) -> None:
    show_entries(history.entries, screen, "Nothing was remembered about it.")


COMMAND = Command(
    name="memory history",
    on="store",
    reads=True,
    arguments=HistoryArguments,
    run=run,
    show=show,
)
