"""Answers of the change feed: one for whoever polls, a stream of server-sent events for whoever
stays.

A listener costs no thread and is not counted as work. Whether its token is still valid is asked
again every few seconds. Neighbours: `feed` knows the changes, `hints` tells other processes and
hears from them, `app` answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

import msgspec

from refold.edges.server.feed import Changes, Feed, Follower, InThread
from refold.edges.server.gate import Gate, Unauthorized
from refold.edges.server.hints import Exchange
from refold.edges.server.limits import Busy
from refold.edges.server.tokens import Token
from refold.stores.protocol import Hint, Hints, Store

# Longer than a token is asked for, so that a revoked one ends its stream within five seconds.
STEP_S = 3.0
STILL_HERE_S = 15.0


class Listening:
    """The feeds of one process, one for each organization, and those who listen."""

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
        """Whether other processes are heard, so that looking is only the safety net."""
        return self._exchange.is_hearing

    def tell(self, org: str, conversation: str, head: int) -> None:
        """Wakes those who listen to an organization, here and at other processes. Without a
        conversation, something has changed that has to be looked for."""
        if org in self._feeds or self._exchange.is_there:
            hint = Hint(org, conversation, head)
            self._hear(hint)
            self._exchange.tell(hint)

    def _hear(self, hint: Hint) -> None:
        if hint.org in self._feeds and hint.conversation:
            self._feeds[hint.org].tell(hint.conversation, hint.head)
        elif hint.org in self._feeds:
            self._followers[hint.org].look_soon()

    def start(self) -> None:
        self._exchange.start()

    async def poll(self, token: Token, after: str, wait_s: float) -> Changes:
        """What changed, as soon as something does, or nothing after so long."""
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
        """Server-sent events, until the caller leaves, its token ends or the server stops."""
        return self._streamed(await self._feed(token.org), token, after)

    async def _streamed(self, feed: Feed, token: Token, after: str) -> AsyncIterator[bytes]:
        feed.listeners += 1
        told = time.monotonic()
        try:
            while True:
                changes = await feed.wait(after, STEP_S)
                self._gate.check_still_valid(token)
                after = changes.cursor
                now = time.monotonic()
                if changes.changes or changes.rescan:
                    told = now
                    yield b"event: changes\ndata: " + msgspec.json.encode(changes) + b"\n\n"
                elif now - told >= STILL_HERE_S:
                    told = now
                    yield b": still here\n\n"
                if self._is_ending:
                    return
        except Unauthorized:
            yield b"event: end\ndata: the token has ended\n\n"
        finally:
            feed.listeners -= 1

    async def _feed(self, org: str) -> Feed:
        """The feed of an organization, once it is sure to miss nothing."""
        if self.listeners >= self._most:
            raise Busy("too many listen already", retry_after_s=5.0)
        if org not in self._feeds:
            feed = self._feeds[org] = Feed()
            store = partial(self._store, org)
            follower = Follower(feed, store, self._in_thread, lambda: self.hears)
            self._followers[org] = follower
            self._tasks.append(asyncio.create_task(follower.follow()))
        await self._followers[org].ready()
        return self._feeds[org]

    def end(self) -> None:
        """The server stops: whoever listens is let go, and listens to another one."""
        self._is_ending = True
        for feed in self._feeds.values():
            feed.wake()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._exchange.stop()
