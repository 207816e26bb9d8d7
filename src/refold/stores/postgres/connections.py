"""Work on the database: done on a connection, and done again where what stopped it passes.

Work is a function of a connection that is safe to do twice, so a server that dies or hands over to
its standby costs a wait, not an error: the work is done again on the next connection, for as long
as the address allows. Neighbours: `store` brings the work, `pool` lends connections, `failures`
names what goes wrong, `schema` sees to the tables.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from refold.errors import RefoldError, Unavailable
from refold.stores import checks
from refold.stores.postgres import failures, schema
from refold.stores.postgres.address import Address
from refold.stores.postgres.link import Link, Way, bounded
from refold.stores.postgres.pool import Pool

R = TypeVar("R")

PAUSE_S, PAUSE_S_MAX = 0.05, 1.0


class Connections:
    """The way of one store to its database: `run` does work there, in the org of its address.
    Stores of other orgs may share the pool."""

    def __init__(self, address: Address, pool: Pool, *, read_only: bool = False) -> None:
        self.address, self.pool = address, pool
        self._read_only = read_only
        self._is_ready = self._is_closed = False
        pool.join()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.pool.leave()

    def look(
        self, work: Callable[[Link], R], nothing: Callable[[], R], *, way: Way = Way.ALONE
    ) -> R:
        """Reads, usually in one statement. Where there are no tables yet, `nothing` answers."""
        return self.run(work, way=way, nothing=nothing)

    def run(
        self,
        work: Callable[[Link], R],
        *,
        way: Way = Way.TOGETHER,
        nothing: Callable[[], R] | None = None,
    ) -> R:
        """Does the work, again if what stopped it passes. Without `nothing`, missing tables are
        made. The wait is counted from when the database was found to be away: whoever comes
        later does not wait that long again."""
        until = self.pool.away_since() + self.address.wait_s
        pause, again = PAUSE_S, False
        while True:
            try:
                return self._once(work, again, way, nothing)
            except (psycopg.Error, OSError, UnicodeError, OverflowError, Unavailable) as error:
                failure = failures.failure(error, self.address.url)
                if not _can_pass(failure) or time.monotonic() + pause > until:
                    raise failure from error
            time.sleep(pause * random.uniform(0.5, 1) if again else 0)
            pause, again = min(2 * pause, PAUSE_S_MAX), True

    def _once(
        self,
        work: Callable[[Link], R],
        again: bool,
        way: Way,
        nothing: Callable[[], R] | None,
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
                if failures.is_read_only(error):
                    link.close()  # the next one goes to the server that can be written to
                if failures.is_layout(error):
                    self._is_ready = False
                    self._explain(link)
                raise

    # --- tables ---

    def _is_prepared(self, link: Link, *, creating: bool) -> bool:
        """Whether there are tables of our version. Older ones are brought up to date, unless the
        store is only read; missing ones are made by who is `creating`."""
        version = schema.version_of(link.execute)
        if version is None and not creating:
            return False
        if version is None or (version < schema.VERSION and not self._read_only):
            bounded(link, self._prepare, Way.TOGETHER)
        else:
            schema.check_version(version, self.address.url)
        self._is_ready = True
        return True

    def _prepare(self, link: Link) -> None:
        schema.prepare(link.execute, self.address.url)

    def _explain(self, link: Link) -> None:
        """Raises what is wrong with the tables, if they are of another version, or gone."""
        version = schema.version_of(link.execute)
        if version is None:
            said = f"{self.address.url}: the tables are gone"
            raise Unavailable(said, hint="open the store again")
        schema.check_version(version, self.address.url)


def _can_pass(failure: RefoldError) -> bool:
    return isinstance(failure, Unavailable) and failure.retry_after_s is not None
