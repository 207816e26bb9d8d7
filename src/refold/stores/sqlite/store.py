"""Logs in one SQLite file: an append is one small insert at the end of a table, and nothing else.

Appends commit without a sync and survive kill -9; `flush` makes all of them survive power loss.
Neighbours: `log` has the rows, `wal` explains why one sync is enough, `database_file` has the
database file, `damage` repairs it, `stores.artifact_files` keeps the artifacts.
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

from refold.core import ids
from refold.core.model import Conversation, Event
from refold.errors import RefoldError
from refold.stores import checks
from refold.stores.artifact_files import Artifacts
from refold.stores.protocol import Changes, Recovery, Salvage
from refold.stores.sqlite import damage, log, recent
from refold.stores.sqlite import database_file as database
from refold.stores.sqlite.database_file import Reader
from refold.stores.sqlite.wal import Flusher
from refold.system import disk, process_fork

SHRINK_BYTES = 256 * 1024
P = ParamSpec("P")
R = TypeVar("R")


def _guarded(
    method: Callable[Concatenate[SqliteStore, P], R],
) -> Callable[Concatenate[SqliteStore, P], R]:
    """Runs a method for one thread at a time, and translates every error into one of refold's."""

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


@checks.checked_store
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
        self._file: tuple[int, int] | None = None  # of the connection
        self._numbers: dict[str, int] = {}
        # These hold as long as no other connection writes, which `_version` tells.
        self._heads: dict[str, int] = {}
        self._rows: dict[str, log.Row] = {}  # of logs without a parent
        self._absent: dict[str, bool] = {}
        self._caches = self._numbers, self._heads, self._rows, self._absent
        self._version = -1
        self._ends: dict[str, int] = {}  # of logs that may have had more events on broken pages
        self._is_new = False  # whether no database was there, and none was lost
        self._broken_copy = ""  # path of the database that had the broken pages
        process_fork.watch(self)

    # --- logs ---

    @_guarded
    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        connection = self._connected(writing=False)
        return log.listed(connection, after, checks.bounded(limit)) if connection else []

    @_guarded
    def newest(
        self, *, after: Conversation | None = None, limit: int = 100
    ) -> list[Conversation] | None:
        place = None if after is None else (after.updated_ms, after.id)
        with self._turns() as connection:
            if connection is None:
                return None
            return log.numbered(connection, recent.newest(connection, place, limit))

    @_guarded
    def changes(self, after: int, *, limit: int = 1_000) -> Changes | None:
        with self._turns() as connection:
            if connection is None:
                return None
            turn, numbers, has_deleted = recent.since(connection, after, max(2, limit))
            found = tuple(log.numbered(connection, numbers))
            return Changes(upto=turn, conversations=found, has_deleted=has_deleted)

    @contextmanager
    def _turns(self) -> Iterator[apsw.Connection | None]:
        """The connection, to read one snapshot; None if the database does not know who was
        newest."""
        connection = self._connected(writing=False)
        if connection is None or not recent.is_known(connection):
            yield None
            return
        with database.transaction(connection, "BEGIN"):
            yield connection

    @property
    def is_current(self) -> bool:
        """Whether another user may share this connection: a reader's is never shared, nor one that
        has ended, or whose file was moved away or replaced."""
        if self._reader is not None or self._flusher.has_ended:
            return False
        return self._connection is None or self._file == self._named_file()

    def _named_file(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def version(self) -> tuple[int, ...]:
        return database.stamp(self.path)

    @_guarded
    def head(self, conversation: str) -> int | None:
        ids.conversation_checked(conversation)
        if self._connection is None and self._reader is None and not os.path.exists(self.path):
            if not self._is_new:  # asked at every request while nothing is remembered
                database.refuse_lost(self.path)
                self._is_new = True
            return None
        connection = self._connected(writing=False)
        return log.head_by_id(connection, conversation) if connection else None

    @_guarded
    def conversation(self, conversation: str) -> Conversation:
        connection = self._connection_to(conversation)
        found = log.described(connection, conversation)
        if found is None:
            raise checks.unknown(conversation)
        return found

    @_guarded
    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        connection = self._connection_to(conversation)
        self._forget_if_others_wrote(connection)
        if self._heads.get(conversation) == after:
            return []
        if conversation in self._absent:
            raise checks.unknown(conversation)
        end = checks.SEQ_MAX if last is None else checks.bounded(last)
        bounds = checks.bounded(after), end, checks.bounded(limit)
        row = self._rows.get(conversation)
        if row is not None:
            # One statement always sees one snapshot.
            events = log.span(connection, row, *bounds)
        else:
            with database.transaction(connection, "BEGIN"):
                row = log.find(connection, conversation)
                if row is None:
                    self._absent[conversation] = True
                    raise checks.unknown(conversation)
                events = log.span(connection, row, *bounds)
            if row.parent is None:
                self._rows[conversation] = row
        if not events and last is None and limit > 0:
            self._heads[conversation] = after
        return events

    def _forget_if_others_wrote(self, connection: apsw.Connection) -> None:
        """Drops the cached heads and rows if another connection has written since; SQLite keeps a
        number for that."""
        version: int = connection.execute("PRAGMA data_version").get
        if version != self._version:
            self._version = version
            self._heads.clear()
            self._rows.clear()
            self._absent.clear()

    @_guarded
    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        number = self._numbers.get(conversation, 0)
        checks.check_append(conversation, events, expect, known=number > 0)
        if not events:
            return
        connection = self._connected(writing=True)
        assert connection is not None
        # The usual append queries nothing first: one event on top of a log that this store has
        # written to before, or several in a transaction that appends share (`together`). An event
        # of the kind "meta" may change the conversation's row.
        is_usual = (
            number
            and (len(events) == 1 or connection.in_transaction)
            and not any(event.kind == "meta" for event in events)
        )
        if not (is_usual and log.append_next(connection, number, events)):
            with database.transaction(connection, "BEGIN IMMEDIATE"):
                number = log.append_batch(connection, conversation, events, expect)
            self._numbers[conversation] = number
            self._absent.pop(conversation, None)
        self._heads[conversation] = events[-1].seq
        self._flusher.note_write()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Makes the appends in the block one transaction: all are written, or none."""
        with self._lock:
            connection = self._connected(writing=True)
            assert connection is not None
            try:
                with database.transaction(connection, "BEGIN IMMEDIATE"):
                    yield
            except BaseException as error:
                # The caches describe appends that were rolled back.
                self._forget_all()
                if isinstance(error, apsw.Error | OSError):
                    raise database.any_failure(error, self.path) from error
                raise

    @_guarded
    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        ids.conversation_checked(conversation)
        connection = self._connected(writing=False)
        return log.bookmark(connection, conversation, at) if connection else None

    @_guarded
    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        with self._writing_to(conversation) as connection:
            log.keep_bookmark(connection, conversation, bytes(data), at)
        self._flusher.note_write()

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        if self._reader is None and not disk.size_bytes(self.path):
            self._make()  # a folder of artifacts without a database belongs to a lost one
        return self._artifacts.put(chunks, suffix=suffix)

    @_guarded
    def _make(self) -> None:
        self._connected(writing=True)

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
        ids.conversation_checked(new)
        with self._writing_to(conversation) as connection:
            log.fork(connection, conversation, at, new)
        self._absent.pop(new, None)
        self._flusher.note_write()

    def erase(self, conversation: str, seq: int) -> None:
        self.erase_many(conversation, [seq])

    @_guarded
    def erase_many(self, conversation: str, seqs: Sequence[int]) -> None:
        """Erases these events, all or none. Rewriting all pages costs as much as for one event."""
        with self._writing_to(conversation) as connection:
            for seq in seqs:
                log.erase(connection, conversation, seq)
        self._remove_copies(conversation)
        # secure_delete clears the row, but not the copies that page splits left when they moved it
        # (seen in 2 of 600 random stores). Only rewriting all pages is sure to leave no byte.
        try:
            connection.execute("VACUUM")
        finally:
            self._scrub(connection)  # also after a failure: on a full disk the WAL has all of it

    @_guarded
    def delete(self, conversation: str) -> None:
        try:
            self._delete_at_once(conversation)
        except apsw.FullError:
            self._shrink(conversation)
            self._delete_at_once(conversation)
        connection = self._connection_to(conversation)
        self._forget(conversation)
        self._remove_copies(conversation)
        self._scrub(connection)

    def _delete_at_once(self, conversation: str) -> None:
        with self._writing_to(conversation) as connection:
            log.delete(connection, conversation)

    def _shrink(self, conversation: str) -> None:
        """Removes the newest events step by step, because on a full disk the WAL has no room for
        all cleared pages. Whenever this is interrupted, a shorter log is left, still undeleted."""
        has_more = True
        while has_more:
            self._scrub(self._connection_to(conversation))
            with self._writing_to(conversation) as connection:
                has_more = log.delete_newest(connection, conversation, SHRINK_BYTES)
            self._forget(conversation)

    @_guarded
    def spare_bytes(self) -> int:
        """The free pages in the file. Empties the WAL first, which may hold most of the disk."""
        connection = self._connected(writing=False)
        if connection is None:
            return 0
        with suppress(apsw.BusyError, apsw.LockedError):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        pages: int = connection.execute("PRAGMA freelist_count").get
        size: int = connection.execute("PRAGMA page_size").get
        return pages * size

    # --- repair ---

    @_guarded
    def salvage(self, conversation: str) -> Salvage:
        if self._reader is None:
            damage.lengthen(self.path)
        connection = self._connection_to(conversation)
        if self._reader is None and damage.is_broken(connection):
            self._rebuild(connection)
        with database.transaction(connection, "BEGIN"):
            return self._salvaged(connection, conversation)

    def _rebuild(self, connection: apsw.Connection) -> None:
        """Replaces a database with broken pages by one with every row that can be read."""
        copy = f"{self.derived_path('damaged-')}{checks.stamp()}.db"
        fresh = f"{copy}.new"
        for path in (copy, fresh):
            database.create_empty(path)
        self._ends, self._broken_copy = damage.rebuild(connection, copy, fresh), copy
        self._forget_all()
        self._scrub(connection)

    def _salvaged(self, connection: apsw.Connection, conversation: str) -> Salvage:
        salvage = damage.salvage(connection, conversation)
        if conversation in self._ends:
            lost = f"whatever came after event {self._ends[conversation]}: its pages are broken"
            salvage = replace(salvage, pieces=(*salvage.pieces, lost))
        return replace(salvage, copy=self._broken_copy)

    @_guarded
    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        copy = f"{self._copy_prefix(conversation)}{checks.stamp()}.jsonl"
        with self._writing_to(conversation) as connection:
            if self._salvaged(connection, conversation) != seen:
                raise checks.written_meanwhile(conversation, len(seen.pieces))
            damage.write_copy(copy, seen)
            damage.rewrite(connection, conversation, events, after)
        self._ends.pop(conversation, None)
        self._forget(conversation)
        self._flusher.note_write()
        return copy

    def _remove_copies(self, conversation: str) -> None:
        """Removes the copies that repairs made: they may hold text that must be gone."""
        damage.remove_files(self._copy_prefix(conversation), ".jsonl")
        damage.remove_files(self.derived_path("damaged-"), ".db")

    def _copy_prefix(self, conversation: str) -> str:
        """Start of the paths of the copies that repairs of this log made."""
        return self.derived_path(f"{conversation}.damaged-")

    def _forget(self, conversation: str) -> None:
        for cache in self._caches:
            cache.pop(conversation, None)

    def _scrub(self, connection: apsw.Connection) -> None:
        """Copies the cleared pages over the old ones and empties the WAL, which still has the old
        pages."""
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
        self._version = -1
        for cache in self._caches:
            cache.clear()

    # --- the connection ---

    def _connected(self, *, writing: bool) -> apsw.Connection | None:
        """The connection; None for a reader of a database that does not exist yet."""
        if self._reader is not None:
            return self._reader.connection
        if self._connection is None or self._flusher.has_ended:
            self._flusher.check_alive()
            self._connection = database.connect(
                self.path, writing=writing, page_bytes=self._page_bytes
            )
            self._file = self._named_file()
        return self._connection

    def _connection_to(self, conversation: str) -> apsw.Connection:
        """The connection; NotFound if there is no database, so no conversation either."""
        ids.conversation_checked(conversation)
        connection = self._connected(writing=False)
        if connection is None:
            raise checks.unknown(conversation)
        return connection

    @contextmanager
    def _writing_to(self, conversation: str) -> Iterator[apsw.Connection]:
        """The connection, in a write transaction."""
        with database.transaction(
            self._connection_to(conversation), "BEGIN IMMEDIATE"
        ) as connection:
            yield connection

    # A SQLite connection must not be carried over a fork of the process: its locks belong to the
    # parent, and the child would not know. So the store disconnects before, and connects again
    # when it is used next, on either side.

    def before_fork(self) -> None:
        """Flushes and disconnects; no other thread can use the store until `after_fork`."""
        self._lock.acquire()
        self._flusher.guard.acquire()
        # A sync that fails here ends the store; the next call raises its error.
        with suppress(RefoldError):
            self._flusher.flush_unless_ended()
        self._disconnect()

    def after_fork(self, *, in_child: bool) -> None:
        self._flusher.guard.release()
        self._lock.release()
