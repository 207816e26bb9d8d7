"""`refold import`: a conversation from an exported file. The format is that of
`conversations.exporter`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.conversations.importer import import_document, read_document, read_stream
from refold.display import number
from refold.edges.commands.command import POSITIONAL, Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.errors import Invalid

STDIN = "-"
FILE = Meta(description="The file to read; - is standard input.", extra=POSITIONAL)
ID = Meta(description="The id that it gets; by default the one it had.", extra={"metavar": "NEW"})


class ImportArguments(Arguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]
    id: Annotated[str, ID] | None = None


class Imported(Result, frozen=True, kw_only=True):
    conversation: str
    title: str
    head: int
    store: str
    file: str


def run(session: Session, arguments: ImportArguments) -> Imported:
    name = "standard input" if arguments.file == STDIN else arguments.file
    with session.progress("reading") as progress:
        document = _document(session, arguments.file)
        if progress:
            progress("checking and writing", 1, 2)
        about = import_document(session.target, document, id=arguments.id, name=name)
    return Imported(
        conversation=about.id,
        title=about.title,
        head=about.head,
        store=session.target.url,
        file=name,
    )


def _document(session: Session, file: str) -> bytes:
    if file != STDIN:
        return read_document(file)
    if session.stdin is None:
        raise Invalid("there is no standard input here", hint="name a file")
    return read_stream(session.stdin)


def show(imported: Imported, screen: Screen) -> None:
    place = f"{imported.conversation} in {imported.store}"
    screen.line(f"{imported.file} is now {place} ({number(imported.head, 'event')}).")


COMMAND = Command(
    name="import",
    details="FILE is what refold export wrote as JSON; - is standard input. It is checked "
    "completely before anything is written.",
    on="store",
    arguments=ImportArguments,
    run=run,
    show=show,
)
