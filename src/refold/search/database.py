"""The file of an index: made for the owner alone, opened, and thrown away when it is damaged.

Everything in it can be made again from the logs. So damage is not an error here: `connect` starts
with an empty file and reports it; only a file of another program is left alone. `Form` says what
tables a file of ours has: one for the index, one for `fronts`. What SQLite raises later becomes one
of our errors (`translated`): `Corrupt` means that the file should be rebuilt, `Unavailable` that it
cannot be written now. Neighbours: `index` has the rows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from urllib.parse import quote

import apsw
from msgspec import Struct

from refold.errors import Corrupt, RefoldError, Unavailable
from refold.search.words import TOKENIZER
from refold.system import disk

APPLICATION_ID = 0x72656678  # "refx"
VERSION = 5
BUSY_MS = 2_000
CACHE_KIB = 16_384
STEPS_BETWEEN_LOOKS = 20_000  # of SQLite's machine, some tenths of a millisecond
MEMORY = ":memory:"

# `id` of an entry is its conversation's number, its kind and its position among those of that kind:
# see `index`.
SCHEMA = f"""
CREATE TABLE conversations(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, parent TEXT NOT NULL,
    parent_seq INTEGER NOT NULL, head INTEGER NOT NULL, chain BLOB NOT NULL
) STRICT;
CREATE TABLE lanes(
    number INTEGER PRIMARY KEY, rows INTEGER NOT NULL, words INTEGER NOT NULL, near REAL NOT NULL,
    updated_ms INTEGER NOT NULL, embedded INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX newest ON lanes(updated_ms);
CREATE TABLE entries(
    id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, words INTEGER NOT NULL,
    role TEXT NOT NULL, tools TEXT NOT NULL, author TEXT NOT NULL, start INTEGER NOT NULL,
    asks INTEGER NOT NULL
) STRICT;
CREATE TABLE authors(
    conversation INTEGER NOT NULL, author TEXT NOT NULL, rows INTEGER NOT NULL,
    PRIMARY KEY (conversation, author)
) STRICT, WITHOUT ROWID;
CREATE TABLE vectors(id INTEGER PRIMARY KEY, pieces BLOB NOT NULL) STRICT;
CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE documents USING fts5(
    text, parts, content='', contentless_delete=1, tokenize='{" ".join(TOKENIZER)}'
);
INSERT INTO documents(documents, rank) VALUES ('automerge', 8);
"""

PRAGMAS = f"""
PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON;
PRAGMA synchronous=NORMAL; PRAGMA cache_size=-{CACHE_KIB}
"""


class Form(Struct, frozen=True, kw_only=True):
    """What makes a file ours: its mark, its version, its tables, and one of them to look for."""

    application_id: int
    version: int
    schema: str
    table: str

    @property
    def marks(self) -> str:
        return f"PRAGMA application_id={self.application_id}; PRAGMA user_version={self.version}"


INDEX = Form(application_id=APPLICATION_ID, version=VERSION, schema=SCHEMA, table="documents")

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_DAMAGE = (apsw.NotADBError, apsw.CorruptError, apsw.FormatError, apsw.SQLError)


class Foreign(Exception):
    """The file is a database of another program."""


Notice = tuple[str, str]


def connect(path: str, form: Form = INDEX) -> tuple[apsw.Connection, Notice | None]:
    """A connection to the index at `path`, and a notice if something had to be done; a new file
    is not worth one."""
    if path == MEMORY:
        return _in_memory(form), None
    try:
        return _connect_file(path, form), None
    except Foreign:
        reason = f"{path} belongs to another program: this index is in memory"
    except (*_DAMAGE, UnicodeDecodeError) as error:
        return _replace_damaged(path, str(error), form)
    except (apsw.Error, OSError) as error:
        reason = f"{path} cannot be used ({error}): this index is in memory"
    return _in_memory(form), ("index-in-memory", reason)


def _replace_damaged(path: str, reason: str, form: Form) -> tuple[apsw.Connection, Notice]:
    try:
        remove(path)
        connection = _connect_file(path, form)
    except (apsw.Error, OSError) as error:
        reason = f"{path} is damaged and cannot be replaced ({error})"
        return _in_memory(form), ("index-in-memory", reason)
    reason = f"{path} was damaged ({reason}): it is being rebuilt, nothing is lost"
    return connection, ("index-rebuilt", reason)


def _in_memory(form: Form) -> apsw.Connection:
    connection = apsw.Connection(MEMORY)
    _initialize(connection, form)
    return connection


def copy(path: str) -> apsw.Connection:
    """What the index at `path` holds, in memory: whoever may not write in its folder goes on with
    that. An empty one where there is none, or none that can be read."""
    if not os.path.isfile(path):
        return _in_memory(INDEX)
    wal = path + "-wal"
    has_wal = os.path.exists(wal) and os.path.getsize(wal) > 0
    # Neither way makes a file beside it or changes one: see `stores.sqlite.reader`.
    how = "mode=ro&readonly_shm=1" if has_wal else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(MEMORY)
    try:
        with contextlib.closing(apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)) as file:
            file.set_busy_timeout(BUSY_MS)
            with connection.backup("main", file, "main") as backup:
                backup.step(-1)
        _initialize(connection, INDEX)
    except (Foreign, apsw.Error, UnicodeDecodeError):
        connection.close(True)
        return _in_memory(INDEX)
    return connection


def is_foreign(path: str) -> bool:
    """Whether the file is a sound database of another program: that is not ours to remove."""
    if not disk.is_regular(path):
        return False
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        _is_ours(connection, INDEX)
    except Foreign:
        return True
    except apsw.Error:
        return False
    finally:
        connection.close(True)
    return False


def _files(path: str) -> tuple[str, ...]:
    """The file of an index, and those that SQLite puts beside it."""
    return (path, path + "-wal", path + "-shm", path + "-journal")


def remove(path: str) -> None:
    """Deletes the index; it is built again when it is needed."""
    for name in _files(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _connect_file(path: str, form: Form) -> apsw.Connection:
    for name in _files(path):
        if os.path.lexists(name) and not disk.is_regular(name):
            raise OSError(errno.EPERM, f"{name} is a link, or not a file")
    _create(path)
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        _initialize(connection, form)
    except BaseException:
        connection.close(True)
        raise
    return connection


def _create(path: str) -> None:
    """Makes an empty file that only its owner can read, unless there is a file. The mode given to
    open() is cut by the umask, fchmod's is not."""
    try:
        fd = os.open(path, _NEW_FILE, 0o600)
    except FileExistsError:
        return
    try:
        os.fchmod(fd, 0o600)
    finally:
        os.close(fd)


def _initialize(connection: apsw.Connection, form: Form) -> None:
    """Sees to it that our tables are there. An older version is damage: it is made again."""
    connection.set_busy_timeout(BUSY_MS)
    # Without this SQLite plans again whenever a value is bound that a plan could depend on: FTS5
    # does so for each of its segments, which took half the time of a search for a rare term.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(PRAGMAS).fetchall()
    if not _is_ours(connection, form):
        _create_tables(connection, form)


def _create_tables(connection: apsw.Connection, form: Form) -> None:
    """Creates the tables, unless another process was faster."""
    connection.pragma("journal_mode", "wal")
    with transaction(connection):
        if not _is_ours(connection, form):
            connection.execute(form.schema)
            connection.execute(form.marks).fetchall()


def _is_ours(connection: apsw.Connection, form: Form) -> bool:
    """True for an index of this version, False for an empty file."""
    application = connection.pragma("application_id")
    if application == form.application_id:
        _check_version(connection, form)
        return True
    if application or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get:
        raise Foreign
    return False


def _check_version(connection: apsw.Connection, form: Form) -> None:
    version = connection.pragma("user_version")
    if version != form.version:
        raise apsw.FormatError(f"version {version}, not {form.version}")
    # A table that is gone shows here, not in the middle of a search.
    connection.execute(f"SELECT * FROM {form.table} LIMIT 1").fetchall()


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All of the block is written, or none of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def limited(connection: apsw.Connection, seconds: float) -> Iterator[None]:
    """What is asked in the block is given up after so many seconds: Unavailable."""
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, STEPS_BETWEEN_LOOKS)
    try:
        yield
    except apsw.InterruptError as error:
        reason = f"the search took more than {seconds:g} seconds"
        raise Unavailable(reason, hint="ask for fewer words, or in one conversation") from error
    finally:
        connection.set_progress_handler(None)


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of SQLite leave the block as our own."""
    try:
        yield
    except apsw.Error as error:
        raise _translation(error, path) from error
    except UnicodeDecodeError as error:
        # A text in the file is not UTF-8: it was not written by us.
        raise Corrupt(f"{path}: {error}", hint="refold search --rebuild") from error


def _translation(error: apsw.Error, path: str) -> RefoldError:
    if isinstance(error, (*_DAMAGE, apsw.IOError)):
        return Corrupt(f"{path}: {error}", hint="refold search --rebuild")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        busy = "another process is writing it"
        return Unavailable(f"{path} is busy: {error}", retry_after_s=1.0, hint=busy)
    return Unavailable(f"{path}: {error}", hint="check the disk and the mode of the file")
