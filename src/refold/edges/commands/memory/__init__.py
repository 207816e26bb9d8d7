"""`refold memory`: what outlives conversations, listed, added, found, changed and forgotten.

Entries are named by id. `--scope` says whose they are: those of this project unless it is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from refold.checked import quoted
from refold.display import cut, moment, one_line
from refold.edges.commands.command import TEXT, Arguments, Result, Screen
from refold.edges.commands.session import Session
from refold.errors import Invalid, NotFound
from refold.memory.entry import ID_PREFIX, MemoryEntry
from refold.memory.opening import settings_of
from refold.memory.semantic import SemanticMemory
from refold.settings.sources import project_store, user_store
from refold.stores.protocol import Store

ENTRY = Meta(
    description="The id of the entry, or how it begins.",
    extra={"positional": True, "metavar": "ENTRY"},
)
CONTENT = Meta(description="What it says.", extra=TEXT)
SCOPE = Meta(description="Whose memory: project, user or agent.NAME.")
TAG = Meta(description="A tag; may be given several times.")
PROJECT = Meta(description="The folder of the project; by default this one.")
AS_OF = Meta(
    description="What was true then: 2026-11-16, or 7d, 2w ago.", extra={"metavar": "WHEN"}
)
SHOWN_CHARS = 100
IDS_NAMED = 5


class MemoryArguments(Arguments, frozen=True, kw_only=True):
    """What every command of a memory takes."""

    project: Annotated[str, PROJECT] | None = None


class Entries(Result, frozen=True, kw_only=True):
    """Entries, in the order in which they are shown."""

    entries: tuple[MemoryEntry, ...]


@contextmanager
def memory_of(
    session: Session, arguments: MemoryArguments, scope: str | None = None, *, creates: bool = False
) -> Iterator[SemanticMemory]:
    """The memory of a scope, in the store of the project; that of a user in the user's own. What a
    command `creates` need not be there."""
    # As the program does, or the two would make each other's vectors again.
    settings = settings_of(session.config)
    memory = SemanticMemory(
        _store(session, arguments.project, creates=creates),
        embedder=settings.embedder,
        vectors=settings.vectors,
        threshold=settings.threshold,
        scope=scope or "project",
        user=lambda: session.open_store(user_store(), creates=True),
        tell=lambda name, reason: _note(session, reason),
    )
    try:
        yield memory
    finally:
        memory.close()


def _store(session: Session, project: str | None, *, creates: bool) -> Store:
    if project is None:
        return session.target if creates else session.store
    if session.store_url:
        raise Invalid("--store and --project exclude each other", hint="give one of them")
    if not os.path.isdir(project):
        raise NotFound(f"there is no folder {project}", hint="--project names a project's folder")
    return session.open_store(project_store(Path(project)), creates=True)


def _note(session: Session, reason: str) -> None:
    if session.screen is not None:
        session.screen.note(reason)


def entry_meant(memory: SemanticMemory, typed: str) -> str:
    """The entry of that id, or the only one that begins so; what is neither, as it was typed.
    Invalid for what every id begins with, however many there are."""
    if ID_PREFIX.startswith(typed):
        said = f"every id begins with {quoted(ID_PREFIX)}, so {quoted(typed)} names no entry"
        raise Invalid(said, hint="refold memory list has the ids of all entries")
    known = memory.ids(typed)
    if typed in known or not known:
        return typed
    if len(known) > 1:
        more = f" and {len(known) - IDS_NAMED:,} more" if known[IDS_NAMED:] else ""
        hint = f"one of {', '.join(known[:IDS_NAMED])}{more}"
        raise Invalid(f"several entries begin with {quoted(typed, 40)}", hint=hint)
    return known[0]


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
    said = (
        waiting(entry)
        + doubt
        + replacing(entry.replaces)
        + cut(one_line(entry.content), SHOWN_CHARS)
    )
    return entry.id, entry.scope, _day(entry.valid_from_ms), until, f"{entry.count}", said


def waiting(entry: MemoryEntry) -> str:
    """Before the words of an entry, whether a person has yet to accept it."""
    return "[waits] " if entry.waits and entry.is_current else ""


def replacing(ids: Sequence[str]) -> str:
    """Before the words of an entry, what it replaces; nothing if that is nothing."""
    if not ids:
        return ""
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"(replaces {ids[0]}{more}) "


def _day(at_ms: int) -> str:
    return moment(at_ms).partition(" ")[0]
