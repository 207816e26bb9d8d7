"""Every change of a folder of memories, as a note in a log of its own; the contents before and
after are kept by digest.

A change is written here first and to the tree then. So nothing that the tool overwrites or deletes
is lost, and a change that was killed in between shows: its files are still as they were before.
Neighbours: `tree` writes changes, `versions` reads them.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Note
from refold.errors import RefoldError, Unavailable
from refold.log.draft import Draft
from refold.log.log import Log
from refold.memory.files.path import ROOT
from refold.memory.files.values import FileChange, FileVersion
from refold.stores import open_store

LOG = "memory.files"
KIND = "memory-file"


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is written about a change."""

    command: str
    path: str
    new_path: str = ""
    files: tuple[FileVersion, ...] = ()
    undoes: int = 0


class History:
    """The history of one folder. Whoever writes holds the lock of the folder."""

    def __init__(self, url: str, *, read_only: bool) -> None:
        self._store = open_store(url, read_only=read_only)
        self._log: Log | None = None

    def keep(self, data: bytes) -> str:
        """Keeps a content; gives its digest."""
        try:
            return self._store.put([data], suffix=".txt")
        except RefoldError as error:
            raise _unwritable(error) from error

    def append(self, record: Record, by: str) -> FileChange:
        """Writes a change, durably."""
        note = Note(kind=KIND, data=msgspec.to_builtins(record))
        try:
            [event] = self._read_log().append([Draft(body=note, by=by)])
            self._store.flush()
        except RefoldError as error:
            raise _unwritable(error) from error
        return FileChange(
            seq=event.seq, at_ms=event.at_ms, by=event.by, **msgspec.structs.asdict(record)
        )

    def changes(self) -> list[FileChange]:
        """All changes, oldest first."""
        log = self._read_log()
        if not log.state.head:
            return []
        found = []
        for event in log.read():
            note = decode(event) if event.kind == "note" else None
            if isinstance(note, Note) and note.kind == KIND:
                record = msgspec.convert(note.data, Record)
                about = msgspec.structs.asdict(record)
                found.append(FileChange(seq=event.seq, at_ms=event.at_ms, by=event.by, **about))
        return found

    def content(self, digest: str) -> bytes:
        """The bytes of a version."""
        return b"".join(self._store.get(digest)) if digest else b""

    def _read_log(self) -> Log:
        """The log with everything that other processes wrote."""
        if self._log is None:
            self._log = Log(self._store, LOG)
        else:
            self._log.catch_up()
        return self._log

    def close(self) -> None:
        self._store.close()


def _unwritable(error: RefoldError) -> Unavailable:
    """The error without the path of the history: a model knows virtual paths only."""
    said = f"Error: The history of {ROOT} cannot be written ({error.code}); nothing was changed"
    return Unavailable(said)
