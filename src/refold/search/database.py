"""The file of an index: created for its owner alone, opened, and discarded when damaged.

An index can be rebuilt from the logs, so damage is not an error: `connect` starts with an empty
file and returns a notice. A file of another program is left alone. `Form` describes the tables of
our files: one for the index, one for `fingerprints`. A closed file is sealed: its version says so,
and its time is a whole second, so a change by another program is noticed when the file is opened.
Later SQLite errors become ours (`translated`): `Corrupt` for a file to rebuild, `Unavailable` for
one that cannot be written now. Neighbour: `index` has the rows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from urllib.parse import quote

import apsw
from msgspec import Struct

from refold.errors import Corrupt, Unavailable
from refold.search.words import TOKENIZER
from refold.system import disk, posix, sqlite_file

APPLICATION_ID = 0x72656678  # "refx"
VERSION = 6
BUSY_MS = 2_000
CACHE_KIB = 16_384
STEPS_BETWEEN_LOOKS = 20_000  # steps of SQLite's virtual machine, some tenths of a millisecond
MEMORY = sqlite_file.MEMORY
SECOND_NS = 1_000_000_000

# The module `index` explains the id of an entry.
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
CREATE TABLE progress(one INTEGER PRIMARY KEY, upto INTEGER) STRICT;
CREATE TABLE bookmarks(log TEXT PRIMARY KEY, kept BLOB) STRICT;
CREATE VIRTUAL TABLE documents USING fts5(
    text, parts, content='', contentless_delete=1, tokenize='{" ".join(TOKENIZER)}'
);
INSERT INTO documents(documents, rank) VALUES ('automerge', 8);
"""

PRAGMAS = f"""
PRAGMA secure_delete=ON; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-{CACHE_KIB}
"""


SEALED = 1_000  # added to the version of a file that was closed


class Form(Struct, frozen=True, kw_only=True):
    """The identity of our files: application id, version and schema."""

    application_id: int
    version: int
    schema: str


INDEX = Form(application_id=APPLICATION_ID, version=VERSION, schema=SCHEMA)

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
_DAMAGE = (apsw.NotADBError, apsw.CorruptError, apsw.FormatError, apsw.SQLError)


class Foreign(Exception):
    """The file is a database of another program."""


Notice = tuple[str, str]


def connect(path: str, form: Form = INDEX) -> tuple[apsw.Connection, Notice | None]:
    """A connection to the index at `path`, and a notice if the file was unusable."""
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
    connection = sqlite_file.connect(MEMORY, sqlite_file.CREATE)
    _initialize(connection, form)
    return connection


def copy(path: str) -> apsw.Connection:
    """A copy in memory of the index at `path`, for a process without write access; an empty index
    if the file is missing or unreadable."""
    if not os.path.isfile(path):
        return _in_memory(INDEX)
    # Neither mode creates or changes a file: see `stores.sqlite.reader`.
    how = "mode=ro&readonly_shm=1" if disk.size_bytes(path + "-wal") else "immutable=1"
    address = f"file:{quote(path)}?{how}"
    is_changed = _is_changed(path)
    connection = sqlite_file.connect(MEMORY, sqlite_file.CREATE)
    try:
        with contextlib.closing(sqlite_file.connect(address, sqlite_file.READ)) as file:
            file.set_busy_timeout(BUSY_MS)
            with connection.backup("main", file, "main") as backup:
                backup.step(-1)
        _initialize(connection, INDEX)
        is_sealed = connection.pragma("user_version") > SEALED
        if is_changed and is_sealed and not _is_sealed_soon(path):
            raise Foreign
    except (Foreign, apsw.Error, UnicodeDecodeError):
        connection.close(True)
        return _in_memory(INDEX)
    return connection


def is_foreign(path: str) -> bool:
    """Whether the file is an intact database of another program."""
    if not disk.is_regular(path):
        return False
    connection = sqlite_file.connect(path, apsw.SQLITE_OPEN_READONLY)
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
    """The file of an index, and SQLite's files beside it."""
    return (path, path + "-wal", path + "-shm", path + "-journal")


def remove(path: str) -> None:
    """Deletes the index, which is rebuilt when needed."""
    for name in _files(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _connect_file(path: str, form: Form) -> apsw.Connection:
    for name in _files(path):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(name).st_mode):
                raise OSError(errno.EPERM, f"{name} is a link, or not a file")
    try:
        fd = os.open(path, _NEW_FILE, 0o600)
    except FileExistsError:
        pass
    else:
        try:
            posix.set_mode(fd, 0o600)  # the umask restricts the mode given to open()
        finally:
            os.close(fd)
    is_changed = _is_changed(path)
    connection = sqlite_file.connect(path, sqlite_file.WRITE)
    try:
        _initialize(connection, form)
        if is_changed and connection.pragma("user_version") > SEALED and not _is_sealed_soon(path):
            raise apsw.CorruptError("another program changed it")
    except BaseException:
        connection.close(True)
        raise
    return connection


def _is_changed(path: str) -> bool:
    """Whether a sealed file has changed. While it is open, there is a WAL."""
    return not os.path.lexists(f"{path}-wal") and os.stat(path).st_mtime_ns % SECOND_NS != 0


def _is_sealed_soon(path: str) -> bool:
    """Whether a process is sealing the file just now: it has closed it, and sets its time next."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while os.stat(path).st_mtime_ns % SECOND_NS:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def close(connection: apsw.Connection) -> None:
    """Closes a connection, and seals its file. An unsealed file works as well, so no error
    matters."""
    path = connection.filename
    with contextlib.suppress(apsw.Error, OSError):
        # Only the owner may set the time of a file.
        if path and os.stat(path).st_uid == (posix.user_id() or 0):
            connection.set_busy_timeout(0)
            version = connection.pragma("user_version")
            if version < SEALED:
                connection.pragma("user_version", version + SEALED)
            connection.close()
            if not os.path.lexists(f"{path}-wal"):
                second_ns = os.stat(path).st_mtime_ns // SECOND_NS * SECOND_NS
                os.utime(path, ns=(second_ns, second_ns))
    connection.close(True)


def _initialize(connection: apsw.Connection, form: Form) -> None:
    """Prepares a connection, and creates missing tables. Another version counts as damage."""
    connection.set_busy_timeout(BUSY_MS)
    # Otherwise SQLite plans again whenever it binds a value that the plan could depend on. FTS5
    # binds one for each segment, which took half the time of a search for a rare term.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(PRAGMAS).fetchall()
    if _is_ours(connection, form):
        return
    connection.pragma("journal_mode", "wal")
    with transaction(connection):
        if not _is_ours(connection, form):  # another process may have been faster
            connection.execute(form.schema)
            connection.pragma("application_id", form.application_id)
            connection.pragma("user_version", form.version)


def _is_ours(connection: apsw.Connection, form: Form) -> bool:
    """True for an index of this version, False for an empty file."""
    application = connection.pragma("application_id")
    if application == form.application_id:
        version = connection.pragma("user_version") % SEALED
        if version != form.version:
            raise apsw.FormatError(f"version {version}, not {form.version}")
        found = connection.execute(sqlite_file.LISTING).get
        if other := sqlite_file.difference(found, (sqlite_file.listing(form.schema),)):
            raise apsw.CorruptError(f"it {other}")
        return True
    if application or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get:
        raise Foreign
    return False


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Writes everything in the block, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.pragma("user_version")
        if version > SEALED:
            connection.pragma("user_version", version - SEALED)
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def limited(connection: apsw.Connection, seconds: float) -> Iterator[None]:
    """Interrupts the queries of the block after this time, and raises Unavailable."""
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
    """Translates SQLite's errors into ours."""
    try:
        yield
    except (*_DAMAGE, apsw.IOError, UnicodeDecodeError) as error:  # refold writes only UTF-8
        raise Corrupt(f"{path}: {error}", hint="refold search --rebuild") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        hint = "another process is writing it"
        raise Unavailable(f"{path} is busy: {error}", retry_after_s=1.0, hint=hint) from error
    except apsw.Error as error:
        hint = "check the disk and the mode of the file"
        raise Unavailable(f"{path}: {error}", hint=hint) from error
