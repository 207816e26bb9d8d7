"""The file of an index: made for the owner alone, opened, and thrown away when it is not sound.

Everything in it can be made again from the logs. So damage is no error here: `opened` starts anew
and says so; only a file of another program is left alone. What SQLite says later becomes an error
of the family (`translated`): `Corrupt` means that the file should be rebuilt, `Unavailable` that it
cannot be written now.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import apsw

from refold.errors import Corrupt, RefoldError, Unavailable
from refold.search.words import TOKENIZER

APPLICATION_ID = 0x72656678  # "refx"
VERSION = 2
BUSY_MS = 2_000
CACHE_KIB = 16_384
MEMORY = ":memory:"

# `id` of an entry is its conversation's number, its kind and its position among those of that kind:
# see `index`.
SCHEMA = f"""
CREATE TABLE conversations(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, parent TEXT NOT NULL, parent_seq INTEGER NOT NULL,
    head INTEGER NOT NULL, chain BLOB NOT NULL
) STRICT;
CREATE TABLE lanes(
    number INTEGER PRIMARY KEY, rows INTEGER NOT NULL, words INTEGER NOT NULL, near REAL NOT NULL,
    updated_ms INTEGER NOT NULL, embedded INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX newest ON lanes(updated_ms);
CREATE TABLE entries(
    id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, words INTEGER NOT NULL, role TEXT NOT NULL,
    tools TEXT NOT NULL, author TEXT NOT NULL, start INTEGER NOT NULL, asks INTEGER NOT NULL
) STRICT;
CREATE TABLE authors(
    conversation INTEGER NOT NULL, author TEXT NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (conversation, author)
) STRICT, WITHOUT ROWID;
CREATE TABLE vectors(id INTEGER PRIMARY KEY, pieces BLOB NOT NULL) STRICT;
CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE documents USING fts5(
    text, parts, content='', contentless_delete=1, tokenize='{" ".join(TOKENIZER)}'
);
INSERT INTO documents(documents, rank) VALUES ('automerge', 8);
"""


_DAMAGE = (apsw.NotADBError, apsw.CorruptError, apsw.FormatError, apsw.SQLError)


class Foreign(Exception):
    """The file is a database of another program."""


def opened(path: str) -> tuple[apsw.Connection, tuple[str, str] | None]:
    """A connection to the index at `path`, and a notice if something had to be done; a new file
    is worth none."""
    if path == MEMORY:
        return _in_memory(), None
    try:
        return _opened(path), None
    except Foreign:
        return _in_memory(), (
            "index-in-memory",
            f"{path} belongs to another program: this index is in memory",
        )
    except _DAMAGE as error:
        return _anew(path, str(error))
    except (apsw.Error, OSError) as error:
        return _in_memory(), (
            "index-in-memory",
            f"{path} cannot be used ({error}): this index is in memory",
        )


def _anew(path: str, reason: str) -> tuple[apsw.Connection, tuple[str, str]]:
    try:
        remove(path)
        said = f"{path} was damaged ({reason}): it is built anew, nothing is lost"
        return _opened(path), ("index-rebuilt", said)
    except (apsw.Error, OSError) as error:
        return _in_memory(), (
            "index-in-memory",
            f"{path} is damaged and cannot be replaced ({error})",
        )


def _in_memory() -> apsw.Connection:
    return _initialised(apsw.Connection(MEMORY))


def is_foreign(path: str) -> bool:
    """Whether the file is a sound database of another program: that is not ours to remove."""
    if not os.path.isfile(path):
        return False
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        _is_ours(connection)
    except Foreign:
        return True
    except apsw.Error:
        return False
    finally:
        connection.close(True)
    return False


def remove(path: str) -> None:
    """Takes the index away; it is built again when it is needed."""
    for name in (path, path + "-wal", path + "-shm", path + "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _opened(path: str) -> apsw.Connection:
    _create(path)
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_MS)
        return _initialised(connection)
    except BaseException:
        connection.close(True)
        raise


def _create(path: str) -> None:
    """An empty file that only its owner can read. The mode given to open() is cut by the umask,
    fchmod's is not."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return
    try:
        os.fchmod(fd, 0o600)
    finally:
        os.close(fd)


def _initialised(connection: apsw.Connection) -> apsw.Connection:
    """The connection, with our tables in it; those of an older version are not read but made
    anew."""
    # Without this SQLite plans anew whenever a value is bound that a plan could depend on: FTS5
    # does so for each of its segments, which took half the time of a search for a rare term.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(
        f"PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON; PRAGMA synchronous=NORMAL;"
        f"PRAGMA cache_size=-{CACHE_KIB}"
    ).fetchall()
    if _is_ours(connection):
        return connection
    connection.pragma("journal_mode", "wal")
    with transaction(connection):
        if not _is_ours(connection):
            connection.execute(SCHEMA)
            connection.execute(
                f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}"
            ).fetchall()
    return connection


def _is_ours(connection: apsw.Connection) -> bool:
    """True for an index of this version, False for an empty file."""
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application == APPLICATION_ID:
        if version != VERSION:
            raise apsw.FormatError(f"version {version}, not {VERSION}")
        # A table that is gone shows here, not in the middle of a search.
        connection.execute("SELECT rowid FROM documents LIMIT 1").fetchall()
        return True
    if application or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get:
        raise Foreign
    return False


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All of the block is written, or none of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Only errors of the family leave the block."""
    try:
        yield
    except apsw.Error as error:
        raise _failure(error, path) from error


def _failure(error: apsw.Error, path: str) -> RefoldError:
    match error:
        case (
            apsw.NotADBError()
            | apsw.CorruptError()
            | apsw.FormatError()
            | apsw.SQLError()
            | apsw.IOError()
        ):
            return Corrupt(f"{path}: {error}", hint="refold index --rebuild")
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(
                f"{path} is busy: {error}", retry_after_s=1.0, hint="another process is writing it"
            )
        case _:
            return Unavailable(f"{path}: {error}", hint="check the disk and the mode of the file")
