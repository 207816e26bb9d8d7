"""Group commit: appends of many clients share one sync, in stores that are one file.

A sync costs the same for one append as for fifty. So appends wait in a queue during a sync, and the
next sync covers all of them; each is answered after its own sync. PostgreSQL does this itself, so
each append there is a separate commit. A full queue refuses at once, before memory grows.

Every append is checked against the chain of the event before it, so that every log can be verified.
Most appends follow a recent one of this process, whose chain is cached; otherwise the store is
read. Neighbours: `app` and `log_routes` append, a store writes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from refold.core.codec import continues, first_unsealed
from refold.core.model import Conversation, Event
from refold.edges.server.rate_limits import Busy
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.log.stored_logs import chain_at
from refold.stores import together
from refold.stores.protocol import Store

QUEUE_MAX = 2_000
GROUP_MAX = 256


class Waiting(Struct):
    """A pending append."""

    conversation: str
    events: Sequence[Event]
    expect: int
    answer: asyncio.Future[None]


class GroupCommit:
    """Writes to one store in a thread of its own. `check_room` raises an error if the disk has no
    room for a number of bytes."""

    def __init__(
        self,
        store: Store,
        ends: Ends,
        loop: asyncio.AbstractEventLoop,
        check_room: Callable[[int], None],
    ) -> None:
        self._store, self._loop = store, loop
        self._ends, self._check_room = ends, check_room
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="group-commit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    async def append(self, conversation: str, events: Sequence[Event], expect: int) -> None:
        """Returns once the events are durable. Busy if the queue is full."""
        if self._queue.qsize() >= QUEUE_MAX:
            raise Busy(f"{QUEUE_MAX:,} appends are waiting", retry_after_s=1.0)
        answer: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(Waiting(conversation, events, expect, answer))
        await answer

    def close(self) -> None:
        """Writes the pending appends, and ends the thread."""
        self._queue.put(None)
        self._thread.join()

    # --- in the thread ---

    def _work(self) -> None:
        is_ending = False
        while not is_ending:
            group, is_ending = self._next_group()
            if group:
                self._loop.call_soon_threadsafe(_answer, self._written(group))

    def _next_group(self) -> tuple[list[Waiting], bool]:
        """All pending appends, at least one; and whether the thread must end."""
        group: list[Waiting] = []
        waiting = self._queue.get()
        while waiting is not None:
            group.append(waiting)
            if len(group) == GROUP_MAX:
                return group, False
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _written(self, group: Sequence[Waiting]) -> list[tuple[Waiting, Exception | None]]:
        done: list[tuple[Waiting, Exception | None]] = []
        try:
            self._check_room(sum(len(event.body) for one in group for event in one.events))
            with together(self._store):
                done = [(waiting, self._append(waiting)) for waiting in group]
            self._store.flush()
        except Exception as error:
            # The disk is full, or its state unknown: no append of this group is acknowledged.
            self._ends.forget()
            return [(waiting, error) for waiting in group]
        return done

    def _append(self, waiting: Waiting) -> Exception | None:
        id, events, expect = waiting.conversation, waiting.events, waiting.expect
        try:
            self._ends.check(id, events, expect)
        except RefoldError as error:
            return error
        try:
            self._store.append(id, events, expect=expect)
        except (Conflict, Invalid) as error:
            # Nothing was written. Any other error fails the whole group.
            return error
        self._ends.keep(id, events)
        return None


def _answer(done: Sequence[tuple[Waiting, Exception | None]]) -> None:
    for waiting, failed in done:
        if waiting.answer.cancelled():
            continue
        if failed is None:
            waiting.answer.set_result(None)
        else:
            waiting.answer.set_exception(failed)


# --- ends of logs ---

KEPT_MAX = 10_000
KEPT_S = 60.0  # another server may delete a log and start it again


class Ends:
    """The cached ends of the logs that this process wrote to one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: dict[str, tuple[int, bytes, float]] = {}

    def check(self, id: str, events: Sequence[Event], expect: int) -> None:
        """Raises Conflict if the log has grown and the events were not sealed on top of its event
        `expect`; Invalid if they do not continue any log."""
        head, chain, at = self._ends.pop(id, (0, b"", 0.0))
        is_known = head == expect and time.monotonic() - at < KEPT_S
        if not is_known or first_unsealed(events, chain) is not None:
            self._check_with_store(id, events, expect)

    def _check_with_store(self, id: str, events: Sequence[Event], expect: int) -> None:
        try:
            about = self._store.conversation(id)
        except NotFound:
            about = Conversation(id=id, head=0, chain=bytes(16))
        moved = Conflict(f"{id!r} is at event {about.head}, not at {expect}", head=about.head)
        if expect > about.head:
            raise moved
        before = chain_at(self._store, about, expect)
        if events and expect < about.head and not continues(events[0], before):
            raise moved
        check_chain(events, before)

    def keep(self, id: str, events: Sequence[Event]) -> None:
        """Caches the end of a log after an append."""
        if events and len(self._ends) < KEPT_MAX:
            self._ends[id] = events[-1].seq, events[-1].chain, time.monotonic()
        elif events:
            self._ends.clear()

    def forget(self) -> None:
        self._ends.clear()


def check_chain(events: Sequence[Event], before: bytes) -> None:
    """Raises Invalid unless the events continue the chain with their sealed bodies."""
    wrong = first_unsealed(events, before)
    if wrong is not None:
        message = f"event {wrong.seq} was not sealed on top of the event before it"
        raise Invalid(message, hint="read the log again, and seal the events on top of its head")
