"""Whole stored conversations: list, find, copy, export, import, verify, repair, scan, erase,
delete.

    import refold

    for about in refold.conversations.list("sqlite:work.db"):
        print(about.id, about.title, about.names, about.metadata)
    refold.conversations.export("sqlite:work.db", "@1", "newest.json")

Every function takes a store, or its URL or path, which is then opened for the call. A conversation
is named by its id, by an unambiguous beginning of it, by one of its names, or as `@1` for the
newest and `@2` for the one before; to erase or delete it, name its complete id or a name. The
working modules are imported at first use. Neighbours: a module for each verb, `refold.open` for one
open conversation.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from refold.checked import check_whole, checked

if TYPE_CHECKING:
    from refold.conversations.copier import Copied as Copied
    from refold.conversations.copier import CopyListener as CopyListener
    from refold.conversations.copier import CopyProgress as CopyProgress
    from refold.conversations.deleter import Deleted as Deleted
    from refold.conversations.eraser import Erased as Erased
    from refold.conversations.importer import Recognised as Recognised
    from refold.conversations.overview import Overview as Overview
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
    "Overview": "refold.conversations.overview",
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
    # `Store` is not a public name here, but `checked` needs it.
    homes = {**_TYPES, "Store": "refold.stores.protocol"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)


def __dir__() -> builtins.list[str]:
    return sorted(__all__)


@checked
def list(
    store: Store | Place,
    *,
    tag: str = "",
    folder: str | PathLike[str] = "",
    limit: int | None = None,
) -> builtins.list[Overview]:
    """The conversations, the last written first, at most `limit`: an `Overview` of each, from its
    bookmark. `tag` selects by tag, and `folder` by the metadata `cwd`: that folder or one below
    it, or its last name alone."""
    from refold.conversations.listing import newest
    from refold.conversations.overview import overviews

    with _open(store, read_only=True) as opened:
        found = newest(opened, tag=tag, folder=fspath(folder), limit=limit)
        return [*overviews(opened, found)]


@checked
def find(store: Store | Place, name: str) -> Overview:
    """The conversation with this id or name. Raises NotFound if there is none, and Invalid, with
    the ids, if several have the name."""
    from refold.conversations.overview import overview_of

    with _open(store, read_only=True) as opened:
        return overview_of(opened, opened.conversation(_id(opened, name)))


@checked
def recognise(
    store: Store | Place, messages: Sequence[Any], *, dialect: str = "openai_chat"
) -> Recognised | None:
    """The conversation with the longest common beginning with this list of messages; None if none
    has its first message. `dialect` decides if a message could come from any provider."""
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
    """Copies these conversations, or all, with the parents of forks, byte for byte, and returns the
    result for each. Conflict, before anything is written, if the target has another log under one
    of the ids."""
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
    """Writes a conversation to a file and returns its size in bytes. JSON is complete and can be
    imported again; Markdown is for reading, without secrets. `format` decides, or the extension of
    the file. `secrets` keeps (True) or removes (False) secrets in either format, `emails` removes
    addresses together with secrets; `force` replaces an existing file."""
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
    or its old id, or its old id with a number. It is checked completely first. Conflict if the
    store already has the same log and no id is given."""
    from refold.conversations.importer import import_document, read_document

    name = "the document" if isinstance(source, bytes) else fspath(source)
    document = source if isinstance(source, bytes) else read_document(name)
    with _open(store) as opened:
        return import_document(opened, document, id=id, name=name)


@checked
def verify(store: Store | Place, name: str | None = None) -> Verification:
    """Checks one conversation, or all: every event, artifact and bookmark, and the laws of the
    page. `problems` is empty if everything is intact."""
    from refold.conversations import verifier

    with _open(store, read_only=True) as opened:
        return verifier.verify(opened, None if name is None else _id(opened, name))


@checked
def repair(store: Store | Place, name: str) -> Repaired:
    """Makes a damaged conversation readable again: changed bodies are erased, and the log ends at a
    broken event. A copy is kept; the result lists the losses."""
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
    """Finds secrets in these conversations, or in all; `doubtful` adds likely fixtures. The result
    contains no secret, only its masked form and position."""
    from refold.conversations import scanner

    with _open(store, read_only=True) as opened:
        ids = [_id(opened, name) for name in names]
        return scanner.scan(opened, ids, doubtful=doubtful, progress=progress)


@checked
def erase(store: Store | Place, name: str, seqs: Sequence[int] | None = None) -> Erased:
    """Permanently erases the words of these events, or of the whole conversation, with everything
    derived from them: summaries, memories, and contents without another reference. The envelopes
    stay. The next sync erases them remotely, and other devices when they sync. NotFound, before
    anything is erased, if one of the events does not exist."""
    from refold.conversations import eraser

    with _open(store) as opened:
        return eraser.erase(opened, _whole_id(opened, name), seqs)


@checked
def delete(store: Store | Place, names: Sequence[str]) -> Deleted:
    """Permanently removes conversations, with the contents that only they name. The parent of a
    remaining fork stays, and `left` has the reason. NotFound, before anything is removed, if one of
    them does not exist."""
    from refold.conversations import deleter

    with _open(store) as opened:
        return deleter.delete(opened, [_whole_id(opened, name) for name in names])


@contextmanager
def _open(store: Store | Place, *, read_only: bool = False) -> Iterator[Store]:
    """The given store, or the store of a URL, opened for the block and read-only on request."""
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


def _whole_id(store: Store, name: str) -> str:
    """The id, unless the same words could name another conversation the next time."""
    from refold.conversations.listing import has_name

    id = _id(store, name)
    if not has_name(store, id, name):
        check_whole(name, id)
    return id
