"""The database file: how it is made, opened and closed, and what its errors mean.

It is made for the owner alone whatever the umask, marked as ours by its application id, and never
touched when it is not ours or newer than we are. Neighbours: `store` keeps logs in it, `versions`
brings an older layout up to date.

Older layouts of the database, and the steps that lead from each to the next.

A database of an older version is copied beside itself first (`refold.db.v0`), whole, for the refold
that made it; then all steps are taken in one transaction, so that a process which dies in between
leaves it as it was. A reader has it migrated as well: the code knows one layout, the newest.
Neighbour: `file` asks.

Reading a database while every byte, name and time beside it stays as it was.

SQLite makes a -wal and a -shm file even for a reader, and the last to close moves commits. So a
reader has two ways. Where a WAL holds commits, it uses the files that the writer made, as they are
(`readonly_shm`), and lets go of them after each question: a writer who closes meanwhile can still
remove them. Where there is none, the file alone is the database and is read as `immutable`; if a
writer changed it meanwhile, the question is asked again. A database of an older layout is migrated
in memory. Neighbours: `store` asks, `file` knows what a database of ours is.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar
from urllib.parse import quote

import apsw

from refold.core import codec
from refold.errors import Corrupt, Denied, Invalid, RefoldError, Unavailable
from refold.stores import checks
from refold.stores.sqlite import log
from refold.system import disk

APPLICATION_ID = 0x7265666F  # "refo"
BUSY_MS = 10_000
# A single append writes one page, so it is small. Where many write at once their appends share
# commits, and a page is written once for several events.
PAGE_BYTES, SHARED_PAGE_BYTES = 1024, 4096
WAL_PAGES, SHARED_WAL_PAGES = 1_000, 4_000
_PRAGMAS = f"""
PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON;
PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint={WAL_PAGES};
PRAGMA journal_size_limit={4 * WAL_PAGES * PAGE_BYTES}; PRAGMA checkpoint_fullfsync=ON
"""

_MARKS = """
SELECT (SELECT application_id FROM pragma_application_id),
       (SELECT user_version FROM pragma_user_version),
       EXISTS (SELECT 1 FROM sqlite_schema)
"""

# Closing any descriptor of a file drops all POSIX locks this process holds on it. Creating the
# database is the one time we hold a descriptor of our own to it, so nobody may connect meanwhile.
CONNECTING = threading.Lock()


def beside(path: str, name: str) -> str:
    """Where something of a database lies: beside it, under the database's own name unless that
    is the usual one. Two databases may lie in one folder, and what one of them removes must not
    be the other's."""
    folder, file = os.path.split(path)
    stem = file.removesuffix(".db")
    return os.path.join(folder, name if stem == "refold" else f"{stem}.{name}")


def connect(path: str, *, writing: bool, page_bytes: int = PAGE_BYTES) -> apsw.Connection | None:
    """A connection to the database, made if it is missing and we are writing; None if there is
    nothing to read."""
    if not writing and not os.path.lexists(path):
        return None  # asked for at every turn of a conversation without memories
    with CONNECTING:
        refuse_strange_links(path)
        refuse_strange_files(path)
        if not exists(path):
            if not writing:
                return None
            _create(path)
        connection = _open(path)
        if _is_laid_out(connection, path, writing=writing, page_bytes=page_bytes):
            if page_bytes == SHARED_PAGE_BYTES:
                connection.pragma("wal_autocheckpoint", SHARED_WAL_PAGES)
            return connection
        connection.close()
        return None


def _is_laid_out(connection: apsw.Connection, path: str, *, writing: bool, page_bytes: int) -> bool:
    """Whether the database has our tables; an empty one gets them if we are writing. The
    connection to one that is refused is closed."""
    try:
        if _is_ours(connection, path):
            return True
        if writing:
            _initialize(connection, path, page_bytes)
        return writing
    except BaseException:
        connection.close(True)
        raise


def refuse_strange_links(path: str) -> None:
    """A link that somebody else may point elsewhere is not a place for a private log."""
    for name in (path, os.path.dirname(path)):
        # What cannot be looked at is reported by the open that follows, in its own words.
        with suppress(OSError):
            checks.refuse_link_of_another(name, os.lstat(name))


def refuse_strange_files(path: str) -> None:
    """Whoever put a link or a pipe in the place of a file that SQLite makes beside the database
    says where private words would go, or what is waited for."""
    # SQLite follows a link to the database before it names the files beside it.
    real = os.path.realpath(path)
    for name in (f"{real}-wal", f"{real}-shm", f"{real}-journal"):
        disk.refuse_link(name)
        if os.path.lexists(name) and not disk.is_regular(name):
            raise Invalid(f"{name} is not a file", hint="move it away")


def exists(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise disk.os_failure(error, f"cannot open {path}") from error
    if not stat.S_ISREG(mode):
        hint = "name the database file: sqlite:.refold/refold.db"
        raise Invalid(f"{path} is not a file", hint=hint)
    return True


def _create(path: str) -> None:
    try:
        disk.make_folder(os.path.dirname(path))
        create_empty(path)
    except FileExistsError:
        # Another process was faster; its file is as good as ours.
        return
    except OSError as error:
        raise disk.os_failure(error, f"cannot create {path}") from error


def create_empty(path: str) -> None:
    """An empty file for the owner alone. SQLite gives its mode to the -wal and -shm files."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with disk.closing(os.open(path, flags, 0o600)) as fd:
        os.fchmod(fd, 0o600)


def _open(path: str) -> apsw.Connection:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        configure(connection)
        connection.pragma("schema_version")
    except apsw.CantOpenError:
        connection.close(True)
        if not _is_on_read_only_disk(path) or has_wal(path):
            raise
        return _open_immutable(path)
    return connection


def _open_immutable(path: str) -> apsw.Connection:
    """On a read-only disk SQLite cannot make its -shm file. Nobody can write there, so without a
    WAL to miss the database may be read as it stands."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(path)}?immutable=1", flags=flags)
    configure(connection)
    return connection


def _is_on_read_only_disk(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def has_wal(path: str) -> bool:
    """Whether commits are waiting in a -wal file."""
    wal = os.path.realpath(path) + "-wal"
    return os.path.exists(wal) and os.path.getsize(wal) > 0


def configure(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    # Without this SQLite plans a statement again whenever its LIMIT is bound: more than half the
    # time of a short read.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(_PRAGMAS).fetchall()


def _is_ours(connection: apsw.Connection, path: str) -> bool:
    """True for a database of ours, brought up to date; False for an empty one."""
    version = version_of(connection, path)
    if version is not None and version < VERSION and not connection.in_transaction:
        migrate(connection, path, version)
    return version is not None


def version_of(connection: apsw.Connection, path: str) -> int | None:
    """The version of a database of ours; None if it is empty. One of a newer version or of
    another program is refused."""
    # One statement sees one moment: another process may be making the database right now.
    application, version, has_tables = connection.execute(_MARKS).get
    if application == APPLICATION_ID:
        if version > VERSION:
            raise checks.too_new(path, version, VERSION)
        return int(version)
    if application or version or has_tables:
        raise Corrupt(
            f"{path} is a database of another program", hint="name another file for the store"
        )
    return None


def _initialize(connection: apsw.Connection, path: str, page_bytes: int) -> None:
    connection.pragma("page_size", page_bytes)
    _use_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have done all this since we looked.
    if not _is_ours(connection, path):
        connection.execute(log.SCHEMA)
        marks = f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}"
        connection.execute(marks).fetchall()
    connection.execute("COMMIT")


def _use_wal(connection: apsw.Connection) -> None:
    """SQLite does not wait for this lock itself, so we do."""
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
    """All of the block is written, or none of it; reads in it see one moment. Inside of another
    it is a part of that one, which can fail alone."""
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
    """The error of the family for what a library or the system raised."""
    match error:
        case apsw.Error():
            return failure(error, path)
        case OSError():
            return disk.os_failure(error, f"cannot use {path}")
        case UnicodeDecodeError():
            return Corrupt(f"{path}: a text is not UTF-8", hint=codec.REPAIR)
        case _:
            hint = "text without surrogates, numbers of 64 bits"
            return Invalid(f"not storable: {error}", hint=hint)


def failure(error: apsw.Error, path: str) -> RefoldError:
    """The error of the family for what SQLite said; raise it `from` the original."""
    reason = f"{path}: {error}"
    match error:
        case apsw.BusyError() | apsw.LockedError():
            hint = "another process holds it"
            return Unavailable(f"{path} is busy: {error}", retry_after_s=1.0, hint=hint)
        case apsw.FullError():
            return Unavailable(reason, hint="free some space, then try again")
        case apsw.NotADBError() | apsw.CorruptError() | apsw.FormatError():
            hint = (
                "refold verify tells what can still be read, refold verify ID --repair keeps that"
            )
            return Corrupt(reason, hint=hint)
        case apsw.SQLError() | apsw.SchemaChangeError() | apsw.MismatchError():
            return Corrupt(f"{path} is not laid out as ours: {error}", hint="refold verify")
        case (
            apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError()
        ):
            return _refusal(error, path)
        case apsw.TooBigError():
            return Invalid(reason, hint="store large content as an artifact")
        case _:
            return Unavailable(reason, hint="check the disk, then try again")


def _refusal(error: apsw.Error, path: str) -> RefoldError:
    """Why SQLite could not open or write: the disk, or us."""
    folder, reason = os.path.dirname(path), f"{path}: {error}"
    for part in (path, f"{path}-wal", f"{path}-shm"):
        if os.path.exists(part) and not disk.is_allowed(part, os.R_OK):
            hint = "check the owner and the mode of the store's files"
            return Denied(f"{part} may not be read", hint=hint)
    if os.path.isdir(folder) and _is_on_read_only_disk(folder):
        hint = "the disk is read-only: reading works, writing needs another place"
        return Unavailable(reason, hint=hint)
    if not (disk.is_allowed(path, os.W_OK) and disk.is_allowed(folder, os.W_OK | os.X_OK)):
        return Denied(reason, hint="check the owner and the mode of the store's files")
    return Unavailable(reason, hint="check the path and the disk, then try again")


VERSION = 1
STEPS: dict[int, str] = {
    # from this version to the next. 0: the preview, which had neither titles nor bookmarks
    0: """
        ALTER TABLE conversations ADD COLUMN title TEXT NOT NULL DEFAULT '';
        CREATE TABLE bookmarks(number INTEGER PRIMARY KEY, bookmark BLOB NOT NULL) STRICT;
    """,
}


def migrate(connection: apsw.Connection, path: str, version: int) -> None:
    """Brings the database up to date. A copy of it as it was stays beside it."""
    _copy(connection, path, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        take_steps(connection)
        connection.execute("COMMIT")
    except apsw.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        said = f"{path} of version {version} cannot be brought to {VERSION}: {error}"
        raise Corrupt(said, hint="it was left as it was; a copy is beside it") from error


def take_steps(connection: apsw.Connection) -> None:
    # Another process may have done all this since we looked.
    for step in range(connection.pragma("user_version"), VERSION):
        connection.execute(STEPS[step]).fetchall()
    connection.execute(f"PRAGMA user_version={VERSION}").fetchall()


def _copy(connection: apsw.Connection, path: str, version: int) -> None:
    copy = f"{path}.v{version}"
    if os.path.exists(copy):
        return
    pending = f"{copy}.{os.getpid()}.tmp"
    try:
        os.close(os.open(pending, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection.execute("VACUUM INTO ?", (pending,))
        os.replace(pending, copy)
    except (apsw.Error, OSError) as error:
        raise _failure(error, path) from error


def _failure(error: apsw.Error | OSError, path: str) -> RefoldError:
    if isinstance(error, OSError):
        return disk.os_failure(error, f"cannot copy {path} before it is migrated")
    return Corrupt(f"cannot copy {path} before it is migrated: {error}", hint="refold verify")


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
    if not exists(path):
        return None
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, has_wal(path)


def _connection(path: str, *, has_wal: bool) -> apsw.Connection | None:
    """A connection that changes nothing; None if the database is still empty."""
    with CONNECTING:
        refuse_strange_links(path)
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
    configure(connection)
    version = version_of(connection, path)
    if version == VERSION:
        return connection
    copy = None if version is None else _migrated_copy(connection)
    connection.close()
    return copy


def _migrated_copy(connection: apsw.Connection) -> apsw.Connection:
    copy = apsw.Connection(":memory:")
    with copy.backup("main", connection, "main") as backup:
        backup.step(-1)
    configure(copy)
    take_steps(copy)
    return copy


def _without_shm(error: apsw.CantOpenError, path: str) -> Exception:
    """Why a database with a WAL cannot be read: a copy may have been made without its -shm
    file."""
    if not has_wal(path) or os.path.exists(os.path.realpath(path) + "-shm"):
        return error
    said = f"{path} has commits in its -wal file that cannot be read without its -shm file"
    hint = "whoever may write there opens it once for writing, which puts them in place"
    return Unavailable(said, hint=hint)
