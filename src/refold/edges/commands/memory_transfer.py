"""`refold memory export`: a memory as a file of JSON lines, with its history.

`refold memory import`: what an export holds is remembered here, once a person accepted it.

`refold memory log`: what was written into a memory, the newest change first.

`refold memory revert`: a change of a memory is taken back.

`refold memory reindex`: the index of a memory made again, with all vectors.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated, BinaryIO

from msgspec import Meta

from refold.conversations.exporter import write_file
from refold.conversations.importer import open_regular_file
from refold.display import cut, moment, one_line
from refold.edges.commands.command import (
    POSITIONAL,
    Command,
    Document,
    Result,
    Screen,
    number,
    short_line,
)
from refold.edges.commands.memory import SCOPE, SHOWN_CHARS, MemoryArguments, memory_of, replacing
from refold.edges.commands.session import Session
from refold.errors import Conflict, Invalid
from refold.memory.journal import MemoryChange
from refold.memory.transfer import AGAIN, FILE_BYTES_MAX
from refold.system import disk

STDOUT = "-"
FILE = Meta(description="The file to write; - is standard output.", extra=POSITIONAL)
FORCE = Meta(description="Replace FILE if it exists.")


class ExportArguments(MemoryArguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]
    scope: Annotated[str, SCOPE] | None = None
    force: Annotated[bool, FORCE] = False


class Exported(Result, frozen=True, kw_only=True):
    """`versions` is how many lines there are after the first."""

    file: str
    versions: int
    size_bytes: int


def run_memory_export(session: Session, arguments: ExportArguments) -> Exported | Document:
    with memory_of(session, arguments, arguments.scope) as memory:
        lines = memory.export()
    if arguments.file == STDOUT:
        return Document(chunks=iter(lines), is_json=False)
    disk.check_name(arguments.file)
    if os.path.lexists(arguments.file) and not arguments.force:
        hint = "choose another name, or use --force to replace it"
        raise Conflict(f"{arguments.file} exists already", hint=hint)
    size_bytes = write_file(arguments.file, lines)
    return Exported(file=arguments.file, versions=len(lines) - 1, size_bytes=size_bytes)


def show_memory_export(exported: Exported | Document, screen: Screen) -> None:
    if isinstance(exported, Document):
        screen.document(exported.chunks)
        return
    held = f"{number(exported.versions, 'version')} in {number(exported.size_bytes, 'byte')}"
    screen.line(f"The memory is in {exported.file}: {held}.")
    screen.line(f"It is out of the reach of {screen.call('memory forget')} from now on.")


MEMORY_EXPORT = Command(
    name="memory export",
    details="What was forgotten, rejected or taken back is not in it. refold memory import reads "
    "it again.",
    on="store",
    reads=True,
    arguments=ExportArguments,
    run=run_memory_export,
    show=show_memory_export,
)


STDIN = "-"
IMPORT_FILE = Meta(description="The file to read; - is standard input.", extra=POSITIONAL)
ACCEPT = Meta(
    description="You vouch for the file: what people or models said need not wait in the inbox."
)


class ImportArguments(MemoryArguments, frozen=True, kw_only=True):
    file: Annotated[str, IMPORT_FILE]
    scope: Annotated[str, SCOPE] | None = None
    accept: Annotated[bool, ACCEPT] = False


class ImportedMemory(Result, frozen=True, kw_only=True):
    """How many entries are new, were known, and were forgotten here before. Of the new ones,
    `ended` are true no longer."""

    file: str
    scope: str
    entries: int
    known: int
    forgotten: int
    ended: int
    accepted: bool


def run_memory_import(session: Session, arguments: ImportArguments) -> ImportedMemory:
    name = "standard input" if arguments.file == STDIN else arguments.file
    lines = _lines(session, arguments.file, name)
    with memory_of(session, arguments, arguments.scope, creates=True) as memory:
        done = memory.import_lines(lines, accepted=arguments.accept, name=name)
    return ImportedMemory(
        file=name,
        scope=arguments.scope or "project",
        entries=done.entries,
        known=done.known,
        forgotten=done.forgotten,
        ended=done.ended,
        accepted=arguments.accept,
    )


def _lines(session: Session, file: str, name: str) -> list[bytes]:
    if file != STDIN:
        with open_regular_file(file, AGAIN) as opened:
            return _read(opened, name)
    if session.stdin is None:
        raise Invalid("there is no standard input here", hint="name a file")
    return _read(session.stdin, name)


def _read(stream: BinaryIO, name: str) -> list[bytes]:
    content = stream.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        limit = number(FILE_BYTES_MAX, "byte")
        raise Invalid(f"{name} has more than {limit}", hint="import it in parts")
    return content.split(b"\n")


def show_memory_import(imported: ImportedMemory, screen: Screen) -> None:
    others = {
        "of these no longer true, kept as history": imported.ended,
        "known": imported.known,
        "forgotten here before": imported.forgotten,
    }
    told = ", ".join(f"{count:,} {what}" for what, count in others.items() if count)
    screen.line(f"{imported.file}: {imported.entries:,} new{f' ({told})' if told else ''}.")
    if imported.entries > imported.ended and not imported.accepted:
        inbox = screen.call("memory inbox", "", "--scope", imported.scope)
        screen.line(f"No model sees them until you accept them: {inbox}")


MEMORY_IMPORT = Command(
    name="memory import",
    details="FILE is what refold memory export wrote. It is checked completely before anything is "
    "written. What is known, or was forgotten here, is left out.",
    on="store",
    arguments=ImportArguments,
    run=run_memory_import,
    show=show_memory_import,
)


LIMIT = Meta(description="How many at most.", ge=1, le=1_000)


class LogArguments(MemoryArguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    limit: Annotated[int, LIMIT] = 50


class Changes(Result, frozen=True, kw_only=True):
    changes: tuple[MemoryChange, ...]


def run_memory_log(session: Session, arguments: LogArguments) -> Changes:
    with memory_of(session, arguments, arguments.scope) as memory:
        return Changes(changes=tuple(memory.log(limit=arguments.limit)))


def show_memory_log(log: Changes, screen: Screen) -> None:
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


MEMORY_LOG = Command(
    name="memory log",
    details="Changes in brackets were taken back. refold memory revert SEQ takes a change back.",
    on="store",
    reads=True,
    arguments=LogArguments,
    run=run_memory_log,
    show=show_memory_log,
)


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


def run_memory_revert(session: Session, arguments: RevertArguments) -> TakenBack:
    with memory_of(session, arguments, arguments.scope) as memory:
        change = memory.revert(arguments.seq)
        return TakenBack(change=change, by=memory.log(limit=1)[0].seq)


def show_memory_revert(taken: TakenBack, screen: Screen) -> None:
    change = taken.change
    said = f": {short_line(change.content, 60)}" if change.content else ""
    screen.line(f"Change {change.seq} ({change.what}) is taken back{said}")
    scope = () if change.scope == "project" else ("--scope", change.scope)
    back = screen.call("memory revert", "", str(taken.by), *scope)
    screen.line(f"Bring it back with: {back}")


MEMORY_REVERT = Command(
    name="memory revert",
    details="SEQ is a number of refold memory log. What was forgotten cannot be brought back.",
    on="store",
    arguments=RevertArguments,
    run=run_memory_revert,
    show=show_memory_revert,
)


class Reindexed(Result, frozen=True, kw_only=True):
    """The scopes whose index is new."""

    scopes: tuple[str, ...]


def run_memory_reindex(session: Session, arguments: MemoryArguments) -> Reindexed:
    with memory_of(session, arguments) as memory, session.progress("indexing") as progress:
        memory.reindex(partial(progress, "indexing") if progress else None)
        return Reindexed(scopes=("project", "user"))


def show_memory_reindex(made: Reindexed, screen: Screen) -> None:
    screen.line(f"The index is new: {', '.join(made.scopes)}.")


MEMORY_REINDEX = Command(
    name="memory reindex",
    details="For another embedder, or after damage. The index holds nothing that the logs do not.",
    on="store",
    arguments=MemoryArguments,
    run=run_memory_reindex,
    show=show_memory_reindex,
)
