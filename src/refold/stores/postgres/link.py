"""One connection, and work on it within limits.

Every statement and every lock has a limit, and a commit is on the disk when it is acknowledged.
Behind a pooler that shares server connections between clients (pgbouncer) nothing may be left on a
session: limits are set in each transaction, and nothing is prepared. A connection is set to one org
at a time, and sees no other's rows (`schema.walls`). Neighbours: `pool` keeps connections,
`connections` does work on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

import psycopg

from refold.errors import Unavailable
from refold.stores.postgres import arrays
from refold.stores.postgres.schema import ORG

R = TypeVar("R")

STATEMENT_S, LOCK_S, IDLE_S = 30, 5, 60
# The server ends a statement first; a commit that waits for a standby only ends here.
ANSWER_S = 40.0

# A database that acknowledges before the bytes are on the disk would lose what we acknowledged.
_LIMITS = f"""
SELECT set_config('statement_timeout', '{STATEMENT_S}s', %(local)s),
       set_config('lock_timeout', '{LOCK_S}s', %(local)s),
       set_config('idle_in_transaction_session_timeout', '{IDLE_S}s', %(local)s),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, %(local)s),
       set_config('{ORG}', %(org)s, %(local)s)
"""
_TURN = f"SELECT set_config('{ORG}', %(org)s, false)"
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Way(Enum):
    """How work is done: one statement alone, several in one transaction, or several that only
    read and all see one moment."""

    ALONE = 0
    TOGETHER = 1
    ONE_MOMENT = 2


class Link(psycopg.Connection[tuple[Any, ...]]):  # type: ignore[misc, unused-ignore]
    """One connection. `is_again` says that the work may have been done by an earlier try."""

    org = ""  # whose rows it sees
    is_shared = False  # the server connection behind it is another one in each transaction
    is_again = False
    is_unsure = False

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """An answer that does not come is given up, and the connection with it."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, ANSWER_S)
        except psycopg.errors._WaitTimeout as error:
            self.close()
            said = (
                f"no answer in {ANSWER_S:g} s; a commit may be waiting for a standby that is gone"
            )
            raise psycopg.OperationalError(said) from error

    def turn_to(self, org: str) -> None:
        """Shows the rows of this org from here on, and no others."""
        if org == self.org:
            return
        if not self.is_shared:
            self.execute(_TURN, {"org": org})
        self.org = org

    def ask(self, statement: str, values: dict[str, Any]) -> Any:
        """The cursor of a statement, its rows in binary."""
        return self.execute(statement, values, binary=True)

    def note(self, diagnostic: Any) -> None:
        """Hears what the server remarks. A commit that stopped waiting for its standby is reported
        as done; by the place in the server's source it is told apart in every language."""
        self.is_unsure |= diagnostic.source_function == "SyncRepWaitForLSN"

    def __del__(self, *_: object) -> None:
        """No warning: a store that nobody uses any more need not have been closed."""

    @property
    def is_idle(self) -> bool:
        """Whether it can be used again."""
        idle = psycopg.pq.TransactionStatus.IDLE
        return not self.closed and bool(self.info.transaction_status == idle)


def connected(conninfo: str, org: str) -> Link:
    """A new connection, with its limits, that sees the rows of one org."""
    link: Link = Link.connect(conninfo, autocommit=True)
    try:
        _configure(link, org)
    except BaseException:
        link.close()
        raise
    return link


def _configure(link: Link, org: str) -> None:
    """Sets the limits, where the session is ours: a pooler gives a process number of its own."""
    arrays.teach(link)
    link.add_notice_handler(link.note)
    row = link.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    link.org, link.is_shared = org, row[0] != link.info.backend_pid
    if link.is_shared:
        link.prepare_threshold = None
    else:
        link.execute(_LIMITS, {"org": org, "local": False})


def bounded(link: Link, work: Callable[[Link], R], way: Way) -> R:
    """The work, within limits, and all of it or nothing."""
    if way is Way.ALONE and not link.is_shared:
        done = work(link)
    else:
        with _transaction(link, way):
            done = work(link)
    if link.is_unsure:
        said = "the commit did not wait for the standby: it may be lost if the server is"
        raise Unavailable(said, hint="do it again: it is written once, and waits again")
    return done


@contextmanager
def _transaction(link: Link, way: Way) -> Iterator[None]:
    with link.transaction():
        if way is Way.ONE_MOMENT:
            link.execute(_ONE_MOMENT)
        if link.is_shared:
            link.execute(_LIMITS, {"org": link.org, "local": True})
        yield
