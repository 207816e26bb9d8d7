"""Bodies in transit: requests read or streamed on, answers relayed chunk by chunk, and the proxy's
own errors in a form that SDKs read.

A body that is too large, or that comes while too many bytes are in memory, is streamed on unread:
the limit is on reading, never on the agent. Where the page is ours, the end of an answer waits for
a moment until the log knows that the call was answered: a proxy killed right after it would not
know the front of its thinking. Neighbours: `app` sends and relays, `savings` reads the usage from a
copy, `errors` has the codes of the rest of refold.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from refold.edges.local_access import Header
from refold.edges.proxy.savings import UsageReader
from refold.edges.proxy.upstream import Answer, Limits, end_to_end
from refold.errors import OUTCOMES, RefoldError, Unavailable

END_WAIT_S = 2.0

Finish = Callable[[], asyncio.Task[None] | None]


async def finished(finish: Finish) -> None:
    """Waits until the log has the call, before the client has the end of the answer."""
    finishing = finish()
    if finishing is not None:
        await asyncio.wait([finishing], timeout=END_WAIT_S)


async def relay(
    response: Answer, reader: UsageReader | None, send: Send, finish: Finish | None = None
) -> None:
    """Sends an answer chunk by chunk, with a copy for the usage; its end waits for the log if asked
    to."""
    headers = [(name.lower(), value) for name, value in end_to_end(response.headers.raw)]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    is_stream = "text/event-stream" in response.headers.get("content-type", "")
    last = b""
    async for chunk in response.chunks():
        if reader is not None:
            reader.feed(chunk)
        if finish is not None and not is_stream:
            last, chunk = chunk, last
        if chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    if finish is not None:
        await finished(finish)
    await send({"type": "http.response.body", "body": last, "more_body": False})


Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

STATUSES = {"unauthorized": 401, "upgrade": 426, "upstream": 502, "slow": 504}


async def send_error(send: Send, error: RefoldError) -> None:
    """Sends an error in a form that the providers' SDKs read."""
    status = STATUSES.get(error.code) or OUTCOMES.get(error.code, (500, 1))[0]
    retry = [(b"retry-after", b"1")] if isinstance(error, Unavailable) else []
    await send_json(send, status, error_body(error), retry)


def error_body(error: RefoldError) -> bytes:
    """The body of an error answer."""
    fields = {"type": f"refold_{error.code}".replace("-", "_"), "message": f"refold proxy: {error}"}
    return json.dumps({"type": "error", "error": fields}).encode()


async def send_json(send: Send, status: int, body: bytes, more: Sequence[Header] = ()) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *more]})
    await send({"type": "http.response.body", "body": body})


Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Gone(Exception):
    """The client left before its request was complete."""


class Incoming:
    """The body of one call. `whole` is None until all of it has come."""

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
        """The next chunk; `Gone` if the client left."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Gone
        self._is_complete = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        self.size += len(part)
        return part

    async def read(self, size_max: int) -> None:
        """Reads until the body is complete, or larger than this."""
        while not self._is_complete and self.size <= size_max:
            self._parts.append(await self.part())

    async def stream(self) -> AsyncIterator[bytes]:
        """The chunks read so far, then the rest as it comes."""
        while self._parts:
            yield self._parts.pop(0)
        while not self._is_complete:
            yield await self.part()


class Bodies:
    """Reads bodies, and limits how much of them is in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held_bytes = 0

    async def read(self, receive: Receive, *, looks: bool) -> Incoming:
        """The body of a call; complete, if refold reads it and it is not too large. `release`
        it."""
        incoming = Incoming(receive)
        free = max(0, self._limits.held_bytes - self.held_bytes)
        room = min(self._limits.body_bytes, free) if looks else 0
        async with asyncio.timeout(self._limits.body_s):
            await incoming.read(room)
        self.held_bytes += incoming.size
        return incoming

    def release(self, size: int) -> None:
        """Gives back the memory of a body."""
        self.held_bytes -= size
