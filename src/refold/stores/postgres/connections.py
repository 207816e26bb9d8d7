"""Connections to one address: shared by threads, bounded in time, and replaced when they are lost.

Work is a function of a connection that is safe to do twice, so a server that dies or hands over to
its standby costs a wait, not an error: the work is done again on the next connection, for as long
as the address allows. Every statement and every lock has a limit. Behind a pooler that shares
server connections between clients (pgbouncer) nothing may be left on a session: limits are set in
each transaction, and nothing is prepared. Neighbours: `store` brings the work, `failures` names
what goes wrong, `schema` sees to the tables.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from refold.errors import RefoldError, Unavailable
from refold.stores import checks
from refold.stores.postgres import failures, schema
from refold.stores.postgres.address import Address

R = TypeVar("R")

STATEMENT_S, LOCK_S, IDLE_S = 30, 5, 60
# The server ends a statement first; a commit that waits for a standby only ends here.
ANSWER_S = 40.0
CONNECTION_S = 10.0
PAUSE_S, PAUSE_S_MAX = 0.05, 1.0

# A database that acknowledges before the bytes are on the disk would lose what we acknowledged.
_LIMITS = f"""
SELECT set_config('statement_timeout', '{STATEMENT_S}s', %(local)s),
       set_config('lock_timeout', '{LOCK_S}s', %(local)s),
       set_config('idle_in_transaction_session_timeout', '{IDLE_S}s', %(local)s),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, %(local)s)
"""
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"

# Pools of a parent process. Closing them here would speak on the parent's sockets, so they are
# kept, unused.
_OF_PARENTS: list[object] = []


class Way(Enum):
    """How work is done: one statement alone, several in one transaction, or several that only
    read and all see one moment."""

    ALONE = 0
    TOGETHER = 1
    ONE_MOMENT = 2


class Link(psycopg.Connection[tuple[Any, ...]]):  # type: ignore[misc, unused-ignore]
    """One connection. `is_again` says that the work may have been done by an earlier try."""

    is_shared = False  # the server connection behind it is another one in each transaction
    is_again = False
    is_unsure = False

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """An answer that does not come is given up, and the connection with it."""
        return super().wait(gen, interval, ANSWER_S if timeout is None else timeout)

    def ask(self, statement: str, values: dict[str, Any]) -> Any:
        """The cursor of a statement, its rows in binary."""
        return self.execute(statement, values, binary=True)

    def note(self, diagnostic: Any) -> None:
        """Hears what the server remarks. A commit that stopped waiting for its standby is reported
        as done; by the place in the server's source it is told apart in every language."""
        self.is_unsure |= diagnostic.source_function == "SyncRepWaitForLSN"


class Connections:
    """The pool of one store. `run` does work on a connection."""

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        self.address = address
        self._read_only = read_only
        self._lock = threading.RLock()
        self._pool: ConnectionPool[Link] | None = None
        self._is_ready = False
        self._is_closed = False

    # --- work ---

    def run(
        self,
        work: Callable[[Link], R],
        *,
        way: Way = Way.TOGETHER,
        nothing: Callable[[], R] | None = None,
    ) -> R:
        """Does the work. Where there are no tables yet, `nothing` answers; without it they are
        made."""
        return self._tried(lambda again: self._once(work, again, way, nothing))

    def look(
        self, work: Callable[[Link], R], nothing: Callable[[], R], *, way: Way = Way.ALONE
    ) -> R:
        """Reads, usually in one statement."""
        return self.run(work, way=way, nothing=nothing)

    def _tried(self, attempt: Callable[[bool], R]) -> R:
        """The result of the first attempt that is not ended by something that passes."""
        until = time.monotonic() + self.address.wait_s
        pause = PAUSE_S
        again = False
        while True:
            try:
                return attempt(again)
            except (psycopg.Error, OSError, UnicodeError, OverflowError, Unavailable) as error:
                failure = failures.failure(error, self.address.url)
                if not _can_pass(failure) or time.monotonic() + pause > until:
                    raise failure from error
            again = True
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, PAUSE_S_MAX)

    def _once(
        self,
        work: Callable[[Link], R],
        again: bool,
        way: Way,
        nothing: Callable[[], R] | None,
    ) -> R:
        if not self._is_prepared(creating=nothing is None):
            assert nothing is not None
            return nothing()
        with self._link(again) as link:
            try:
                return _bounded(link, work, way)
            except psycopg.Error as error:
                if failures.is_layout(error):
                    self._is_ready = False
                    self._explain(link)
                raise

    def _explain(self, link: Link) -> None:
        """Raises what is wrong with the tables, if they are of another version, or gone."""
        version = schema.version_of(link.execute)
        if version is None:
            said = f"{self.address.url}: the tables are gone"
            raise Unavailable(said, hint="open the store again")
        schema.check_version(version, self.address.url)

    # --- tables ---

    def _is_prepared(self, *, creating: bool) -> bool:
        """Whether there are tables of our version. Older ones are brought up to date, unless the
        store is only read; missing ones are made by who is `creating`. Looked at once."""
        if self._is_ready:
            return True
        # The pool would not say why it has no connection: this one does.
        with _opened(self.address) as link:
            version = schema.version_of(link.execute)
            if version is None and not creating:
                return False
            if version is None or (version < schema.VERSION and not self._read_only):
                _bounded(link, self._prepare, Way.TOGETHER)
            else:
                schema.check_version(version, self.address.url)
        self._is_ready = True
        return True

    def _prepare(self, link: Link) -> None:
        schema.prepare(link.execute, self.address.url)

    # --- connections ---

    @contextmanager
    def _link(self, again: bool) -> Iterator[Link]:
        pool = self._opened_pool()
        link = self._taken(pool)
        link.is_again, link.is_unsure = again, False
        try:
            yield link
        finally:
            pool.putconn(link)

    def _taken(self, pool: ConnectionPool[Link]) -> Link:
        """A connection of the pool. If none comes, one of our own says why."""
        try:
            link: Link = pool.getconn(CONNECTION_S)
            return link
        except PoolTimeout:
            with _opened(self.address):
                raise

    def _opened_pool(self) -> ConnectionPool[Link]:
        with self._lock:
            if self._is_closed:
                raise checks.closed(self.address.url)
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.address.conninfo,
                    connection_class=Link,
                    kwargs={"autocommit": True},
                    configure=_configure,
                    min_size=0,
                    max_size=self.address.connections_max,
                    num_workers=1,
                    open=True,
                )
            return self._pool

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    # A connection must not be carried over a fork of the process: both would speak on one socket.

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child and self._pool is not None:
            _OF_PARENTS.append(self._pool)
            self._pool = None
        self._lock.release()


def _can_pass(failure: RefoldError) -> bool:
    return isinstance(failure, Unavailable) and failure.retry_after_s is not None


def _bounded(link: Link, work: Callable[[Link], R], way: Way) -> R:
    """The work, within limits, and all of it or nothing."""
    if way is Way.ALONE and not link.is_shared:
        done = work(link)
    else:
        with link.transaction():
            if way is Way.ONE_MOMENT:
                link.execute(_ONE_MOMENT)
            if link.is_shared:
                link.execute(_LIMITS, {"local": True})
            done = work(link)
    if link.is_unsure:
        said = "the commit did not wait for the standby: it may be lost if the server is"
        raise Unavailable(said, hint="do it again: it is written once, and waits again")
    return done


@contextmanager
def _opened(address: Address) -> Iterator[Link]:
    """A connection outside of the pool, that raises why it cannot be had."""
    link = Link.connect(address.conninfo, autocommit=True)
    try:
        _configure(link)
        yield link
    finally:
        link.close()


def _configure(link: Link) -> None:
    """Sets the limits, where the session is ours: a pooler gives a process number of its own."""
    link.add_notice_handler(link.note)
    row = link.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    link.is_shared = row[0] != link.info.backend_pid
    if link.is_shared:
        link.prepare_threshold = None
    else:
        link.execute(_LIMITS, {"local": False})
