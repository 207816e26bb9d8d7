"""The change feed: a hint that a conversation has a new head, for whoever waits.

It promises nothing: a client that missed a hint finds out by comparing heads, and must. A cursor is
the place in this process' own count; a client that comes with another process' cursor, or one that
is too old, is told to compare all heads (`rescan`). What other processes write is found by looking
at the heads each second, and only while somebody waits. Neighbours: `app` tells of appends.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from refold.log.reading import conversations
from refold.stores.protocol import Store

KEPT_MAX = 10_000
POLL_S = 1.0


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
        self._came.set()
        self._came = asyncio.Event()

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


async def follow_store(
    feed: Feed, store: Callable[[], Store], in_thread: Callable[..., object]
) -> None:
    """Tells a feed what other processes write, while anybody listens to it."""
    known: dict[str, int] = {}
    while True:
        await asyncio.sleep(POLL_S)
        if not feed.listeners:
            known.clear()
            continue
        heads = await in_thread(lambda: {one.id: one.head for one in conversations(store())})  # type: ignore[misc]
        assert isinstance(heads, dict)
        for id, head in heads.items():
            if known and known.get(id) != head:
                feed.tell(id, head)
        known = heads
