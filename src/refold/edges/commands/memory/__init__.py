"""`refold memory`: what outlives conversations, listed, added, found, changed and forgotten.

Entries are named by id. `--scope` says whose they are: those of this project unless it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec import Meta

from refold.display import cut, moment, one_line
from refold.edges.commands.command import Result, Screen
from refold.edges.commands.session import Session
from refold.memory.entry import MemoryEntry
from refold.memory.semantic import SemanticMemory
from refold.settings.sources import user_store

ENTRY = Meta(description="The id of the entry.", extra={"positional": True, "metavar": "ENTRY"})
CONTENT = Meta(description="What it says.", extra={"positional": True, "metavar": "CONTENT"})
SCOPE = Meta(description="Whose memory: project, user or agent.NAME.")
TAG = Meta(description="A tag; may be given several times.")
SHOWN_CHARS = 100


class Entries(Result, frozen=True, kw_only=True):
    """Entries, in the order in which they are shown."""

    entries: tuple[MemoryEntry, ...]


@contextmanager
def memory_of(
    session: Session, scope: str = "project", *, creates: bool = False
) -> Iterator[SemanticMemory]:
    """The memory of a scope, in the store of this project; that of a user in the user's own. A
    store that was named must be there, unless the command creates it."""
    memory = SemanticMemory(
        session.target if creates else session.store,
        scope=scope,
        user=lambda: session.open_store(user_store(), creates=True),
    )
    try:
        yield memory
    finally:
        memory.close()


def show_entries(entries: Iterable[MemoryEntry], screen: Screen, nothing: str) -> None:
    """Prints entries as a table."""
    rows = [_cells(entry) for entry in entries]
    if rows:
        screen.table(("ID", "SCOPE", "FROM", "UNTIL", ">COUNT", "CONTENT"), rows)
    else:
        screen.line(nothing)


def _cells(entry: MemoryEntry) -> tuple[str, ...]:
    until = "" if entry.valid_until_ms is None else _day(entry.valid_until_ms)
    doubt = "[?] " if entry.rivals else ""
    said = doubt + cut(one_line(entry.content), SHOWN_CHARS)
    return entry.id, entry.scope, _day(entry.valid_from_ms), until, f"{entry.count}", said


def _day(at_ms: int) -> str:
    return moment(at_ms).partition(" ")[0]
