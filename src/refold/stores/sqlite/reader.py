"""Reading a database while every byte, name and time beside it stays as it was.

SQLite makes a -wal and a -shm file even for a reader, and the last to close moves commits. So a
reader has two ways. Where a WAL holds commits, it uses the files that the writer made, as they are
(`readonly_shm`), and lets go of them after each question: a writer who closes meanwhile can still
remove them. Where there is none, the file alone is the database and is read as `immutable`; if a
writer changed it meanwhile, the question is asked again. A database of an older layout is migrated
in memory. Neighbours: `store` asks, `file` knows what a database of ours is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import apsw

from refold.errors import Corrupt, Unavailable
from refold.stores.sqlite import file as database
from refold.stores.sqlite.versions import VERSION, take_steps

R = TypeVar("R")

WAIT_S = 2.0
PAUSE_S = 0.005

Stamp = tuple[int, int, int, bool]


class Reader:
    """Connections to one database, for a store that only reads. `forget` is called whenever
    another connection takes the place of the last: what was remembered may be old then."""

    def __init__(self, path: str, forget: Callable[[], None]) -> None:
        self.path, self._forget = path, forget
        self.connection: apsw.Connection | None = None
        self._stamp: Stamp | None = None

    def steady(self, work: Callable[[], R]) -> R:
        """What the work gives, where all it read is of one state of the database."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self._connect()
                found = work()
                if self._is_snapshot() or self._stamp == _stamp(self.path):
                    return found
            except Unavailable:
                # A writer that closes takes its -shm file away before its -wal file.
                if time.monotonic() > deadline:
                    raise
            except (apsw.Error, Corrupt):
                if self._stamp == _stamp(self.path) or time.monotonic() > deadline:
                    raise
            finally:
                if self._is_snapshot():
                    self.close()
            if time.monotonic() > deadline:
                hint = "a writer is at work: try again"
                raise Unavailable(f"{self.path} keeps changing", retry_after_s=1.0, hint=hint)
            time.sleep(PAUSE_S)

    def _is_snapshot(self) -> bool:
        """Whether SQLite itself sees to it that a question is answered from one state."""
        return self._stamp is not None and self._stamp[-1]

    def _connect(self) -> None:
        stamp = _stamp(self.path)
        if self.connection is not None and stamp == self._stamp:
            return
        self.close()
        self._stamp = stamp
        self.connection = _connection(self.path, has_wal=stamp[-1]) if stamp else None

    def close(self) -> None:
        connection, self.connection = self.connection, None
        self._forget()
        if connection is not None:
            connection.close()


def _stamp(path: str) -> Stamp | None:
    """What changes whenever the database file does, and whether a WAL holds commits; None if
    there is no database."""
    if not database.exists(path):
        return None
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, database.has_wal(path)


def _connection(path: str, *, has_wal: bool) -> apsw.Connection | None:
    """A connection that changes nothing; None if the database is still empty."""
    with database.CONNECTING:
        database.refuse_strange_links(path)
        how = "mode=ro&readonly_shm=1" if has_wal else "immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)
        try:
            return _laid_out(connection, path)
        except apsw.CantOpenError as error:
            connection.close(True)
            raise _without_shm(error, path) from error
        except BaseException:
            connection.close(True)
            raise


def _laid_out(connection: apsw.Connection, path: str) -> apsw.Connection | None:
    database.configure(connection)
    version = database.version_of(connection, path)
    if version == VERSION:
        return connection
    copy = None if version is None else _migrated_copy(connection)
    connection.close()
    return copy


def _migrated_copy(connection: apsw.Connection) -> apsw.Connection:
    copy = apsw.Connection(":memory:")
    with copy.backup("main", connection, "main") as backup:
        backup.step(-1)
    database.configure(copy)
    take_steps(copy)
    return copy


def _without_shm(error: apsw.CantOpenError, path: str) -> Exception:
    """Why a database with a WAL cannot be read: a copy may have been made without its -shm
    file."""
    if not database.has_wal(path) or os.path.exists(os.path.realpath(path) + "-shm"):
        return error
    said = f"{path} has commits in its -wal file that cannot be read without its -shm file"
    hint = "whoever may write there opens it once for writing, which puts them in place"
    return Unavailable(said, hint=hint)
