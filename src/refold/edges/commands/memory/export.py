"""`refold memory export`: a memory as a file of JSON lines, with its history."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from refold.conversations.exporter import write_file
from refold.edges.commands.command import POSITIONAL, Command, Document, Result, Screen
from refold.edges.commands.memory import SCOPE, MemoryArguments, memory_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.errors import Conflict
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


def run(session: Session, arguments: ExportArguments) -> Exported | Document:
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


def show(exported: Exported | Document, screen: Screen) -> None:
    if isinstance(exported, Document):
        screen.document(exported.chunks)
        return
    held = f"{number(exported.versions, 'version')} in {number(exported.size_bytes, 'byte')}"
    screen.line(f"The memory is in {exported.file}: {held}.")
    screen.line(f"It is out of the reach of {screen.call('memory forget')} from now on.")


COMMAND = Command(
    name="memory export",
    details="What was forgotten, rejected or taken back is not in it. refold memory import reads "
    "it again.",
    on="store",
    reads=True,
    arguments=ExportArguments,
    run=run,
    show=show,
)
