"""A few connections to one database, lent to one thread at a time, for one org at a time.

A connection is made by whoever needs it, when it is needed, so why it cannot be made is known there
and then; no thread works in the background, and a forked child starts with none. Stores of several
orgs may share one pool: then its limit is that of all of them. Neighbours: `link` makes
connections, `connections` borrows them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from refold.errors import Unavailable
from refold.stores.postgres import link as one
from refold.stores.postgres.address import Address
from refold.stores.postgres.link import Link
from refold.system import process_fork

WAIT_S = 10.0  # for one of those that are lent
UNUSED_S = 300.0

# Connections of a parent process. Closing them here would speak on the parent's sockets, so they
# are kept, unused.
_OF_PARENTS: list[Link] = []


class Pool:
    """The connections of one store, or of several, at most as many as its address says."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._stores = 0  # that use it
        # When no connection could be made for the first and the last time, since one was.
        self._away: tuple[float, float] | None = None
        self._begin()
        process_fork.watch(self)

    def _begin(self) -> None:
        self._free = threading.BoundedSemaphore(self._address.connections_max)
        self._idle: list[tuple[Link, float]] = []  # with when they came back, the newest last

    def join(self) -> None:
        """One more store uses these connections, until it calls `leave`."""
        with self._lock:
            self._stores += 1

    def leave(self) -> None:
        """Closes what is idle, if nobody is left; what is lent is closed when it comes back."""
        with self._lock:
            self._stores -= 1
            closing = [] if self._stores else self._idle
            if not self._stores:
                self._idle = []
        for link, _ in closing:
            link.close()

    @contextmanager
    def link(self, org: str) -> Iterator[Link]:
        """A connection, for this thread alone, that sees the rows of one org."""
        free = self._free
        if not free.acquire(timeout=WAIT_S):
            said = f"{self._address.url}: all connections are in use"
            hint = "more connections_max in the URL, or fewer threads"
            raise Unavailable(said, retry_after_s=1.0, hint=hint)
        try:
            link = self._taken(org) or self._made(org)
            try:
                link.turn_to(org)
                yield link
            finally:
                self._give_back(link)
        finally:
            free.release()

    def _made(self, org: str) -> Link:
        """A new connection. Remembers since when there was none to be had."""
        try:
            link = one.connected(self._address.conninfo, org)
        except psycopg.OperationalError:
            self._away = self.away_since(), time.monotonic()
            raise
        self._away = None
        return link

    def away_since(self) -> float:
        """Since when the database is known to be away: now, unless that was found out lately."""
        now, away = time.monotonic(), self._away
        return away[0] if away and now - away[1] <= self._address.wait_s else now

    def _taken(self, org: str) -> Link | None:
        """An idle connection, one of this org if there is one."""
        with self._lock:
            if not self._idle:
                return None
            newest = len(self._idle) - 1
            at = next((n for n in range(newest, -1, -1) if self._idle[n][0].org == org), newest)
            return self._idle.pop(at)[0]

    def _give_back(self, link: Link) -> None:
        """Keeps a connection that can be used again, and closes those that nobody used for long.
        If one was lost, the others are as well, more often than not."""
        now = time.monotonic()
        with self._lock:
            is_kept = link.is_idle and self._stores > 0
            old = [pair for pair in self._idle if not is_kept or now - pair[1] > UNUSED_S]
            self._idle = [pair for pair in self._idle if pair not in old]
            if is_kept:
                self._idle.append((link, now))
        for closing in [each for each, _ in old] + ([] if is_kept else [link]):
            closing.close()

    # A connection must not be carried over a fork of the process: both would speak on one socket.

    def before_fork(self) -> None:
        """No other thread changes what is idle until `after_fork`."""
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            _OF_PARENTS.extend(link for link, _ in self._idle)
            self._begin()
        self._lock.release()
