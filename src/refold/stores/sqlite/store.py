"""Logs in one SQLite file: an append is one small insert at the end of a table, and nothing else.

Appends commit without a sync (they survive kill -9); `flush` makes all of them survive power loss
by one fdatasync of the -wal file. Why that is enough, whatever other processes do:

  - A commit is in the WAL when `append` returns, and the WAL is valid up to its first torn frame. Syncing the file
    makes all frames durable, ours and those of others before ours: the page cache is one for all descriptors.
  - A commit leaves the WAL only by a checkpoint. With synchronous=NORMAL that syncs the WAL, copies the pages, syncs
    the database, and only then lets a writer start the WAL anew. What is no longer in the WAL is durable already,
    so a checkpoint between append and flush, here or in another process, changes nothing.
  - A new WAL is written over the old one, in the same file. The file is removed only when the last connection of all
    processes closes, and ours is open. If somebody removes it by hand, `Wal` notices within a second and raises.
  - After a failed sync the kernel may have dropped the pages, and would report success the next time. So the store
    ends there: it must be opened again, which reads what really is on the disk.

Only a foreign program that writes to the file with synchronous=OFF could break this. Neighbours:
`sqlite_log` has the rows, `sqlite_file` the file, `artifacts` the contents.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Corrupt, Invalid, RefoldError
from refold.stores import checks as door
from refold.stores.contents import Artifacts, beside
from refold.stores.protocol import Recovery
from refold.stores.sqlite import file as sqlite_file
from refold.stores.sqlite import log as sqlite_log

P = ParamSpec("P")
R = TypeVar("R")


def _guarded(
    method: Callable[Concatenate[SqliteStore, P], R],
) -> Callable[Concatenate[SqliteStore, P], R]:
    """One thread at a time, and only errors of the family leave."""

    @functools.wraps(method)
    def guarded(self: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with self._lock:
                return method(self, *args, **kwargs)
        except apsw.Error as error:
            raise sqlite_file.failure(error, self.path) from error
        except UnicodeDecodeError as error:
            raise Corrupt(f"{self.path}: a text is not UTF-8", hint="refold verify") from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise Invalid(
                f"not storable: {error}", hint="text without surrogates, numbers of 64 bits"
            ) from error
        except OSError as error:
            raise door.os_failure(error, f"cannot use {self.path}") from error

    return guarded


class SqliteStore:
    """Keeps logs in a SQLite file and artifacts in a folder beside it; satisfies `Store`."""

    recovered: Sequence[Recovery] = ()  # SQLite leaves a torn tail of its WAL out by itself

    def __init__(self, path: str, *, durable: bool = True) -> None:
        self.path = os.path.abspath(path)
        self.url = f"sqlite:{self.path}"
        self._artifacts = Artifacts(beside(self.path, "artifacts"), durable=durable)
        self._lock, self._flushing = threading.RLock(), threading.RLock()
        self._connection: apsw.Connection | None = None
        self._wal: sqlite_file.Wal | None = None
        self._numbers: dict[str, int] = {}
        self._heads: dict[str, int] = {}  # of logs that nobody else has written to since `_version`
        self._lines: dict[str, sqlite_log.Line] = {}  # the rows of logs without a parent, likewise
        self._version = -1
        self._written = self._flushed = 0
        self._ended: RefoldError | None = None
        _OPEN.add(self)

    @_guarded
    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        connection = self._connected(writing=False)
        return sqlite_log.listed(connection, after, door.bounded(limit)) if connection else []

    @_guarded
    def conversation(self, conversation: str) -> Conversation:
        connection = self._connection_to(conversation)
        found = sqlite_log.described(connection, conversation)
        if found is None:
            raise door.unknown(conversation)
        return found

    @_guarded
    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        connection, unchanged = self._connection_to(conversation), self._nobody_wrote()
        if unchanged and self._heads.get(conversation) == after:
            return []
        bounds = (
            door.bounded(after),
            door.SEQ_MAX if last is None else door.bounded(last),
            door.bounded(limit),
        )
        line = self._lines.get(conversation)
        if line is not None:
            # One statement sees one moment by itself.
            found = sqlite_log.span(connection, line, *bounds)
        else:
            with _transaction(connection, "BEGIN"):
                line = sqlite_log.known(connection, conversation)
                found = sqlite_log.span(connection, line, *bounds)
            if line.parent is None:
                self._lines[conversation] = line
        if not found and last is None and limit > 0:
            self._heads[conversation] = after
        return found

    def _nobody_wrote(self) -> bool:
        """Whether no other connection has written since what we know of heads and rows: SQLite
        keeps a number for that. If one has, we know nothing any more."""
        connection = self._connected(writing=False)
        version: int = connection.execute("PRAGMA data_version").get if connection else -1
        if version == self._version:
            return True
        self._version = version
        self._heads.clear()
        self._lines.clear()
        return False

    @_guarded
    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        number = self._numbers.get(conversation, 0)
        door.append_checked(conversation, events, expect, known=number > 0)
        if not events:
            return
        connection = self._connected(writing=True)
        assert connection is not None
        # The usual append asks nothing first: one event on top of a log that we have written to
        # before.
        usual = number and len(events) == 1 and events[0].kind != "meta"
        if not (usual and sqlite_log.append_next(connection, number, events[0])):
            with _transaction(connection, "BEGIN IMMEDIATE"):
                self._numbers[conversation] = sqlite_log.append_batch(
                    connection, conversation, events, expect
                )
        self._heads[conversation] = events[-1].seq
        self._wrote()

    @_guarded
    def bookmark(self, conversation: str) -> bytes | None:
        codec.conversation_checked(conversation)
        connection = self._connected(writing=False)
        return sqlite_log.bookmark(connection, conversation) if connection else None

    @_guarded
    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        with _transaction(self._connection_to(conversation), "BEGIN IMMEDIATE") as connection:
            sqlite_log.keep_bookmark(connection, conversation, bytes(data))
        self._wrote()

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        return self._artifacts.put(chunks, suffix=suffix)

    def get(self, digest: str) -> Iterator[bytes]:
        return self._artifacts.get(digest)

    def location(self, digest: str) -> str | None:
        return self._artifacts.location(digest)

    def drop(self, digest: str, *, before_ms: int) -> bool:
        return self._artifacts.drop(digest, before_ms=before_ms)

    @_guarded
    def fork(self, conversation: str, at: int, new: str) -> None:
        codec.conversation_checked(new)
        with _transaction(self._connection_to(conversation), "BEGIN IMMEDIATE") as connection:
            sqlite_log.fork(connection, conversation, at, new)
        self._wrote()

    @_guarded
    def erase(self, conversation: str, seq: int) -> None:
        with _transaction(self._connection_to(conversation), "BEGIN IMMEDIATE") as connection:
            sqlite_log.erase(connection, conversation, seq)
        # secure_delete clears the row, but not the copies that page splits left behind when they
        # moved it (seen in 2 of 600 random stores). Only writing all pages anew is sure to leave no
        # byte.
        connection.execute("VACUUM")
        self._scrub(connection)

    @_guarded
    def delete(self, conversation: str) -> None:
        with _transaction(self._connection_to(conversation), "BEGIN IMMEDIATE") as connection:
            sqlite_log.delete(connection, conversation)
        self._numbers.pop(conversation, None)
        self._heads.pop(conversation, None)
        self._lines.pop(conversation, None)
        self._scrub(connection)

    def flush(self) -> None:
        with self._flushing:
            written = self._written
            if written == self._flushed:
                return
            self._check_alive()
            assert self._wal is not None
            try:
                self._wal.sync()
            except OSError as error:
                self._ended = door.os_failure(
                    error, f"cannot sync {self._wal.path}; open the store again"
                )
                raise self._ended from error
            self._flushed = written

    def close(self) -> None:
        try:
            if self._ended is None:
                self.flush()
        finally:
            self._disconnect()
            self._ended = self._ended or Invalid(
                f"{self.url} is closed", hint="open the store again"
            )

    @_guarded
    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._numbers.clear()
        self._heads.clear()
        self._lines.clear()
        with self._flushing:
            wal, self._wal = self._wal, None
            if wal:
                wal.close()
        if connection:
            connection.close()

    def _connected(self, *, writing: bool) -> apsw.Connection | None:
        """The connection; None while there is no database and nothing is to be written."""
        if self._connection is None or self._ended:
            self._check_alive()
            self._connection = sqlite_file.connect(self.path, writing=writing)
        return self._connection

    def _connection_to(self, conversation: str) -> apsw.Connection:
        """The connection, for a method that speaks of a conversation which must be there."""
        codec.conversation_checked(conversation)
        connection = self._connected(writing=False)
        if connection is None:
            raise door.unknown(conversation)
        return connection

    def _check_alive(self) -> None:
        if self._ended:
            raise type(self._ended)(str(self._ended), hint=self._ended.hint)

    def _wrote(self) -> None:
        """Notes that there is something to sync. The descriptor is opened now, so that it sees
        every write error."""
        if self._wal is None:
            self._wal = sqlite_file.Wal(self.path)
        self._written += 1

    def _scrub(self, connection: apsw.Connection) -> None:
        """Copies the cleared pages over the old ones and empties the WAL, which still holds what
        was there."""
        self._wrote()
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


@contextmanager
def _transaction(connection: apsw.Connection, begin: str) -> Iterator[apsw.Connection]:
    """All of the block is written, or none of it; reads in it see one moment."""
    connection.execute(begin)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


# A SQLite connection must not be carried over a fork: its locks belong to the parent, and the child
# would not know. So every store lets go of its connection before, and takes a new one when it is
# used next, on either side.
_OPEN: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_HELD: list[SqliteStore] = []


def _let_go() -> None:
    for store in list(_OPEN):
        store._lock.acquire()
        store._flushing.acquire()
        _HELD.append(store)
        # A sync that fails here ends the store, which says so when it is used next.
        with suppress(RefoldError):
            if store._ended is None:
                store.flush()
        store._disconnect()


def _go_on() -> None:
    while _HELD:
        store = _HELD.pop()
        store._flushing.release()
        store._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_let_go, after_in_parent=_go_on, after_in_child=_go_on)
