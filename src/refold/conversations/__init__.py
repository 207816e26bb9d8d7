"""Whole stored conversations: list, find, copy, export, import, verify, repair, scan, erase,
delete.

    import refold

    for about in refold.conversations.list("sqlite:work.db"):
        print(about.id, about.title, about.names, about.metadata)
    refold.conversations.export("sqlite:work.db", "@1", "newest.json")

Every function takes a store, or its URL or path, which is then opened for the call and closed
again. A conversation is named by its id, by a name that it was given, or as `@1` for the newest,
`@2` for the one before. What does the work is imported when it is first needed. Neighbours: a
module for each verb, `refold.open` for one conversation held open.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from refold.checked import checked

if TYPE_CHECKING:
    from refold.conversations.copier import Copied as Copied
    from refold.conversations.copier import CopyListener as CopyListener
    from refold.conversations.copier import CopyProgress as CopyProgress
    from refold.conversations.deleter import Deleted as Deleted
    from refold.conversations.eraser import Erased as Erased
    from refold.conversations.importer import Recognised as Recognised
    from refold.conversations.repairer import Repaired as Repaired
    from refold.conversations.scanner import FoundSecret as FoundSecret
    from refold.conversations.scanner import Scan as Scan
    from refold.conversations.scanner import ScanListener as ScanListener
    from refold.conversations.verifier import Problem as Problem
    from refold.conversations.verifier import Verification as Verification
    from refold.core.model import Conversation as Conversation
    from refold.stores.protocol import Store

_TYPES = {
    "Conversation": "refold.core.model",
    "Copied": "refold.conversations.copier",
    "CopyListener": "refold.conversations.copier",
    "CopyProgress": "refold.conversations.copier",
    "Deleted": "refold.conversations.deleter",
    "Erased": "refold.conversations.eraser",
    "FoundSecret": "refold.conversations.scanner",
    "Problem": "refold.conversations.verifier",
    "Recognised": "refold.conversations.importer",
    "Repaired": "refold.conversations.repairer",
    "Scan": "refold.conversations.scanner",
    "ScanListener": "refold.conversations.scanner",
    "Verification": "refold.conversations.verifier",
}
_FUNCTIONS = (
    "list",
    "find",
    "recognise",
    "copy",
    "export",
    "import_",
    "verify",
    "repair",
    "scan",
    "erase",
    "delete",
)

__all__ = [*_FUNCTIONS, *_TYPES]

Place = str | PathLike[str]  # the URL of a store, or the path of a database


def __getattr__(name: str) -> Any:
    # `Store` is not this module's to offer, but `checked` asks for it.
    homes = {**_TYPES, "Store": "refold.stores.protocol"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)


def __dir__() -> builtins.list[str]:
    return sorted(__all__)


@checked
def list(
    store: Store | Place, *, tag: str = "", folder: str | PathLike[str] = ""
) -> builtins.list[Conversation]:
    """All conversations, the one that was written to last first, with their titles, tags, metadata
    and names; with a tag, those that carry it, with a folder, those whose metadata say by `cwd`
    that they were held in it or below it."""
    from refold.conversations.listing import described, newest

    with _open(store, read_only=True) as opened:
        return [
            described(opened, about) for about in newest(opened, tag=tag, folder=fspath(folder))
        ]


@checked
def find(store: Store | Place, name: str) -> Conversation:
    """The conversation of that id or name; NotFound if there is none, Invalid with their ids if
    several have the name."""
    from refold.conversations.listing import described

    with _open(store, read_only=True) as opened:
        return described(opened, opened.conversation(_id(opened, name)))


@checked
def recognise(
    store: Store | Place, messages: Sequence[Any], *, dialect: str = "openai_chat"
) -> Recognised | None:
    """The conversation that begins as this list of messages does, further than any other; None if
    none has its first message. `dialect` decides where a message could be any provider's."""
    from refold.conversations.importer import recognise

    with _open(store) as opened:
        return recognise(opened, messages, dialect)


@checked
def copy(
    source: Store | Place,
    target: Store | Place,
    names: Sequence[str] = (),
    *,
    progress: CopyListener | None = None,
) -> builtins.list[Copied]:
    """Copies these conversations, or all, and the parents of forks with them, byte for byte, and
    tells what became of each. Conflict, and nothing is written, if the target has another log
    under one of the ids."""
    from refold.conversations import copier

    with _open(source, read_only=True) as here, _open(target) as there:
        return copier.copy(here, there, names, progress=progress)


@checked
def export(
    store: Store | Place,
    name: str,
    path: str | PathLike[str],
    *,
    format: Literal["json", "markdown"] | None = None,
    force: bool = False,
    secrets: bool | None = None,
    emails: bool = False,
) -> int:
    """Writes a conversation to a file and gives its size in bytes. JSON is whole and can be
    imported again; Markdown is for reading, without secrets; the file's extension decides which,
    unless `format` does. `secrets` keeps (True) or removes (False) them in either, `emails`
    removes addresses where secrets are removed; `force` replaces an existing file."""
    from refold.conversations.exporter import export_file

    with _open(store, read_only=True) as opened:
        return export_file(
            opened,
            _id(opened, name),
            fspath(path),
            format=format or "",
            force=force,
            secrets=secrets,
            emails=emails,
        )


@checked
def import_(
    store: Store | Place, source: str | PathLike[str] | bytes, *, id: str | None = None
) -> Conversation:
    """Writes an exported conversation (a path, or the document's bytes) into a store: under `id`,
    else the id it had, else that with a number. It is checked to its last byte first. Conflict if
    the store holds the very same log already and no id is given."""
    from refold.conversations.importer import import_document, read_document

    name = "the document" if isinstance(source, bytes) else fspath(source)
    document = source if isinstance(source, bytes) else read_document(name)
    with _open(store) as opened:
        return import_document(opened, document, id=id, name=name)


@checked
def verify(store: Store | Place, name: str | None = None) -> Verification:
    """Checks one conversation, or all: every event, artifact and bookmark, and the laws of the
    page. `problems` is empty if all is as it was written."""
    from refold.conversations import verifier

    with _open(store, read_only=True) as opened:
        return verifier.verify(opened, None if name is None else _id(opened, name))


@checked
def repair(store: Store | Place, name: str) -> Repaired:
    """Makes a damaged conversation readable again: bodies that are not those that were written
    are erased, and at a broken event the log ends. A copy is kept; what was given up is told."""
    from refold.conversations import repairer

    with _open(store) as opened:
        return repairer.repair(opened, _id(opened, name))


@checked
def scan(
    store: Store | Place,
    names: Sequence[str] = (),
    *,
    doubtful: bool = False,
    progress: ScanListener | None = None,
) -> Scan:
    """Finds secrets in these conversations, or in all; `doubtful` adds what is more likely a
    fixture. What is given back holds no secret, only its masked form and place."""
    from refold.conversations import scanner

    with _open(store, read_only=True) as opened:
        ids = [_id(opened, name) for name in names]
        return scanner.scan(opened, ids, doubtful=doubtful, progress=progress)


@checked
def erase(store: Store | Place, name: str, seqs: Sequence[int] | None = None) -> Erased:
    """Erases what these events say for good, or all that the conversation says, with what was made
    of it: summaries, memories, contents that nobody else names. The envelopes stay. The next sync
    erases it far as well, and other devices when they sync. NotFound, and nothing is erased, if one
    of them does not exist."""
    from refold.conversations import eraser

    with _open(store) as opened:
        return eraser.erase(opened, _id(opened, name), seqs)


@checked
def delete(store: Store | Place, names: Sequence[str]) -> Deleted:
    """Removes conversations for good, with the contents that only they name. One that others were
    forked from stays if they do, and `left` says why. NotFound, and nothing is removed, if one of
    them does not exist."""
    from refold.conversations import deleter

    with _open(store) as opened:
        return deleter.delete(opened, [_id(opened, name) for name in names])


@contextmanager
def _open(store: Store | Place, *, read_only: bool = False) -> Iterator[Store]:
    """The store itself, or the one that the URL names, which is closed at the end. What only reads
    opens it so that nothing there changes."""
    from refold.stores import open_store

    if not isinstance(store, (str, PathLike)):
        yield store
        return
    opened = open_store(store, read_only=read_only)
    try:
        yield opened
    finally:
        opened.close()


def _id(store: Store, name: str) -> str:
    from refold.conversations.listing import id_of

    return id_of(store, name)
