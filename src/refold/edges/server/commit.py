"""Appends of many clients, one sync: a group commit, for stores that lie in one file.

A sync costs the same for one append as for fifty. So appends wait in a queue while one is under
way, and the next takes all that waited; each is answered once the sync that covers it is done. On
PostgreSQL the database does this itself, so there each append is a commit of its own. A queue that
is full refuses at once, before memory grows. Neighbours: `append` asks, a store writes.

How logs end: what an append must continue.

A log that cannot be verified is not taken in, so every append is checked against the chain of the
event before it. Most appends go on from one that this process wrote a moment ago, whose chain it
remembers; else the store is asked. Neighbours: `logs` and `commit` ask before they append.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Sequence

from msgspec import Struct

from refold.core.codec import continues, first_unsealed
from refold.core.model import Conversation, Event
from refold.edges.server.limits import Busy
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.log.trace import chain_at
from refold.stores import together
from refold.stores.protocol import Store

QUEUE_MAX = 2_000
GROUP_MAX = 256


class Waiting(Struct):
    """An append that waits for its turn."""

    conversation: str
    events: Sequence[Event]
    expect: int
    answer: asyncio.Future[None]


class GroupCommit:
    """Writes to one store in a thread of its own."""

    def __init__(self, store: Store, ends: Ends, loop: asyncio.AbstractEventLoop) -> None:
        self._store, self._loop = store, loop
        self._ends = ends
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="group-commit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    async def append(self, conversation: str, events: Sequence[Event], expect: int) -> None:
        """Returns once the events are durable. Busy if too many wait already."""
        if self._queue.qsize() >= QUEUE_MAX:
            raise Busy(f"{QUEUE_MAX:,} appends are waiting", retry_after_s=1.0)
        answer: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(Waiting(conversation, events, expect, answer))
        await answer

    def close(self) -> None:
        """Writes what waits, and ends the thread."""
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
        """All that wait, at least one; and whether the end was asked for."""
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
            with together(self._store):
                done = [(waiting, self._append(waiting)) for waiting in group]
            self._store.flush()
        except Exception as error:
            # Nobody can tell what the disk has: no append of this group is acknowledged.
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
            # Nothing of it was written. Whatever else fails, the whole group does.
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


KEPT_MAX = 10_000
# Another server may delete a log and begin it anew; what is remembered does not live long.
KEPT_S = 60.0


class Ends:
    """The ends of the logs of one store, as far as this process wrote them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, bytes, float]] = {}

    def check(self, id: str, events: Sequence[Event], expect: int) -> None:
        """Conflict if the log has moved and the events were not sealed on top of its event
        `expect`; Invalid if they are not a part of any log."""
        before = self._remembered(id, expect)
        if before is None or first_unsealed(events, before) is not None:
            self._check_with_store(id, events, expect)

    def _remembered(self, id: str, expect: int) -> bytes | None:
        head, chain, at = self._known.pop(id, (0, b"", 0.0))
        return chain if head == expect and time.monotonic() - at < KEPT_S else None

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
        """Remembers how a log ends after an append."""
        if events and len(self._known) < KEPT_MAX:
            self._known[id] = events[-1].seq, events[-1].chain, time.monotonic()
        elif events:
            self._known.clear()

    def forget(self) -> None:
        self._known.clear()


def check_chain(events: Sequence[Event], before: bytes) -> None:
    """Invalid if the events do not continue one another and the chain before them, or have other
    bodies than were sealed."""
    wrong = first_unsealed(events, before)
    if wrong is not None:
        said = f"event {wrong.seq} is not what was sealed on top of the one before it"
        raise Invalid(said, hint="read the log again, and seal the events on top of its end")
