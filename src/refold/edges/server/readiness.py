"""Whether this server can take writes, for load balancers, and the room that it keeps on its disk.

Readiness is a write that is tried: a store that is away, read-only or full is not ready. A late
answer counts as a failure. Load balancers ask often, and an unreachable store may be slow to fail,
so one check runs at a time, in one thread, and all callers share it.

On a disk of its own machine the server stops taking writes while there is still room, because a
deletion needs some, and may be the only way to get more. Neighbours: `app` asks for both.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterable

from refold.edges.server.access import LOG, Orgs
from refold.errors import NotFound, Unavailable
from refold.stores.protocol import Store

ANSWER_S = 2.0
AGAIN_S = 1.0
FRESH_S = 0.25  # as long as this, an answer is given again
RESERVE_BYTES, RESERVE_SHARE = 64 * 1024 * 1024, 4  # at most a quarter of a small disk
EVENT_BYTES = 16 * 1024 * 1024  # the largest event, which a ready server takes
SPARE_BYTES_MIN = 1024 * 1024
WAITING_BYTES = 32 * 1024 * 1024  # what databases write twice may still be only in their logs


class Readiness:
    """Checks the store with `ask`, which raises if the store is unavailable."""

    def __init__(self, ask: Callable[[], Awaitable[object]]) -> None:
        self._ask = ask
        self._asking: asyncio.Future[object] | None = None
        self._answered_at = 0.0

    async def check(self) -> None:
        """Returns if the store answers; raises Unavailable otherwise, or if the answer is late."""
        is_old = time.monotonic() - self._answered_at > FRESH_S
        if self._asking is None or (self._asking.done() and is_old):
            self._asking = asyncio.ensure_future(self._ask())
            self._asking.add_done_callback(self._note_answer)
        asking = self._asking
        await asyncio.wait([asking], timeout=ANSWER_S)
        if not asking.done():
            message = f"the store has not answered for {ANSWER_S:g} seconds"
            raise Unavailable(message, retry_after_s=AGAIN_S)
        asking.result()

    def _note_answer(self, asked: asyncio.Future[object]) -> None:
        self._answered_at = time.monotonic()
        # All callers may be gone by now; then its error is dropped.
        if not asked.cancelled():
            asked.exception()

    async def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)


def check_writable(orgs: Orgs) -> None:
    """Writes the bookmark of the log of tokens again, which changes nothing. Raises an error if
    that fails, or if no organization has room for more."""
    try:
        orgs.own.keep_bookmark(LOG, orgs.own.bookmark(LOG) or b"")
    except NotFound as error:
        raise Unavailable("the server has no log of tokens") from error
    orgs.own.flush()
    _, reserve = _room(orgs)
    check_room(orgs, orgs.opened(), min(EVENT_BYTES, reserve // 2))


def check_room(orgs: Orgs, stores: Iterable[Store], size_bytes: int) -> None:
    """Raises Unavailable if a write of this size to any of these stores would use the reserve of
    the disk. A database writes twice, to its log and to its file, where it first fills the pages
    that deletions left."""
    if not orgs.is_local:
        return
    if not _is_short(orgs, size_bytes):
        return
    spare = max(map(_spare_bytes, stores), default=0)
    free, reserve = _room(orgs)
    is_spare = spare >= max(size_bytes, SPARE_BYTES_MIN) and free - size_bytes >= reserve // 2
    if free - 2 * size_bytes < reserve and not is_spare:
        message = f"the disk has {free:,} bytes left, and {reserve:,} are kept for deletions"
        raise Unavailable(message, hint="make room on the disk, or delete conversations")


def give_back_room(orgs: Orgs) -> None:
    """Returns the room that the logs of databases use, if the disk is short of it."""
    if orgs.is_local and _is_short(orgs, 0):
        for store in (*orgs.opened(), orgs.own):
            _spare_bytes(store)


def _spare_bytes(store: Store) -> int:
    """How much a database can write without growing. First it gives back what its log uses."""
    spare: Callable[[], int] = getattr(store, "spare_bytes", int)
    return spare()


def _is_short(orgs: Orgs, size_bytes: int) -> bool:
    free, reserve = _room(orgs)
    return free - 2 * size_bytes < reserve + WAITING_BYTES


def _room(orgs: Orgs) -> tuple[int, int]:
    """The free bytes on the disk, and how many of them are the reserve."""
    folder = os.path.expanduser(orgs.place.partition(":")[2])
    try:
        disk = shutil.disk_usage(folder)
    except FileNotFoundError:  # the first write makes it
        return sys.maxsize, 0
    return disk.free, min(RESERVE_BYTES, disk.total // RESERVE_SHARE)
