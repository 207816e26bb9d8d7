"""The database file: making it, opening it, migrating it, and reading it without a trace.

A new file is private to its owner whatever the umask, and marked by an application id; a file of
another program or of a newer refold is never touched. A database of an older layout is migrated in
one transaction; if its content changes, it is copied beside itself first (`refold.db.v0`), for the
refold that made it.

A reader changes no byte, name or time. SQLite makes a -wal and a -shm file even for a reader, and
the last connection to close moves commits, so there are two ways. If a WAL holds commits, the
reader uses the writer's files as they are (`readonly_shm`), and closes them after each query, so
that a writer can still remove them. Otherwise the file alone is the database and is read as
`immutable`; if a writer changes it meanwhile, the query is repeated. Neighbour: `store`.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache
from secrets import token_hex
from typing import TypeVar
from urllib.parse import quote

import apsw

from refold.core import codec
from refold.errors import Corrupt, Denied, Invalid, RefoldError, Unavailable
from refold.stores import checks
from refold.stores.sqlite import log, recent
from refold.system import disk, posix, sqlite_file

APPLICATION_ID = 0x7265666F  # "refo"
BUSY_MS = 10_000
# A single append writes one page, so it is small. Many simultaneous appends share commits, and a
# page is written once for several events.
PAGE_BYTES, SHARED_PAGE_BYTES = 1024, 4096
WAL_PAGES, SHARED_WAL_PAGES = 1_000, 4_000
_PRAGMAS = f"""
PRAGMA secure_delete=ON; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint={WAL_PAGES};
PRAGMA journal_size_limit={4 * WAL_PAGES * PAGE_BYTES}; PRAGMA checkpoint_fullfsync=ON
"""

NO_SCHEMA = "[]"
PLANTED_HINT = "another program changed it: move it away, or restore it from a copy"
_MARKS = f"""
SELECT (SELECT application_id FROM pragma_application_id),
       (SELECT user_version FROM pragma_user_version), ({sqlite_file.LISTING})
"""

# Closing any descriptor of a file drops all POSIX locks this process holds on it. Only while
# creating the database do we hold our own descriptor of it, so no connection may be opened
# meanwhile.
CONNECTING = threading.Lock()


def beside(path: str, name: str) -> str:
    """Path of a file or folder that belongs to a database: beside it, prefixed with the database's
    name unless that is the usual one. Two databases may share a folder, and neither may remove a
    file of the other."""
    folder, file = os.path.split(path)
    stem = file.removesuffix(".db")
    return os.path.join(folder, name if stem == "refold" else f"{stem}.{name}")


def connect(path: str, *, writing: bool, page_bytes: int = PAGE_BYTES) -> apsw.Connection | None:
    """A connection to the database, which a writer creates if it is missing; None for a reader
    without a database."""
    if not os.path.lexists(path):
        refuse_lost(path)
        if not writing:
            return None  # the usual answer for the store of memories
    with CONNECTING:
        refuse_strange_links(path)
        refuse_strange_files(path)
        if _stat(path) is None:
            if not writing:
                return None
            _create(path)
        connection = _open(path)
        try:
            has_tables = _is_ours(connection, path)
            if not has_tables:
                refuse_lost(path)
            if writing and not has_tables:
                _initialize(connection, path, page_bytes)
        except BaseException:
            connection.close(True)
            raise
        if not (has_tables or writing):
            connection.close()
            return None
        if page_bytes == SHARED_PAGE_BYTES:
            connection.pragma("wal_autocheckpoint", SHARED_WAL_PAGES)
        return connection


def refuse_lost(path: str) -> None:
    """Raises Corrupt for a missing or empty database that had content: an artifact, a conversation
    in its index, or the WAL of a missing one is left. A new one would show none of it."""
    wal = f"{path}-wal"
    left = [wal] if disk.size_bytes(wal) and not os.path.lexists(path) else []
    with suppress(OSError):
        folder = beside(path, "artifacts")
        names = [] if os.path.islink(folder) else os.listdir(folder)  # links are refused later
        left += [folder] if any(name[0] != "." for name in names) else []
    index = beside(path, "index.db")
    with suppress(apsw.Error):
        address = f"file:{quote(index)}?immutable=1"
        # SQLite would follow a link, and wait for a pipe.
        if disk.is_regular(index):
            with closing(sqlite_file.connect(address, sqlite_file.READ)) as connection:
                left += [index] if connection.execute("SELECT 1 FROM conversations").get else []
    if left:
        what = "is empty" if os.path.lexists(path) else "is missing"
        hint = f"restore it from a copy; to start with an empty one, move away {' and '.join(left)}"
        raise Corrupt(f"{path} {what}, but files that belong to it are there", hint=hint)


def refuse_strange_links(path: str) -> None:
    """Raises Denied for a link that another user may point elsewhere."""
    for name in (path, os.path.dirname(path)):
        # A path that cannot be inspected is reported by the open that follows.
        with suppress(OSError):
            checks.refuse_link_of_another(name, os.lstat(name))


def refuse_strange_files(path: str) -> None:
    """Raises an error for a link or a pipe at the path of a file that SQLite creates next to the
    database: private text would go elsewhere, or SQLite would wait forever."""
    # SQLite follows a link to the database before it names the files beside it.
    real = os.path.realpath(path)
    for name in (f"{real}-wal", f"{real}-shm", f"{real}-journal"):
        disk.refuse_link(name)
        # One look: another process that closes the database removes these files.
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(name).st_mode):
                raise Invalid(f"{name} is not a file", hint="move it away")


def _stat(path: str) -> os.stat_result | None:
    """The status of the database file; None if there is no file. Invalid for anything else."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk.os_failure(error, f"cannot open {path}") from error
    if not stat.S_ISREG(found.st_mode):
        hint = "name the database file: sqlite:.refold/refold.db"
        raise Invalid(f"{path} is not a file", hint=hint)
    return found


def _create(path: str) -> None:
    try:
        disk.make_folder(os.path.dirname(path))
        create_empty(path)
    except FileExistsError:
        return  # another process was faster; its file will do
    except OSError as error:
        raise disk.os_failure(error, f"cannot create {path}") from error


def create_empty(path: str) -> None:
    """Creates an empty file that only its owner can read. SQLite gives its mode to the -wal and
    -shm files."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | posix.O_CLOEXEC
    with disk.closing(os.open(path, flags, 0o600)) as fd:
        posix.set_mode(fd, 0o600)


def _open(path: str) -> apsw.Connection:
    connection = sqlite_file.connect(path, sqlite_file.WRITE)
    try:
        configure(connection)
        connection.pragma("schema_version")
    except apsw.CantOpenError:
        connection.close(True)
        if not _is_on_read_only_disk(path) or has_wal(path):
            raise
        # On a read-only disk SQLite cannot create its -shm file. There are no writers either, so
        # without a WAL the file alone is the database.
        connection = sqlite_file.connect(f"file:{quote(path)}?immutable=1", sqlite_file.READ)
        configure(connection)
    return connection


def _is_on_read_only_disk(path: str) -> bool:
    return posix.is_read_only(path)


def has_wal(path: str) -> bool:
    """Whether a -wal file holds commits."""
    return disk.size_bytes(os.path.realpath(path) + "-wal") > 0


def configure(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    # Without this, SQLite plans a statement again whenever its LIMIT is bound, which takes more
    # than half the time of a short read.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(_PRAGMAS).fetchall()


def _is_ours(connection: apsw.Connection, path: str) -> bool:
    """True for a refold database, which is migrated if necessary; False for an empty one."""
    version = version_of(connection, path)
    is_old = version is not None and version < VERSION and not connection.in_transaction
    if version is not None and is_old and not (version >= COMPLETE and connection.readonly("main")):
        migrate(connection, path, version)
        version_of(connection, path)
    return version is not None


def version_of(connection: apsw.Connection, path: str) -> int | None:
    """The version of a refold database; None if it is empty. Raises an error for a newer version
    or a database of another program."""
    # One statement sees one snapshot: another process may be creating the database right now.
    application, version, schema = connection.execute(_MARKS).get
    if application == APPLICATION_ID:
        if version > VERSION:
            raise checks.too_new(path, version, VERSION)
        if version >= COMPLETE and (
            planted := sqlite_file.difference(schema, _own_schemas()[version])
        ):
            raise Corrupt(f"{path} {planted}", hint=PLANTED_HINT)
        return int(version)
    if application or version or schema != NO_SCHEMA:
        raise Corrupt(
            f"{path} is a database of another program", hint="name another file for the store"
        )
    return None


@cache
def _own_schemas() -> dict[int, tuple[str, ...]]:
    """The schemas that refold creates, by version: of a database that was created by an older
    refold and migrated, and of a new one."""
    known: dict[int, list[str]] = {version: [] for version in range(VERSION + 1)}
    for first, sql in _BACKWARDS.items():
        sql = log.SCHEMA + sql
        for version in range(first, VERSION + 1):
            known[version].append(sqlite_file.listing(sql))
            sql += f";{STEPS.get(version, '')}"
    return {version: tuple(schemas) for version, schemas in known.items()}


def _initialize(connection: apsw.Connection, path: str, page_bytes: int) -> None:
    connection.pragma("page_size", page_bytes)
    _use_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have done this in the meantime.
    if not _is_ours(connection, path):
        connection.execute(log.SCHEMA)
        marks = f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}"
        connection.execute(marks).fetchall()
    connection.execute("COMMIT")
    # On the disk before anything that belongs to it: a power cut must not leave an empty database
    # beside an artifact, which would look like a lost one.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _use_wal(connection: apsw.Connection) -> None:
    """Switches to WAL mode. SQLite does not wait for this lock itself."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.pragma("journal_mode", "wal")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


@contextmanager
def transaction(connection: apsw.Connection, begin: str) -> Iterator[apsw.Connection]:
    """Writes all of the block or nothing; reads in it see one snapshot. A nested transaction can
    fail alone."""
    if connection.in_transaction:
        with connection:
            yield connection
        return
    connection.execute(begin)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def any_failure(error: Exception, path: str) -> RefoldError:
    """refold's error for an error of a library or the system."""
    match error:
        case apsw.Error():
            return failure(error, path)
        case OSError():
            return disk.os_failure(error, f"cannot use {path}")
        case UnicodeDecodeError():
            return Corrupt(f"{path}: some text in it is not UTF-8", hint=codec.REPAIR)
        case _:
            hint = "use text without surrogates, and 64-bit numbers"
            return Invalid(f"not storable: {error}", hint=hint)


def failure(error: apsw.Error, path: str) -> RefoldError:
    """refold's error for an error of SQLite; raise it `from` the original."""
    reason = f"{path}: {error}"
    match error:
        case sqlite_file.ForeignJournal():
            return Corrupt(str(error), hint="delete it: SQLite never makes such a journal")
        case apsw.BusyError() | apsw.LockedError():
            hint = "another process holds it"
            return Unavailable(f"{path} is busy: {error}", retry_after_s=1.0, hint=hint)
        case apsw.FullError():
            return Unavailable(reason, hint="free some space, then try again")
        case apsw.NotADBError() | apsw.CorruptError() | apsw.FormatError():
            hint = (
                "refold verify shows what can still be read, refold verify ID --repair keeps that"
            )
            return Corrupt(reason, hint=hint)
        case apsw.SQLError() | apsw.SchemaChangeError() | apsw.MismatchError():
            return Corrupt(f"{path} does not match refold's schema: {error}", hint="refold verify")
        case (
            apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError()
        ):
            return _refusal(error, path)
        case apsw.TooBigError():
            size = f"over {sqlite_file.VALUE_BYTES_MAX:,} bytes, which refold never writes"
            return Corrupt(f"{path} holds a value of {size}", hint="refold verify")
        case _:
            return Unavailable(reason, hint="check the disk, then try again")


def _refusal(error: apsw.Error, path: str) -> RefoldError:
    """The reason why SQLite could not open or write: the disk, or permissions."""
    folder, reason = os.path.dirname(path), f"{path}: {error}"
    for file in (path, f"{path}-wal", f"{path}-shm"):
        if os.path.exists(file) and not disk.is_allowed(file, os.R_OK):
            hint = "check the owner and the mode of the store's files"
            return Denied(f"{file} may not be read", hint=hint)
    if os.path.isdir(folder) and _is_on_read_only_disk(folder):
        hint = "the disk is read-only: reading works, writing needs another place"
        return Unavailable(reason, hint=hint)
    if not (disk.is_allowed(path, os.W_OK) and disk.is_allowed(folder, os.W_OK | os.X_OK)):
        return Denied(reason, hint="check the owner and the mode of the store's files")
    return Unavailable(reason, hint="check the path and the disk, then try again")


# --- older layouts ---

VERSION = 2
STEPS: dict[int, str] = {
    # From this version to the next. 0 is the preview, which had neither titles nor bookmarks; 1 did
    # not know which conversations were written last.
    0: """
        ALTER TABLE conversations ADD COLUMN title TEXT NOT NULL DEFAULT '';
        CREATE TABLE bookmarks(number INTEGER PRIMARY KEY, bookmark BLOB NOT NULL) STRICT;
    """,
    1: recent.SCHEMA,
}
# What leads from the newest layout back to a version.
_BACKWARDS = {
    0: "ALTER TABLE conversations DROP COLUMN title; DROP TABLE bookmarks; DROP TABLE recent",
    1: "DROP TABLE recent",
    VERSION: "",
}
COMPLETE = 1  # from this version on all of the content is there: the rest is derived


def migrate(connection: apsw.Connection, path: str, version: int) -> None:
    """Migrates the database to the newest layout. A copy of the old one stays beside it, if its
    content changes."""
    if version < COMPLETE:
        _copy(connection, path, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        take_steps(connection)
        connection.execute("COMMIT")
    except apsw.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        message = f"{path} of version {version} cannot be brought to {VERSION}: {error}"
        raise Corrupt(message, hint="it was left as it was; a copy is beside it") from error


def take_steps(connection: apsw.Connection) -> None:
    # Another process may have taken some in the meantime.
    for step in range(connection.pragma("user_version"), VERSION):
        connection.execute(STEPS[step]).fetchall()
        if step == COMPLETE:
            recent.fill(connection)
    connection.execute(f"PRAGMA user_version={VERSION}").fetchall()


def _copy(connection: apsw.Connection, path: str, version: int) -> None:
    copy = f"{path}.v{version}"
    if os.path.exists(copy):
        return
    pending = f"{copy}.{token_hex(4)}.tmp"
    try:
        os.close(os.open(pending, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection.execute("VACUUM INTO ?", (pending,))
        os.replace(pending, copy)
    except OSError as error:
        raise disk.os_failure(error, f"cannot copy {path} before it is migrated") from error
    except apsw.Error as error:
        message = f"cannot copy {path} before it is migrated: {error}"
        raise Corrupt(message, hint="refold verify") from error


# --- reading without a trace ---

R = TypeVar("R")

WAIT_S = 2.0
PAUSE_S = 0.005

Stamp = tuple[int, int, int, bool]  # inode, size and time of the file, and whether it has a WAL


class Reader:
    """Connections to one database, for a store that only reads. Calls `forget` whenever it closes
    a connection: cached rows may be old then."""

    def __init__(self, path: str, forget: Callable[[], None]) -> None:
        self.path, self._forget = path, forget
        self.connection: apsw.Connection | None = None
        self._stamp: Stamp | None = None

    def steady(self, work: Callable[[], R]) -> R:
        """Returns the result of the work, which has read one state of the database."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self._connect()
                result = work()
                if self._is_snapshot() or self._stamp == _stamp(self.path):
                    return result
            except Unavailable:
                # A writer that closes removes its -shm file before its -wal file.
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
        """Whether SQLite itself answers a question from one state: it does where there is a WAL."""
        return self._stamp is not None and self._stamp[-1]

    def _connect(self) -> None:
        stamp = _stamp(self.path)
        if self.connection is not None and stamp == self._stamp:
            return
        self.close()
        self._stamp = stamp
        if stamp is None:
            refuse_lost(self.path)
        self.connection = _connection(self.path, in_wal=stamp[-1]) if stamp else None

    def close(self) -> None:
        connection, self.connection = self.connection, None
        self._forget()
        if connection is not None:
            connection.close()


def stamp(path: str) -> tuple[int, ...]:
    """A value that changes with every commit to the database, by any process."""
    found = (_stat(path), _stat(os.path.realpath(path) + "-wal"))
    return tuple(
        number
        for one in found
        for number in ((one.st_ino, one.st_size, one.st_mtime_ns) if one else (0, 0, 0))
    )


def _stamp(path: str) -> Stamp | None:
    """A value that changes with the database file or its WAL; None if there is no database."""
    found = _stat(path)
    return found and (found.st_ino, found.st_size, found.st_mtime_ns, has_wal(path))


def _connection(path: str, *, in_wal: bool) -> apsw.Connection | None:
    """A connection that changes nothing; None if the database is still empty."""
    with CONNECTING, _wal_held(path) if in_wal else nullcontext():
        refuse_strange_links(path)
        how = "mode=ro&readonly_shm=1" if in_wal else "immutable=1"
        connection = sqlite_file.connect(f"file:{quote(path)}?{how}", sqlite_file.READ)
        try:
            configure(connection)
            version = version_of(connection, path)
            if version is not None and version >= COMPLETE:
                return connection
            if version is None:
                refuse_lost(path)
            copy = None if version is None else _migrated_copy(connection)
            connection.close()
            if copy is not None:
                version_of(copy, path)
            return copy
        except apsw.CantOpenError as error:
            connection.close(True)
            if not has_wal(path) or os.path.exists(os.path.realpath(path) + "-shm"):
                raise
            # A copy may have been made without the -shm file.
            message = (
                f"{path} has commits in its -wal file that cannot be read without its -shm file"
            )
            hint = "whoever may write there opens it once for writing, which puts them in place"
            raise Unavailable(message, hint=hint) from error
        except BaseException:
            connection.close(True)
            raise


@contextmanager
def _wal_held(path: str) -> Iterator[None]:
    """Keeps writers from removing the -wal and -shm files until the reader has them open: SQLite
    would create a new -wal file even for a reader. Unavailable if they are gone already."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    # Opened by SQLite, so that closing it drops no lock of another connection in this process.
    file = apsw.VFSFile("", os.path.realpath(path), flags)
    try:
        file.xLock(apsw.SQLITE_LOCK_SHARED)
        if not has_wal(path):
            raise Unavailable(f"{path} was closed by its writer just now", retry_after_s=PAUSE_S)
        yield
    except apsw.BusyError as error:
        raise failure(error, path) from error
    finally:
        file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()


def _migrated_copy(connection: apsw.Connection) -> apsw.Connection:
    copy = sqlite_file.connect(sqlite_file.MEMORY, sqlite_file.CREATE)
    with copy.backup("main", connection, "main") as backup:
        backup.step(-1)
    configure(copy)
    take_steps(copy)
    return copy
