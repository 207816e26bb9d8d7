"""Appends of many clients, one sync: a group commit, for stores that lie in one file.

A sync costs the same for one append as for fifty. So appends wait in a queue while one is under
way, and the next takes all that waited; each is answered once the sync that covers it is done. On
PostgreSQL the database does this itself, so there each append is a commit of its own. A queue that
is full refuses at once, before memory grows. Neighbours: `append` asks, a store writes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence

from msgspec import Struct

from refold.core.model import Event
from refold.edges.server.ends import Ends
from refold.edges.server.limits import Busy
from refold.errors import Conflict, Invalid, RefoldError
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
