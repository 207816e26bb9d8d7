"""What is sent back: values as JSON, lines, chunks as they come, and errors as everybody sees
them.

Every error is one of ours with its status (`errors.OUTCOMES`, and the three that only HTTP has);
any other is a fault of the program, which the log is told and the caller is not.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import msgspec

from refold.edges.server.limits import Flood
from refold.edges.server.log_lines import line, log
from refold.edges.server.route import Chunks, Lines, Plain
from refold.edges.server.routes import Failure
from refold.errors import OUTCOMES, Conflict, RefoldError, Unavailable

# What only HTTP knows.
STATUSES = {"unauthorized": 401, "not-allowed": 405, "too-large": 413, "busy": 429}
_HIDDEN = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
JSON = "application/json"
# Whoever does not read what was asked for is left; what is small lies in the socket's buffer.
SEND_S, SMALL_BYTES = 60.0, 32 * 1024
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Answer:
    """A response, as ASGI sends it. What is `hidden` from caches and from browsers that guess is
    everything but an answer without content."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        *,
        mime: str = JSON,
        headers: list[tuple[bytes, bytes]] | None = None,
        hidden: list[tuple[bytes, bytes]] = _HIDDEN,
        stream: AsyncIterator[bytes] | None = None,
    ) -> None:
        self.status, self._body, self._stream = status, body, stream
        self._headers = [(b"content-type", mime.encode()), *hidden, *(headers or [])]
        if stream is None and status != 204:
            self._headers.append((b"content-length", str(len(body)).encode()))

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status, "headers": self._headers}
        await send(start)
        if self._stream is None:
            body = b"" if scope["method"] == "HEAD" else self._body
            if len(body) <= SMALL_BYTES:
                await send(_part(body, more=False))
            else:
                async with asyncio.timeout(SEND_S):
                    await send(_part(body, more=False))
            return
        sending = asyncio.create_task(self._send_parts(self._stream, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send_parts(self, stream: AsyncIterator[bytes], send: Send) -> None:
        async for part in stream:
            async with asyncio.timeout(SEND_S):
                await send(_part(part, more=True))
        await send(_part(b"", more=False))


async def _left(receive: Receive) -> None:
    """Returns once the caller is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _part(body: bytes, *, more: bool) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def answer_of(value: object, status: int, in_thread: InThread) -> Answer:
    """The answer that a route's value is."""
    match value:
        case None:
            return Answer(204)
        case Lines(lines):
            return Answer(status, lines, mime="application/x-ndjson")
        case Plain():
            return Answer(value.status, value.content, mime=value.mime)
        case Chunks():
            return Answer(status, mime=value.mime, stream=_in_chunks(value.chunks, in_thread))
        case _:
            return Answer(status, msgspec.json.encode(value))


async def _in_chunks(chunks: Iterator[bytes], in_thread: InThread) -> AsyncIterator[bytes]:
    while (chunk := await in_thread(lambda: next(chunks, None))) is not None:
        yield chunk


def failure_of(error: Exception) -> Answer:
    """The answer for a call that failed."""
    if not isinstance(error, RefoldError):
        where = traceback.format_exception(error)[-2:-1]
        log.error(line("fault", error=type(error).__name__, where=where))
        failure = Failure(error="error", message="the server has a fault; its log says where")
        return Answer(500, msgspec.json.encode(failure))
    status = STATUSES.get(error.code) or OUTCOMES.get(error.code, (500, 1))[0]
    head = error.head if isinstance(error, Conflict) else msgspec.UNSET
    failure = Failure(error=error.code, message=error.message, hint=error.hint, head=head)
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, Unavailable) and error.retry_after_s is not None:
        headers.append((b"retry-after", str(max(1, round(error.retry_after_s))).encode()))
    if isinstance(error, Flood):
        headers.append((b"connection", b"close"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return Answer(status, msgspec.json.encode(failure), headers=headers)
