"""The change feed: a hint that a conversation has a new head, for whoever waits.

It promises nothing: a client that missed a hint finds out by comparing heads, and must. A cursor is
the place in this process' own count; a client that comes with another process' cursor, or one that
is too old, is told to compare all heads (`rescan`). What other processes write is heard of where
they can tell (`hints`), and found by looking at the heads: each second, or every few seconds where
it is also heard of, from before the first cursor is given until nobody has listened for a while;
then all cursors are forgotten. Neighbours: `app` tells of appends, `listening` answers.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from refold.edges.server.log_lines import warn
from refold.errors import RefoldError
from refold.log.reading import conversations
from refold.stores.protocol import Store

KEPT_MAX = 10_000
POLL_S = 1.0
HEARD_POLL_S = 5.0  # where others tell, but not everybody who writes is a server
AGAIN_S = 0.2  # between two looks that were asked for
SHARE_MAX = 0.1  # of the time that looking at the heads may take
LINGER_S = 60.0
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Change(Struct, frozen=True):
    conversation: str
    head: int


class Changes(Struct, frozen=True, kw_only=True):
    """What changed since a cursor. After `rescan`, compare all heads."""

    cursor: str
    changes: list[Change]
    rescan: bool = False


class Feed:
    """The changes of one organization, as this process knows them."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(6)
        self._count = 0
        self._dropped = 0  # up to here, changes are no longer known one by one
        self._newest: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._came = asyncio.Event()
        self.listeners = 0

    def tell(self, conversation: str, head: int) -> None:
        """Wakes those who wait. Called in the loop's thread."""
        known = self._newest.get(conversation)
        if known is not None and known[1] == head:
            return
        self._count += 1
        self._newest[conversation] = self._count, head
        self._newest.move_to_end(conversation)
        if len(self._newest) > KEPT_MAX:
            _, (self._dropped, _) = self._newest.popitem(last=False)
        self.wake()

    def wake(self) -> None:
        """Lets those who wait look around."""
        self._came.set()
        self._came = asyncio.Event()

    def forget(self) -> None:
        """Begins anew: every cursor that was given is unknown from here on."""
        self._process = secrets.token_hex(6)
        self._newest.clear()

    async def wait(self, cursor: str, wait_s: float) -> Changes:
        """What changed since the cursor, at once if something did, else when it does, or nothing
        after so long."""
        after = self._place(cursor)
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

    def _place(self, cursor: str) -> int | None:
        process, _, count = cursor.partition(".")
        if process != self._process or not count.isascii() or not count.isdecimal():
            return None
        place = int(count[:18])
        return place if self._dropped <= place <= self._count else None

    def _since(self, after: int) -> list[Change]:
        found = []
        for conversation, (count, head) in reversed(self._newest.items()):
            if count <= after:
                break
            found.append(Change(conversation, head))
        return found[::-1]


class Follower:
    """Tells a feed what other processes write. `hears` says whether they tell it themselves."""

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
        """Something has changed, and it is not known what."""
        self._asked.set()

    async def follow(self) -> None:
        """Looks at the heads, again and again, while anybody listens."""
        listened = time.monotonic()
        while True:
            await self._pause()
            now = time.monotonic()
            if self._feed.listeners:
                listened = now
            if now - listened < LINGER_S:
                await self._try_look()
            elif self._heads is not None:
                self._heads = None
                self._feed.forget()

    async def _pause(self) -> None:
        """Until it is time to look again, or somebody asks; never so short that looking would take
        much of the time."""
        await asyncio.sleep(max(AGAIN_S, self._took_s / SHARE_MAX))
        try:
            async with asyncio.timeout(HEARD_POLL_S if self._hears() else POLL_S):
                await self._asked.wait()
        except TimeoutError:
            pass
        self._asked.clear()

    async def _try_look(self) -> None:
        try:
            await self._look()
        except RefoldError as error:
            warn("feed", error)

    async def _look(self) -> None:
        async with self._looking:
            began = time.monotonic()
            heads: dict[str, int] = await self._in_thread(self._heads_now)
            self._took_s = time.monotonic() - began
            if self._heads is not None:
                for id, head in heads.items():
                    if self._heads.get(id) != head:
                        self._feed.tell(id, head)
            self._heads = heads

    def _heads_now(self) -> dict[str, int]:
        return {one.id: one.head for one in conversations(self._store())}
