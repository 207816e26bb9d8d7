"""Logs in one SQLite file: an append is one small insert at the end of a table, and nothing else.

Appends commit without a sync (they survive kill -9); `flush` makes all of them survive power loss.
Neighbours: `log` and `removal` have the rows, `wal` says why one sync is enough, `file` has the
database file, `stores.contents` the artifacts.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec, TypeVar

import apsw
from msgspec.structs import replace

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import RefoldError
from refold.stores import checks
from refold.stores.contents import Artifacts
from refold.stores.protocol import Recovery, Salvage
from refold.stores.sqlite import damage
from refold.stores.sqlite import file as database
from refold.stores.sqlite import log as bookmarks
from refold.stores.sqlite.file import Reader
from refold.stores.sqlite.wal import Flusher
from refold.system import process_fork

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
                if self._reader is None:
                    return method(self, *args, **kwargs)
                self._flusher.check_alive()
                return self._reader.steady(functools.partial(method, self, *args, **kwargs))
        except (apsw.Error, OSError, UnicodeError, OverflowError) as error:
            raise database.any_failure(error, self.path) from error

    return guarded


class SqliteStore:
    """Keeps logs in a SQLite file and artifacts in a folder beside it; satisfies `Store`."""

    recovered: Sequence[Recovery] = ()  # SQLite itself ignores a torn tail of its WAL

    def __init__(
        self, path: str, *, durable: bool = True, read_only: bool = False, shared: bool = False
    ) -> None:
        self.path = os.path.abspath(path)
        self.url = f"sqlite:{self.path}"
        self._page_bytes = database.SHARED_PAGE_BYTES if shared else database.PAGE_BYTES
        folder = database.beside(self.path, "artifacts")
        self._artifacts = Artifacts(folder, durable=durable, read_only=read_only)
        self._reader = Reader(self.path, self._forget_all) if read_only else None
        self._lock = threading.RLock()
        self._flusher = Flusher(self.path)
        self._connection: apsw.Connection | None = None
        self._numbers: dict[str, int] = {}
        self._heads: dict[str, int] = {}  # of logs that nobody else has written to since `_version`
        self._rows: dict[str, bookmarks.Row] = {}  # the rows of logs without a parent, likewise
        self._absent: dict[str, bool] = {}  # the logs that were looked for in vain, likewise
        self._memory = self._numbers, self._heads, self._rows, self._absent
        self._version = -1
        self._ends: dict[str, int] = {}  # of logs that may have had more, on broken pages
        self._broken = ""  # the copy of a database that had such pages
        process_fork.watch(self)

    # --- logs ---

    @_guarded
    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        connection = self._connected(writing=False)
        return bookmarks.listed(connection, after, checks.bounded(limit)) if connection else []

    @_guarded
    def head(self, conversation: str) -> int | None:
        codec.conversation_checked(conversation)
        if self._connection is None and self._reader is None and not os.path.exists(self.path):
            return None  # asked at every request while nothing is remembered
        connection = self._connected(writing=False)
        return bookmarks.head_by_id(connection, conversation) if connection else None

    @_guarded
    def conversation(self, conversation: str) -> Conversation:
        connection = self._connection_to(conversation)
        found = bookmarks.described(connection, conversation)
        if found is None:
            raise checks.unknown(conversation)
        return found

    @_guarded
    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        connection, unchanged = self._connection_to(conversation), self._nobody_wrote()
        if unchanged and self._heads.get(conversation) == after:
            return []
        if conversation in self._absent:
            raise checks.unknown(conversation)
        end = checks.SEQ_MAX if last is None else checks.bounded(last)
        bounds = checks.bounded(after), end, checks.bounded(limit)
        row = self._rows.get(conversation)
        if row is not None:
            # One statement always sees one moment.
            found = bookmarks.span(connection, row, *bounds)
        else:
            found = self._read_through(connection, conversation, bounds)
        if not found and last is None and limit > 0:
            self._heads[conversation] = after
        return found

    def _read_through(
        self, connection: apsw.Connection, conversation: str, bounds: tuple[int, int, int]
    ) -> list[Event]:
        """The events, read together with the conversation's row; the row of a log without a
        parent is remembered."""
        with database.transaction(connection, "BEGIN"):
            row = bookmarks.find(connection, conversation)
            if row is None:
                self._absent[conversation] = True
                raise checks.unknown(conversation)
            found = bookmarks.span(connection, row, *bounds)
        if row.parent is None:
            self._rows[conversation] = row
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
        self._rows.clear()
        self._absent.clear()
        return False

    @_guarded
    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        number = self._numbers.get(conversation, 0)
        checks.check_append(conversation, events, expect, known=number > 0)
        if not events:
            return
        connection = self._connected(writing=True)
        assert connection is not None
        # The usual append asks nothing first: events on top of a log that we have written to
        # before, one of them, or in a transaction that others share (`together`).
        one = len(events) == 1 and events[0].kind != "meta"
        usual = number and (one or (connection.in_transaction and not bookmarks.has_meta(events)))
        if not (usual and bookmarks.append_next(connection, number, events)):
            with database.transaction(connection, "BEGIN IMMEDIATE"):
                number = bookmarks.append_batch(connection, conversation, events, expect)
            self._numbers[conversation] = number
            self._absent.pop(conversation, None)
        self._heads[conversation] = events[-1].seq
        self._flusher.note_write()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is appended in the block is one transaction: all of it is written, or nothing."""
        with self._lock:
            connection = self._connected(writing=True)
            assert connection is not None
            try:
                with database.transaction(connection, "BEGIN IMMEDIATE"):
                    yield
            except BaseException as error:
                # What was remembered of the block's appends is not so.
                self._forget_all()
                if isinstance(error, apsw.Error | OSError):
                    raise database.any_failure(error, self.path) from error
                raise

    @_guarded
    def bookmark(self, conversation: str) -> bytes | None:
        codec.conversation_checked(conversation)
        connection = self._connected(writing=False)
        return bookmarks.kept(connection, conversation) if connection else None

    @_guarded
    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        with self._writing_to(conversation) as connection:
            bookmarks.keep(connection, conversation, bytes(data))
        self._flusher.note_write()

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        return self._artifacts.put(chunks, suffix=suffix)

    def get(self, digest: str) -> Iterator[bytes]:
        return self._artifacts.get(digest)

    def location(self, digest: str) -> str | None:
        return self._artifacts.location(digest)

    def drop(self, digest: str, *, before_ms: int) -> bool:
        return self._artifacts.drop(digest, before_ms=before_ms)

    def derived_path(self, name: str) -> str:
        return database.beside(self.path, name)

    # --- forks, and removing ---

    @_guarded
    def fork(self, conversation: str, at: int, new: str) -> None:
        codec.conversation_checked(new)
        with self._writing_to(conversation) as connection:
            bookmarks.fork(connection, conversation, at, new)
        self._absent.pop(new, None)
        self._flusher.note_write()

    def erase(self, conversation: str, seq: int) -> None:
        self.erase_many(conversation, [seq])

    @_guarded
    def erase_many(self, conversation: str, seqs: Sequence[int]) -> None:
        """Erases these events, all or none; writing all pages again costs as much as for one."""
        with self._writing_to(conversation) as connection:
            for seq in seqs:
                bookmarks.erase(connection, conversation, seq)
        self._remove_copies(conversation)
        # secure_delete clears the row, but not the copies that page splits left when they moved it
        # (seen in 2 of 600 random stores). Only writing all pages again is sure to leave no byte.
        connection.execute("VACUUM")
        self._scrub(connection)

    @_guarded
    def delete(self, conversation: str) -> None:
        with self._writing_to(conversation) as connection:
            bookmarks.delete(connection, conversation)
        self._forget(conversation)
        self._remove_copies(conversation)
        self._scrub(connection)

    # --- repair ---

    @_guarded
    def salvage(self, conversation: str) -> Salvage:
        if self._reader is None:
            damage.lengthen(self.path)
        connection = self._connection_to(conversation)
        if self._reader is None and damage.is_broken(connection):
            self._write_again(connection)
        with database.transaction(connection, "BEGIN"):
            return self._salvaged(connection, conversation)

    def _write_again(self, connection: apsw.Connection) -> None:
        """Puts all rows that can be read in the place of a database with broken pages."""
        kept = f"{self.derived_path('damaged-')}{checks.stamp()}.db"
        fresh = f"{kept}.new"
        for name in (kept, fresh):
            database.create_empty(name)
        self._ends, self._broken = damage.write_again(connection, kept, fresh), kept
        self._forget_all()
        self._scrub(connection)

    def _salvaged(self, connection: apsw.Connection, conversation: str) -> Salvage:
        found = damage.salvage(connection, conversation)
        if conversation in self._ends:
            lost = f"whatever came after event {self._ends[conversation]}: its pages are broken"
            found = replace(found, pieces=(*found.pieces, lost))
        return replace(found, copy=self._broken)

    @_guarded
    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        kept = f"{self._copy_path(conversation)}{checks.stamp()}.jsonl"
        with self._writing_to(conversation) as connection:
            if self._salvaged(connection, conversation) != seen:
                raise checks.written_meanwhile(conversation, len(seen.pieces))
            damage.keep_copy(kept, seen)
            damage.rewrite(connection, conversation, events, after)
        self._ends.pop(conversation, None)
        self._forget(conversation)
        self._flusher.note_write()
        return kept

    def _remove_copies(self, conversation: str) -> None:
        damage.damaged_logs_remove_copies(self._copy_path(conversation))
        damage.remove_copies(self.derived_path("damaged-"))

    def _copy_path(self, conversation: str) -> str:
        """How the names of the files begin that keep what a repair replaced."""
        return self.derived_path(f"{conversation}.damaged-")

    def _forget(self, conversation: str) -> None:
        for known in self._memory:
            known.pop(conversation, None)

    def _scrub(self, connection: apsw.Connection) -> None:
        """Copies the cleared pages over the old ones and empties the WAL, which still holds what
        was there."""
        self._flusher.note_write()
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    # --- flushing, and the end ---

    def flush(self) -> None:
        self._flusher.flush()

    def close(self) -> None:
        try:
            self._flusher.flush_unless_ended()
        finally:
            self._disconnect()
            self._flusher.end(functools.partial(checks.closed, self.url))

    def _disconnect(self) -> None:
        if self._reader is None:
            self._close_connection()
            return
        with self._lock:
            self._reader.close()

    @_guarded
    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        self._forget_all()
        self._flusher.close()
        if connection:
            connection.close()

    def _forget_all(self) -> None:
        """Forgets what was remembered of the logs; it is read again."""
        self._version = -1
        for known in self._memory:
            known.clear()

    # --- the connection ---

    def _connected(self, *, writing: bool) -> apsw.Connection | None:
        """The connection; None while there is no database and nothing is to be written."""
        if self._reader is not None:
            return self._reader.connection
        if self._connection is None or self._flusher.has_ended:
            self._flusher.check_alive()
            self._connection = database.connect(
                self.path, writing=writing, page_bytes=self._page_bytes
            )
        return self._connection

    def _connection_to(self, conversation: str) -> apsw.Connection:
        """The connection, for a method that is about a conversation which must be there."""
        codec.conversation_checked(conversation)
        connection = self._connected(writing=False)
        if connection is None:
            raise checks.unknown(conversation)
        return connection

    @contextmanager
    def _writing_to(self, conversation: str) -> Iterator[apsw.Connection]:
        """The same, in a transaction that writes."""
        with database.transaction(
            self._connection_to(conversation), "BEGIN IMMEDIATE"
        ) as connection:
            yield connection

    # A SQLite connection must not be carried over a fork of the process: its locks belong to the
    # parent, and the child would not know. So the store lets go of its connection before, and
    # takes a new one when it is used next, on either side.

    def before_fork(self) -> None:
        """Flushes and disconnects; no other thread can use the store until `after_fork`."""
        self._lock.acquire()
        self._flusher.guard.acquire()
        # A sync that fails here ends the store, which says so when it is used next.
        with suppress(RefoldError):
            self._flusher.flush_unless_ended()
        self._disconnect()

    def after_fork(self, *, in_child: bool) -> None:
        self._flusher.guard.release()
        self._lock.release()
