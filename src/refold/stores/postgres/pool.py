"""A few connections to one address, lent to one thread at a time.

A connection is made by whoever needs it, when it is needed, so why it cannot be made is known there
and then; no thread works in the background, and a forked child starts with none. Neighbours: `link`
makes connections, `connections` borrows them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from refold.errors import Unavailable
from refold.stores import checks
from refold.stores.postgres import link as one
from refold.stores.postgres.address import Address
from refold.stores.postgres.link import Link

WAIT_S = 10.0  # for one of those that are lent
UNUSED_S = 300.0

# Connections of a parent process. Closing them here would speak on the parent's sockets, so they
# are kept, unused.
_OF_PARENTS: list[Link] = []


class Pool:
    """The connections of one store, at most as many as its address says."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._begin()
        self._is_closed = False

    def _begin(self) -> None:
        self._free = threading.BoundedSemaphore(self._address.connections_max)
        self._idle: list[tuple[Link, float]] = []  # with when they came back, the newest last

    @contextmanager
    def link(self) -> Iterator[Link]:
        """A connection, for this thread alone."""
        if self._is_closed:
            raise checks.closed(self._address.url)
        free = self._free
        if not free.acquire(timeout=WAIT_S):
            said = f"{self._address.url}: all connections of this store are in use"
            hint = "more connections_max in the URL, or fewer threads"
            raise Unavailable(said, retry_after_s=1.0, hint=hint)
        try:
            link = self._taken() or one.connected(self._address.conninfo)
            try:
                yield link
            finally:
                self._give_back(link)
        finally:
            free.release()

    def _taken(self) -> Link | None:
        with self._lock:
            return self._idle.pop()[0] if self._idle else None

    def _give_back(self, link: Link) -> None:
        """Keeps a connection that can be used again, and closes those that nobody used for long.
        If one was lost, the others are as well, more often than not."""
        now = time.monotonic()
        with self._lock:
            is_kept = link.is_idle and not self._is_closed
            old = [pair for pair in self._idle if not is_kept or now - pair[1] > UNUSED_S]
            self._idle = [pair for pair in self._idle if pair not in old]
            if is_kept:
                self._idle.append((link, now))
        for closing in [each for each, _ in old] + ([] if is_kept else [link]):
            closing.close()

    def close(self) -> None:
        """Closes what is idle; what is lent is closed when it comes back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for link, _ in idle:
            link.close()

    # A connection must not be carried over a fork of the process: both would speak on one socket.

    def before_fork(self) -> None:
        """No other thread changes what is idle until `after_fork`."""
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            _OF_PARENTS.extend(link for link, _ in self._idle)
            self._begin()
        self._lock.release()
