"""What a client sends, read whole if refold is to look at it, and streamed on if it is not.

A body that is too large, or that comes while too many bytes are held already, goes on as it comes,
without a look: the limit is on looking, never on the agent. Neighbours: `app` asks, `limits` says
how much.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from refold.edges.proxy.limits import Limits

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Gone(Exception):
    """The client left before its request was whole."""


class Incoming:
    """The body of one call. `whole` is None as long as not all of it is here."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []
        self._is_complete = False
        self.size = 0

    @property
    def whole(self) -> bytes | None:
        if not self._is_complete:
            return None
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0] if self._parts else b""

    async def part(self) -> bytes:
        """The next part; `Gone` if the client left."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Gone
        self._is_complete = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        self.size += len(part)
        return part

    async def read(self, size_max: int) -> None:
        """Reads until the body is whole, or larger than this."""
        while not self._is_complete and self.size <= size_max:
            self._parts.append(await self.part())

    async def stream(self) -> AsyncIterator[bytes]:
        """What was read, then the rest as it comes."""
        while self._parts:
            yield self._parts.pop(0)
        while not self._is_complete:
            yield await self.part()


class Bodies:
    """Reads bodies, and knows how much of them is held."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held_bytes = 0

    async def read(self, receive: Receive, *, looks: bool) -> Incoming:
        """The body of a call; whole, if it is to be looked at and not too large. `release` it."""
        incoming = Incoming(receive)
        free = max(0, self._limits.held_bytes - self.held_bytes)
        room = min(self._limits.body_bytes, free) if looks else 0
        async with asyncio.timeout(self._limits.body_s):
            await incoming.read(room)
        self.held_bytes += incoming.size
        return incoming

    def release(self, size: int) -> None:
        """So many bytes are no longer held."""
        self.held_bytes -= size
