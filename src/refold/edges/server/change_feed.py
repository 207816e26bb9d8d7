"""The change feed: hints that a conversation has a new head, for waiting clients.

A hint guarantees nothing: a client finds missed changes by comparing heads. A cursor is a position
in this process's own count; a client with a foreign or too old cursor must compare all heads
(`rescan`). Changes by other processes arrive as hints, or are found by comparing heads: each
second, or every few seconds if hints arrive. This begins before the first cursor is handed out and
ends when there has been no listener for a while; then all cursors are forgotten.

A client polls, or stays for a stream of server-sent events. A listener costs no thread and does not
count as work; its token is checked again every few seconds.

Changes here are published to the other processes in one message per tenth of a second, after they
are written: no append waits for it. Their hints are received in a thread, on one connection per
process. While that is lost, heads are compared each second. Neighbours: `app` announces appends and
answers, a store has the hints.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from refold.edges.local_access import Unauthorized
from refold.edges.server.access import Gate, Token
from refold.edges.server.observability import warn
from refold.edges.server.rate_limits import Busy
from refold.errors import Invalid, RefoldError
from refold.log.stored_logs import conversations
from refold.stores.protocol import Hint, Hints, Store

KEPT_MAX = 10_000
POLL_S = 1.0
HEARD_POLL_S = 5.0  # if hints arrive; not every writer is a server that sends them
AGAIN_S = 0.2  # between two requested comparisons
SHARE_MAX = 0.1  # largest share of time spent on comparing heads
LINGER_S = 60.0
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Change(Struct, frozen=True):
    conversation: str
    head: int


class Changes(Struct, frozen=True, kw_only=True):
    """The changes since a cursor. After `rescan`, compare all heads."""

    cursor: str
    changes: list[Change]
    rescan: bool = False


class Feed:
    """The changes of one organization, as this process knows them."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(6)
        self._count = 0
        self._dropped = 0  # up to this count, single changes are forgotten
        self._newest: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._came = asyncio.Event()
        self.listeners = 0

    def add(self, conversation: str, head: int) -> None:
        """Adds a change and wakes all waiting clients. Called in the loop's thread."""
        newest = self._newest.get(conversation)
        if newest is not None and newest[1] == head:
            return
        self._count += 1
        self._newest[conversation] = self._count, head
        self._newest.move_to_end(conversation)
        if len(self._newest) > KEPT_MAX:
            _, (self._dropped, _) = self._newest.popitem(last=False)
        self.wake()

    def wake(self) -> None:
        """Wakes all waiting clients."""
        self._came.set()
        self._came = asyncio.Event()

    def forget(self) -> None:
        """Invalidates every cursor."""
        self._process = secrets.token_hex(6)
        self._newest.clear()

    async def wait(self, cursor: str, wait_s: float) -> Changes:
        """The changes since the cursor: at once if there are any, otherwise with the next change;
        none after `wait_s`."""
        after = self._position(cursor)
        if after is None:
            return Changes(cursor=self.cursor, changes=[], rescan=True)
        came = self._came
        if self._count == after and wait_s > 0:
            try:
                async with asyncio.timeout(wait_s):
                    await came.wait()
            except TimeoutError:
                pass
        return Changes(cursor=self.cursor, changes=self._since(after))

    @property
    def cursor(self) -> str:
        return f"{self._process}.{self._count}"

    def _position(self, cursor: str) -> int | None:
        """The count in a cursor; None if the cursor is foreign or too old."""
        process, _, count = cursor.partition(".")
        if process != self._process or not count.isascii() or not count.isdecimal():
            return None
        position = int(count[:18])
        return position if self._dropped <= position <= self._count else None

    def _since(self, after: int) -> list[Change]:
        found = []
        for conversation, (count, head) in reversed(self._newest.items()):
            if count <= after:
                break
            found.append(Change(conversation, head))
        return found[::-1]


class Follower:
    """Adds the writes of other processes to a feed. `hears` returns whether their hints arrive."""

    def __init__(
        self,
        feed: Feed,
        store: Callable[[], Store],
        in_thread: InThread,
        hears: Callable[[], bool],
    ) -> None:
        self._feed, self._store, self._in_thread = feed, store, in_thread
        self._hears = hears
        self._asked = asyncio.Event()
        self._heads: dict[str, int] | None = None
        self._looking = asyncio.Lock()
        self._took_s = 0.0

    async def ready(self) -> None:
        """Returns once the heads are known, so that no later change is missed."""
        if self._heads is None:
            await self._look()

    def look_soon(self) -> None:
        """Compares heads soon: an unknown conversation has changed."""
        self._asked.set()

    async def follow(self) -> None:
        """Compares heads regularly while there are listeners."""
        listened = time.monotonic()
        while True:
            await self._pause()
            now = time.monotonic()
            if self._feed.listeners:
                listened = now
            if now - listened < LINGER_S:
                try:
                    await self._look()
                except RefoldError as error:
                    warn("feed", error)
            elif self._heads is not None:
                self._heads = None
                self._feed.forget()

    async def _pause(self) -> None:
        """Waits until the next comparison is due or requested, and long enough that comparing takes
        a small share of the time."""
        await asyncio.sleep(max(AGAIN_S, self._took_s / SHARE_MAX))
        try:
            async with asyncio.timeout(HEARD_POLL_S if self._hears() else POLL_S):
                await self._asked.wait()
        except TimeoutError:
            pass
        self._asked.clear()

    async def _look(self) -> None:
        async with self._looking:
            began = time.monotonic()
            heads: dict[str, int] = await self._in_thread(
                lambda: {about.id: about.head for about in conversations(self._store())}
            )
            self._took_s = time.monotonic() - began
            if self._heads is not None:
                for id, head in heads.items():
                    if self._heads.get(id) != head:
                        self._feed.add(id, head)
            self._heads = heads


# The interval of token checks: a revoked token ends its stream within five seconds.
STEP_S = 3.0
STILL_HERE_S = 15.0


class Listening:
    """The feeds of one process, one for each organization, and their listeners."""

    def __init__(
        self,
        store: Callable[[str], Store],
        in_thread: InThread,
        gate: Gate,
        most: int,
        hints: Hints | None,
    ) -> None:
        self._store, self._in_thread, self._gate, self._most = store, in_thread, gate, most
        self._exchange = Exchange(hints, in_thread, self._hear)
        self._feeds: dict[str, Feed] = {}
        self._followers: dict[str, Follower] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ending = False

    @property
    def listeners(self) -> int:
        return sum(feed.listeners for feed in self._feeds.values())

    @property
    def hears(self) -> bool:
        """Whether hints of other processes arrive, so that comparing heads is only a safety net."""
        return self._exchange.is_hearing

    def announce(self, org: str, conversation: str, head: int) -> None:
        """Wakes the listeners of an organization, in all processes. Without a conversation, the
        changed ones must be found by their heads."""
        if org in self._feeds or self._exchange.is_there:
            hint = Hint(org, conversation, head)
            self._hear(hint)
            self._exchange.publish(hint)

    def _hear(self, hint: Hint) -> None:
        if hint.org in self._feeds and hint.conversation:
            self._feeds[hint.org].add(hint.conversation, hint.head)
        elif hint.org in self._feeds:
            self._followers[hint.org].look_soon()

    def start(self) -> None:
        self._exchange.start()

    async def poll(self, token: Token, after: str, wait_s: float) -> Changes:
        """The changes, as soon as there are any; none after `wait_s`."""
        feed = await self._feed(token.org)
        feed.listeners += 1
        try:
            end = time.monotonic() + wait_s
            while True:
                left_s = end - time.monotonic()
                changes = await feed.wait(after, min(STEP_S, left_s))
                if changes.changes or changes.rescan or left_s <= STEP_S or self._is_ending:
                    return changes
                self._gate.check_still_valid(token)
        finally:
            feed.listeners -= 1

    async def stream(self, token: Token, after: str) -> AsyncIterator[bytes]:
        """Server-sent events until the caller leaves, its token ends or the server stops."""
        return self._streamed(await self._feed(token.org), token, after)

    async def _streamed(self, feed: Feed, token: Token, after: str) -> AsyncIterator[bytes]:
        feed.listeners += 1
        sent_at = time.monotonic()
        try:
            while True:
                changes = await feed.wait(after, STEP_S)
                self._gate.check_still_valid(token)
                after = changes.cursor
                now = time.monotonic()
                if changes.changes or changes.rescan:
                    sent_at = now
                    yield b"event: changes\ndata: " + msgspec.json.encode(changes) + b"\n\n"
                elif now - sent_at >= STILL_HERE_S:
                    sent_at = now
                    yield b": still here\n\n"
                if self._is_ending:
                    return
        except Unauthorized:
            yield b"event: end\ndata: the token has ended\n\n"
        finally:
            feed.listeners -= 1

    async def _feed(self, org: str) -> Feed:
        """The feed of an organization, once no later change can be missed."""
        if self.listeners >= self._most:
            raise Busy("too many listeners", retry_after_s=5.0)
        if org not in self._feeds:
            feed = self._feeds[org] = Feed()
            store = partial(self._store, org)
            follower = Follower(feed, store, self._in_thread, lambda: self.hears)
            self._followers[org] = follower
            self._tasks.append(asyncio.create_task(follower.follow()))
        await self._followers[org].ready()
        return self._feeds[org]

    def end(self) -> None:
        """Ends all streams, because the server is stopping; clients connect to another one."""
        self._is_ending = True
        for feed in self._feeds.values():
            feed.wake()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._exchange.stop()


TOGETHER_S = 0.1
WAITING_MAX = 10_000
HINTS_STEP_S = 1.0  # longest wait of a stop for the thread
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0


class Exchange:
    """Publishes the changes of this process, and receives the hints of other processes;
    without `hints`, neither."""

    def __init__(
        self, hints: Hints | None, in_thread: InThread, hear: Callable[[Hint], None]
    ) -> None:
        self._hints, self._in_thread, self._hear = hints, in_thread, hear
        self._waiting: dict[tuple[str, str], Hint] = {}
        self._sending: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self.is_hearing = False

    @property
    def is_there(self) -> bool:
        """Whether other processes can receive hints."""
        return self._hints is not None

    def start(self) -> None:
        if self._hints is not None:
            listen = partial(self._listen, self._hints, asyncio.get_running_loop())
            self._thread = threading.Thread(target=listen, name="hints", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """Publishes the pending hints, and ends the thread."""
        self._ending.set()
        if self._sending is not None:
            await asyncio.gather(self._sending, return_exceptions=True)
        if self._thread is not None:
            await self._in_thread(partial(self._thread.join, 2 * HINTS_STEP_S))

    # --- publishing ---

    def publish(self, hint: Hint) -> None:
        """Queues a hint; drops it if the queue is full. Called in the loop's thread."""
        if self._hints is None or len(self._waiting) >= WAITING_MAX:
            return
        self._waiting[hint.org, hint.conversation] = hint
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(self._hints))

    async def _send(self, hints: Hints) -> None:
        while self._waiting:
            await asyncio.sleep(TOGETHER_S)
            waiting, self._waiting = list(self._waiting.values()), {}
            try:
                await self._in_thread(partial(hints.publish, waiting))
            except RefoldError as error:
                warn("hints", error, doing="telling")

    # --- receiving, in a thread ---

    def _listen(self, hints: Hints, loop: asyncio.AbstractEventLoop) -> None:
        pause_s = 0.0
        while not self._ending.wait(pause_s):
            try:
                self._listen_until_lost(hints, loop)
            except Invalid as error:
                warn("hints", error, doing="hearing")
                return
            except RefoldError as error:
                warn("hints", error, doing="hearing")
            pause_s = PAUSE_S if self.is_hearing else min(2 * pause_s + PAUSE_S, PAUSE_S_MAX)
            self.is_hearing = False

    def _listen_until_lost(self, hints: Hints, loop: asyncio.AbstractEventLoop) -> None:
        with hints.receiver() as receiver:
            self.is_hearing = True
            while not self._ending.is_set():
                for hint in receiver.receive(HINTS_STEP_S):
                    # After a stop, the loop may have ended.
                    if not self._ending.is_set():
                        loop.call_soon_threadsafe(self._hear, hint)
