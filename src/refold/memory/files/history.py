"""Every change of a folder of memories, as a note in a log of its own; the contents before and
after are kept by digest.

A change is written here first and to the tree then. So nothing that the tool overwrites or deletes
is lost, and a change that was killed in between shows: its files are still as they were before.
Neighbours: `tree` writes changes, `versions` reads them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from refold import decoding
from refold.core.codec import decode
from refold.core.model import Event, Note
from refold.errors import RefoldError, Unavailable
from refold.log.draft import Draft
from refold.log.log import Log, now_ms
from refold.memory.files.path import ROOT
from refold.memory.files.values import FileChange, FileVersion
from refold.stores import open_store

LOG = "memory.files"
KIND = "memory-file"
DROP_EVERY = 100  # changes


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is written about a change."""

    command: str
    path: str
    new_path: str = ""
    files: tuple[FileVersion, ...] = ()
    folders: tuple[str, ...] = ()
    undoes: int = 0


class History:
    """The history of one folder. Whoever writes holds the lock of the folder."""

    def __init__(self, url: str, *, versions_max: int, read_only: bool) -> None:
        self._store = open_store(url, read_only=read_only)
        self._versions_max = versions_max
        self._log: Log | None = None
        self._guard = threading.RLock()  # a log is not for several threads

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
            with self._guard:
                [event] = self._read_log().append([Draft(body=note, by=by)])
            self._store.flush()
            if event.seq % DROP_EVERY == 0:
                self._drop_old()
        except RefoldError as error:
            raise _unwritable(error) from error
        return _change(event, record)

    def changes(self) -> list[FileChange]:
        """All changes, oldest first."""
        with self._guard:
            log = self._read_log()
            events = list(log.read()) if log.state.head else []
        notes = [(event, decode(event)) for event in events if event.kind == "note"]
        return [
            _change(event, decoding.convert(note.data, Record))
            for event, note in notes
            if isinstance(note, Note) and note.kind == KIND
        ]

    def content(self, digest: str) -> bytes:
        """The bytes of a version. NotFound if they are no longer kept."""
        return b"".join(self._store.get(digest)) if digest else b""

    def drop(self, digests: Iterable[str]) -> None:
        """Removes contents for good."""
        for digest in digests:
            self._store.drop(digest, before_ms=now_ms() + 1)

    def _drop_old(self) -> None:
        """Removes the contents that only changes before the newest ones have: those of an agent
        that never stops writing would fill the disk."""
        changes = self.changes()
        newer = [file for change in changes[-self._versions_max :] for file in change.files]
        older = [file for change in changes[: -self._versions_max] for file in change.files]
        self.drop(digests_of(older) - digests_of(newer))

    def _read_log(self) -> Log:
        """The log with everything that other processes wrote."""
        if self._log is None:
            self._log = Log(self._store, LOG)
        else:
            self._log.catch_up()
        return self._log

    def close(self) -> None:
        self._store.close()


def digests_of(files: Iterable[FileVersion]) -> set[str]:
    """The digests of the contents before and after changes of files."""
    return {digest for file in files for digest in (file.before, file.after) if digest}


def _change(event: Event, record: Record) -> FileChange:
    about = msgspec.structs.asdict(record)
    return FileChange(seq=event.seq, at_ms=event.at_ms, by=event.by, **about)


def _unwritable(error: RefoldError) -> Unavailable:
    """The error without the path of the history: a model knows virtual paths only."""
    said = f"Error: The history of {ROOT} cannot be written ({error.code}); nothing was changed"
    return Unavailable(said)
