"""An answer on its way to the client: every chunk as it comes.

Where the page is ours, the end waits until the log knows that it was answered: a proxy that is
killed right after an answer would else not know under which front that was thought. A client reads
a stream as it comes and needs the rest of any other body at once, so what waits is the end of a
stream, or the last chunk. It waits for a moment, never for good. Neighbours: `app` sends, `usage`
reads along.

Answers of the proxy's own, where there is none of a provider's: in a form that SDKs read.

Neighbours: `app` answers, `errors` has the codes of the rest of refold.

What a client sends, read whole if refold is to look at it, and streamed on if it is not.

A body that is too large, or that comes while too many bytes are held already, goes on as it comes,
without a look: the limit is on looking, never on the agent. Neighbours: `app` asks, `limits` says
how much.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from refold.edges.proxy.gate import Header
from refold.edges.proxy.limits import Limits
from refold.edges.proxy.savings import UsageReader
from refold.edges.proxy.upstream import Answer, end_to_end
from refold.errors import OUTCOMES, RefoldError, Unavailable

END_WAIT_S = 2.0

Finish = Callable[[], asyncio.Task[None] | None]


async def finished(finish: Finish) -> None:
    """Waits for what is to be in the log before the client has the end of an answer."""
    finishing = finish()
    if finishing is not None:
        await asyncio.wait([finishing], timeout=END_WAIT_S)


async def relay(
    response: Answer, reader: UsageReader | None, send: Send, finish: Finish | None = None
) -> None:
    """Sends an answer chunk by chunk, with a copy for whoever reads its usage; its end waits until
    it is finished, if that is asked."""
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


class Refused(RefoldError):
    """An answer of the proxy's own, by a code of STATUSES."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code  # type: ignore[misc]


async def send_error(send: Send, error: RefoldError) -> None:
    """An error in a form that the providers' SDKs read."""
    status = STATUSES.get(error.code) or OUTCOMES.get(error.code, (500, 1))[0]
    retry = [(b"retry-after", b"1")] if isinstance(error, Unavailable) else []
    await send_json(send, status, error_body(error), retry)


def error_body(error: RefoldError) -> bytes:
    """What an answer says of an error."""
    said = {"type": f"refold_{error.code}".replace("-", "_"), "message": f"refold proxy: {error}"}
    return json.dumps({"type": "error", "error": said}).encode()


async def send_json(send: Send, status: int, body: bytes, more: Sequence[Header] = ()) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start = {"type": "http.response.start", "status": status, "headers": [*headers, *more]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


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
