"""Connections to the database, and work on them that is retried after a transient failure.

Work is a function that takes a connection and is safe to run twice, so a server crash or a failover
to the standby costs a wait, not an error: the work is repeated on the next connection, for as long
as the address allows. Every statement and every lock has a timeout, and a commit is on disk when it
is acknowledged. Behind a pooler that shares server connections between clients (pgbouncer), no
state may be left on a session: limits are set in each transaction, and no statement is prepared. A
connection is set to one org at a time, and sees only that org's rows (`schema.walls`).

The pool lends each connection to one thread and one org at a time; stores of several orgs may share
it. A connection is opened when a caller needs it, so the caller gets the reason if that fails;
there is no background thread, and a forked child starts with an empty pool. Neighbours: `store`,
`search_index` and `notifications` supply the work, `schema` has the tables, `log` uses the arrays.
"""

from __future__ import annotations

import random
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import chain
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from refold.errors import Corrupt, Denied, Invalid, RefoldError, Unavailable
from refold.stores import checks
from refold.stores.postgres import schema
from refold.stores.postgres.address import Address
from refold.stores.postgres.schema import ORG
from refold.system import process_fork

STATEMENT_S, LOCK_S, IDLE_S = 30, 5, 60
# The server's own timeout ends a statement earlier, except a commit that waits for a standby.
ANSWER_S = 40.0

# A database that acknowledges before the bytes are on the disk would lose acknowledged appends.
_LIMITS = f"""
SELECT set_config('statement_timeout', '{STATEMENT_S}s', %(local)s),
       set_config('lock_timeout', '{LOCK_S}s', %(local)s),
       set_config('idle_in_transaction_session_timeout', '{IDLE_S}s', %(local)s),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, %(local)s),
       set_config('{ORG}', %(org)s, %(local)s)
"""
_SET_ORG = f"SELECT set_config('{ORG}', %(org)s, false)"
_ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Way(Enum):
    """How work runs: as a single statement, as several in one transaction, or as several reads of
    the same database snapshot."""

    ALONE = 0
    TOGETHER = 1
    ONE_MOMENT = 2


class Link(psycopg.Connection[tuple[Any, ...]]):  # type: ignore[misc, unused-ignore]
    """One connection. `is_again` is true if an earlier attempt may have done the work. `is_unsure`
    is true if a commit stopped waiting for its standby."""

    org = ""  # the org whose rows it sees
    is_shared = False  # a pooler may use another server connection for each transaction
    is_again = False
    is_unsure = False

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Waits for an answer up to a limit, then closes the connection."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, ANSWER_S)
        except psycopg.errors._WaitTimeout as error:
            self.close()
            message = f"no answer in {ANSWER_S:g} s; a commit may be waiting for a lost standby"
            raise psycopg.OperationalError(message) from error

    def turn_to(self, org: str) -> None:
        """Restricts the connection to the rows of this org."""
        if org == self.org:
            return
        if not self.is_shared:
            self.execute(_SET_ORG, {"org": org})
        self.org = org

    def ask(self, statement: str, values: dict[str, Any]) -> Any:
        """Executes a statement. Returns its cursor, with rows in binary format."""
        return self.execute(statement, values, binary=True)

    def note(self, diagnostic: Any) -> None:
        """Handles a notice from the server. A commit that stopped waiting for its standby succeeds
        with a warning; the function name in the server's source identifies it in every language."""
        self.is_unsure |= diagnostic.source_function == "SyncRepWaitForLSN"

    def __del__(self, *_: object) -> None:
        """Prevents psycopg's warning: a store that is no longer used need not be closed."""

    @property
    def is_idle(self) -> bool:
        """Whether it can be used again."""
        idle = psycopg.pq.TransactionStatus.IDLE
        return not self.closed and bool(self.info.transaction_status == idle)


def connected(conninfo: str, org: str) -> Link:
    """A new connection with its limits, set to one org."""
    link: Link = Link.connect(conninfo, autocommit=True)
    try:
        teach(link)
        link.add_notice_handler(link.note)
        row = link.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        # A pooler reports a process ID of its own.
        link.org, link.is_shared = org, row[0] != link.info.backend_pid
        if link.is_shared:
            link.prepare_threshold = None
        else:
            link.execute(_LIMITS, {"org": org, "local": False})
    except BaseException:
        link.close()
        raise
    return link


def bounded(link: Link, work: Callable[[Link], R], way: Way) -> R:
    """Runs the work within limits, all of it or nothing."""
    if way is Way.ALONE and not link.is_shared:
        result = work(link)
    else:
        with link.transaction():
            if way is Way.ONE_MOMENT:
                link.execute(_ONE_SNAPSHOT)
            if link.is_shared:
                link.execute(_LIMITS, {"org": link.org, "local": True})
            result = work(link)
    if link.is_unsure:
        message = (
            "the commit did not wait for the standby: the data is lost if the server fails now"
        )
        raise Unavailable(
            message, hint="try again: the data is written only once, and the commit waits again"
        )
    return result


R = TypeVar("R")

PAUSE_S, PAUSE_S_MAX = 0.05, 1.0


class Connections:
    """The connections of one store: `run` runs work in the org of its address. Stores of other orgs
    may share the pool."""

    def __init__(self, address: Address, pool: Pool, *, read_only: bool = False) -> None:
        self.address, self.pool = address, pool
        self._read_only = read_only
        self._is_ready = self._is_closed = False
        pool.join()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.pool.leave()

    def read(
        self, work: Callable[[Link], R], nothing: Callable[[], R], *, way: Way = Way.ALONE
    ) -> R:
        """Reads, usually in one statement. If there are no tables, returns the result of
        `nothing`."""
        return self.run(work, way=way, nothing=nothing)

    def run(
        self,
        work: Callable[[Link], R],
        *,
        way: Way = Way.TOGETHER,
        nothing: Callable[[], R] | None = None,
    ) -> R:
        """Runs the work, and retries it after a transient failure. Without `nothing`, missing
        tables are created. The wait is measured from the moment the database was first found
        unreachable, so a later caller does not wait that long again."""
        until = self.pool.away_since() + self.address.wait_s
        pause, again = PAUSE_S, False
        while True:
            try:
                return self._once(work, again, way, nothing)
            except (psycopg.Error, OSError, UnicodeError, OverflowError, Unavailable) as error:
                failure = failure_of(error, self.address.url)
                is_transient = (
                    isinstance(failure, Unavailable) and failure.retry_after_s is not None
                )
                if not is_transient or time.monotonic() + pause > until:
                    raise failure from error
            time.sleep(pause * random.uniform(0.5, 1) if again else 0)
            pause, again = min(2 * pause, PAUSE_S_MAX), True

    def _once(
        self, work: Callable[[Link], R], again: bool, way: Way, nothing: Callable[[], R] | None
    ) -> R:
        if self._is_closed:
            raise checks.closed(self.address.url)
        with self.pool.link(self.address.org) as link:
            if not self._is_ready and not self._is_prepared(link, creating=nothing is None):
                assert nothing is not None
                return nothing()
            link.is_again, link.is_unsure = again, False
            try:
                return bounded(link, work, way)
            except psycopg.Error as error:
                if error.sqlstate == _READ_ONLY:
                    # The server is now a standby; the next connection goes to the new primary.
                    link.close()
                if error.sqlstate in _WRONG_SCHEMA:
                    self._is_ready = False
                    version = schema.version_of(link.execute)
                    if version is None:
                        message = f"{self.address.url}: the tables are gone"
                        raise Unavailable(message, hint="open the store again") from error
                    schema.check_version(version, self.address.url)
                raise

    # --- tables ---

    def _is_prepared(self, link: Link, *, creating: bool) -> bool:
        """Whether there are tables of this version. Older ones are migrated, unless the store is
        read-only; missing ones are created if `creating`."""
        version = schema.version_of(link.execute)
        if version is None and not creating:
            return False
        if version is None or (version < schema.VERSION and not self._read_only):
            url = self.address.url
            bounded(link, lambda one: schema.prepare(one.execute, url), Way.TOGETHER)
        else:
            schema.check_version(version, self.address.url)
        self._is_ready = True
        return True


# --- the pool ---

WAIT_S = 10.0  # for a connection that is lent to another thread
UNUSED_S = 300.0

# Connections inherited from a parent process. Closing them here would write to the parent's
# sockets, so they are kept and never used.
_INHERITED: list[Link] = []


class Pool:
    """The connections of one or more stores, up to the limit in the address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._stores = 0
        # Times of the first and the last failure to connect, since the last success.
        self._outage: tuple[float, float] | None = None
        self._begin()
        process_fork.watch(self)

    def _begin(self) -> None:
        self._free = threading.BoundedSemaphore(self._address.connections_max)
        self._idle: list[tuple[Link, float]] = []  # with the time of return, the newest last

    def join(self) -> None:
        """Registers a store, until it calls `leave`."""
        with self._lock:
            self._stores += 1

    def leave(self) -> None:
        """Unregisters a store. After the last one, idle connections are closed; lent ones are
        closed when they are returned."""
        with self._lock:
            self._stores -= 1
            closing = [] if self._stores else self._idle
            if not self._stores:
                self._idle = []
        for link, _ in closing:
            link.close()

    @contextmanager
    def link(self, org: str) -> Iterator[Link]:
        """A connection for this thread alone, set to one org."""
        free = self._free
        if not free.acquire(timeout=WAIT_S):
            message = f"{self._address.url}: all connections are in use"
            hint = "raise connections_max in the URL, or use fewer threads"
            raise Unavailable(message, retry_after_s=1.0, hint=hint)
        try:
            link = self._idle_link(org) or self._new_link(org)
            try:
                link.turn_to(org)
                yield link
            finally:
                self._give_back(link)
        finally:
            free.release()

    def _new_link(self, org: str) -> Link:
        """A new connection. Records the time of a failure."""
        try:
            link = connected(self._address.conninfo, org)
        except psycopg.OperationalError:
            self._outage = self.away_since(), time.monotonic()
            raise
        self._outage = None
        return link

    def away_since(self) -> float:
        """The time of the first failure in the current outage; the current time if there is
        none."""
        now, outage = time.monotonic(), self._outage
        return outage[0] if outage and now - outage[1] <= self._address.wait_s else now

    def _idle_link(self, org: str) -> Link | None:
        """An idle connection, preferably of this org."""
        with self._lock:
            if not self._idle:
                return None
            newest = len(self._idle) - 1
            at = next((n for n in range(newest, -1, -1) if self._idle[n][0].org == org), newest)
            return self._idle.pop(at)[0]

    def _give_back(self, link: Link) -> None:
        """Keeps a usable connection, and closes connections that have been idle for too long. If
        this one was lost, the others usually are as well, so all are closed."""
        now = time.monotonic()
        with self._lock:
            is_kept = link.is_idle and self._stores > 0
            old = [pair for pair in self._idle if not is_kept or now - pair[1] > UNUSED_S]
            self._idle = [pair for pair in self._idle if pair not in old]
            if is_kept:
                self._idle.append((link, now))
        for closing in [each for each, _ in old] + ([] if is_kept else [link]):
            closing.close()

    # A connection must not survive a fork of the process: parent and child would share a socket.

    def before_fork(self) -> None:
        """Keeps other threads from changing the idle connections until `after_fork`."""
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            _INHERITED.extend(link for link, _ in self._idle)
            self._begin()
        self._lock.release()


# --- errors ---

SOON_S = 1.0
# A failure to connect has no code, only a message from the server.
_REFUSED = re.compile(
    r"authentication failed|no pg_hba\.conf entry|permission denied|no password supplied"
    r"|role \".*\" does not exist|is not permitted to log in|fe_sendauth"
)
_NO_DATABASE = re.compile(r"database \".*\" does not exist")
# By prefix of the code; the longest match wins.
_READ_ONLY = "25006"
_TRANSIENT = {
    "08": "the connection was lost",
    "40": "another transaction wrote at the same time",
    "53": "the server is out of resources",
    "55P03": "another transaction holds the lock",
    "57P": "the server is starting or stopping",
    _READ_ONLY: "the server is a read-only standby",
    "58": "the server's disk or system failed",
}
_DAMAGED = ("XX001", "XX002")
_WRONG_SCHEMA = ("42P01", "3F000", "42703")


def failure_of(error: Exception, place: str) -> RefoldError:
    """refold's error for an error of PostgreSQL, libpq or the system; raise it `from` the original.
    An `Unavailable` with a retry time is transient: the connection was lost, the server is
    starting, stopping or a standby, or a lock is held."""
    match error:
        case RefoldError():
            return error
        case psycopg.Error(sqlstate=str(code)):
            return _failure_by_code(code, f"{place}: {_first_line(error)}")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return _connection_failure(_first_line(error), place)
        case psycopg.Error() | UnicodeError() | OverflowError():
            hint = "use text without surrogates, and 64-bit numbers"
            return Invalid(f"not storable: {error}", hint=hint)
        case _:
            return Unavailable(f"{place}: {error}", hint="check the machine, then try again")


def _failure_by_code(code: str, message: str) -> RefoldError:
    for start in sorted(_TRANSIENT, key=len, reverse=True):
        if code.startswith(start):
            return Unavailable(
                message, retry_after_s=SOON_S, hint=f"{_TRANSIENT[start]}; try again"
            )
    if code == "57014":
        return Unavailable(message, hint="it took too long; request less at a time")
    if code.startswith("28") or code == "42501":
        return Denied(message, hint="check the user in the URL and its privileges")
    if code in _DAMAGED:
        return Corrupt(message, hint="refold verify shows what can still be read")
    if code in _WRONG_SCHEMA or code.startswith("23"):
        return Corrupt(f"{message}: the tables do not match refold's schema", hint="refold verify")
    if code.startswith(("22", "54")):
        return Invalid(message, hint="store large content as an artifact; use 64-bit numbers")
    return Unavailable(message, hint="see the server log")


def _connection_failure(message: str, place: str) -> RefoldError:
    """refold's error for a failure to connect, from the server's message."""
    if _REFUSED.search(message):
        hint = "check the user; the password may be in PGPASSWORD or ~/.pgpass"
        return Denied(f"{place}: {message}", hint=hint)
    if _NO_DATABASE.search(message):
        return Invalid(
            f"{place}: {message}", hint="create it with createdb, or name another in the URL"
        )
    if "invalid" in message and "option" in message:
        return Invalid(f"{place}: {message}", hint="options: libpq's, org, connections_max, wait_s")
    hint = "check that the server is running and reachable, then try again"
    return Unavailable(f"{place}: {message}", retry_after_s=SOON_S, hint=hint)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # With several hosts, every line counts: one may be a standby, another down.
    return (
        lines[0] if not isinstance(error, psycopg.OperationalError) else "; ".join(lines)
    ) or type(error).__name__


# --- arrays in the binary form of PostgreSQL ---

# psycopg sends a list as text: it escapes every value with a regular expression, and bytes double
# in length. For a batch of events, that cost more than the rest of the append.
BYTEA, INT8 = 17, 20
_HEAD = struct.Struct(">iiiii")  # dimensions, NULL flag, element type, length, first index
_LENGTH = struct.Struct(">i").pack
_EMPTY = struct.Struct(">iii")


class ByteArray(bytes):
    """A `bytea[]`."""


class NumberArray(bytes):
    """A `bigint[]`."""


def byte_array(values: Sequence[bytes]) -> ByteArray:
    sized = chain.from_iterable((_LENGTH(len(value)), value) for value in values)
    return ByteArray(_head(BYTEA, len(values)) + b"".join(sized))


def number_array(values: Sequence[int]) -> NumberArray:
    """Raises OverflowError for a number of more than 64 bits."""
    sized = chain.from_iterable((8, value) for value in values)
    try:
        return NumberArray(_head(INT8, len(values)) + struct.pack(f">{'iq' * len(values)}", *sized))
    except struct.error as error:
        raise OverflowError(str(error)) from error


def _head(kind: int, count: int) -> bytes:
    # An empty array has no dimensions.
    return _HEAD.pack(1, 0, kind, count, 1) if count else _EMPTY.pack(0, 0, kind)


class _ByteDumper(Dumper):  # type: ignore[misc, unused-ignore]
    format = Format.BINARY
    oid = 1_001  # bytea[]

    def dump(self, obj: Any) -> Any:
        return obj


class _NumberDumper(_ByteDumper):
    oid = 1_016  # bigint[]


def teach(connection: psycopg.Connection[Any]) -> None:
    """Makes a connection send these arrays unchanged."""
    connection.adapters.register_dumper(ByteArray, _ByteDumper)
    connection.adapters.register_dumper(NumberArray, _NumberDumper)
