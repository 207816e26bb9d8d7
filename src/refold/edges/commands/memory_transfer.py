"""Export, import and reindexing of a memory; its file format is JSON lines.

`export --memory`, `import` and `search --reindex` call these functions. An imported entry stays
pending until a person accepts it. Neighbours: `refold.memory.transfer` has the format, `memory`
the commands for entries.
"""

from __future__ import annotations

import os
from functools import partial

from refold.conversations.exporter import write_file
from refold.conversations.importer import open_regular_file
from refold.edges.commands.command import Document, Result, Screen, number
from refold.edges.commands.memory import memory_of
from refold.edges.commands.session import Session
from refold.errors import Conflict, Invalid
from refold.memory.transfer import AGAIN, FILE_BYTES_MAX
from refold.system import disk

STDIO = "-"


class ExportedMemory(Result, frozen=True, kw_only=True):
    """`versions` is the number of lines after the first."""

    file: str
    versions: int
    size_bytes: int

    def show(self, screen: Screen) -> None:
        size = f"{number(self.versions, 'version')} in {number(self.size_bytes, 'byte')}"
        screen.line(f"The memory is in {self.file}: {size}.")
        screen.line(f"It is out of the reach of {screen.call('memory forget')} from now on.")


def export_memory(
    session: Session,
    *,
    file: str,
    scope: str | None = None,
    force: bool = False,
    project: str | None = None,
) -> ExportedMemory | Document:
    """Writes a memory with its history to a file, or to standard output for `-`."""
    with memory_of(session, project, scope) as memory:
        lines = memory.export()
    if file == STDIO:
        return Document(chunks=iter(lines), is_json=False)
    disk.check_name(file)
    if os.path.lexists(file) and not force:
        hint = "choose another name, or use --force to replace it"
        raise Conflict(f"{file} already exists", hint=hint)
    size_bytes = write_file(file, lines)
    return ExportedMemory(file=file, versions=len(lines) - 1, size_bytes=size_bytes)


class ImportedMemory(Result, frozen=True, kw_only=True):
    """Counts of new, known and forgotten entries; `ended` counts the new ones that are no longer
    true."""

    file: str
    scope: str
    entries: int
    known: int
    forgotten: int
    ended: int
    accepted: bool

    def show(self, screen: Screen) -> None:
        counts = {
            "of these no longer true, kept as history": self.ended,
            "known": self.known,
            "forgotten here before": self.forgotten,
        }
        others = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        screen.line(f"{self.file}: {self.entries:,} new{f' ({others})' if others else ''}.")
        if self.entries > self.ended and not self.accepted:
            inbox = screen.call("memory inbox", "", "--scope", self.scope)
            screen.line(f"No model sees them until you accept them: {inbox}")


def import_memory(
    session: Session,
    *,
    file: str,
    scope: str | None = None,
    accept: bool = False,
    project: str | None = None,
) -> ImportedMemory:
    """Reads an exported memory, checked completely before anything is written. Known entries, and
    those forgotten here, are left out. With `accept`, entries of people and models do not wait in
    the inbox."""
    with open_regular_file(file, AGAIN) as opened:
        content = opened.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        limit = number(FILE_BYTES_MAX, "byte")
        raise Invalid(f"{file} has more than {limit}", hint="import it in parts")
    with memory_of(session, project, scope, creates=True) as memory:
        done = memory.import_lines(content.split(b"\n"), accepted=accept, name=file)
    return ImportedMemory(
        file=file,
        scope=scope or "project",
        entries=done.entries,
        known=done.known,
        forgotten=done.forgotten,
        ended=done.ended,
        accepted=accept,
    )


class ReindexedMemory(Result, frozen=True, kw_only=True):
    """The reindexed scopes."""

    scopes: tuple[str, ...]

    def show(self, screen: Screen) -> None:
        screen.line(f"The index is new: {', '.join(self.scopes)}.")


def reindex_memory(session: Session) -> ReindexedMemory:
    """Rebuilds the index of the memory, with all vectors."""
    with memory_of(session) as memory, session.progress("indexing") as progress:
        memory.reindex(partial(progress, "indexing") if progress else None)
        return ReindexedMemory(scopes=("project", "user"))
