"""`refold memory import`: what an export holds is remembered here, once a person accepted it."""

from __future__ import annotations

from typing import Annotated, BinaryIO

from msgspec import Meta

from refold.conversations.importer import open_regular_file
from refold.display import number
from refold.edges.commands.command import POSITIONAL, Command, Result, Screen
from refold.edges.commands.memory import SCOPE, MemoryArguments, memory_of
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.memory.transfer import AGAIN, FILE_BYTES_MAX

STDIN = "-"
FILE = Meta(description="The file to read; - is standard input.", extra=POSITIONAL)
ACCEPT = Meta(
    description="You vouch for the file: what people or models said need not wait in the inbox."
)


class ImportArguments(MemoryArguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]
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


def run(session: Session, arguments: ImportArguments) -> ImportedMemory:
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


def show(imported: ImportedMemory, screen: Screen) -> None:
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


COMMAND = Command(
    name="memory import",
    details="FILE is what refold memory export wrote. It is checked completely before anything is "
    "written. What is known, or was forgotten here, is left out.",
    on="store",
    arguments=ImportArguments,
    run=run,
    show=show,
)
