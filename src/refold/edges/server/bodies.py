"""What callers send, read within limits of size, of time, and of what all callers hold at once.

A caller that is slow costs no thread and is not counted as work: only the bytes that it has sent
are. An artifact goes to a temporary file while it comes, so that its size needs no memory. What
does not fit is refused by its Content-Length, before it is read. Neighbours: `app` asks for bodies.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import IO, Any

from refold.edges.server.gate import HEADERS
from refold.edges.server.limits import Busy, Limits
from refold.errors import Invalid, RefoldError, Unavailable

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

IN_MEMORY_BYTES = 1024 * 1024
CHUNK_BYTES = 256 * 1024


class TooLarge(RefoldError):
    """More than this server takes."""

    code = "too-large"


class Bodies:
    """Reads the bodies of one server's calls, and knows how much of them is held."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held_bytes = 0

    async def whole(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body. It counts as held until `release`."""
        most = self._limits.body_bytes
        _check_length(scope, most)
        parts: list[bytes] = []
        size = 0

        def take(part: bytes) -> None:
            nonlocal size
            size += len(part)
            self.held_bytes += len(part)
            parts.append(part)
            if size > most:
                raise TooLarge(f"a body of more than {most:,} bytes")
            if self.held_bytes > self._limits.held_bytes:
                raise Busy("too many bytes are being taken in", retry_after_s=1.0)

        try:
            await _each_part(receive, self._limits.body_s, take)
        except BaseException:
            self.held_bytes -= size
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def release(self, body: bytes) -> None:
        """The body is no longer held."""
        self.held_bytes -= len(body)

    @asynccontextmanager
    async def spooled(self, scope: Scope, receive: Receive) -> AsyncIterator[Iterator[bytes]]:
        """The body in chunks, once all of it is here."""
        most = self._limits.artifact_bytes
        _check_length(scope, most)
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:

            def take(part: bytes) -> None:
                # A part has at most 64 KB, and goes to the page cache: no thread is worth it.
                file.write(part)
                if file.tell() > most:
                    raise TooLarge(f"an artifact of more than {most:,} bytes")

            await _each_part(receive, self._limits.upload_s, take)
            file.seek(0)
            yield _chunks(file)


async def _each_part(receive: Receive, within_s: float, take: Callable[[bytes], None]) -> None:
    """Gives the parts of a body to `take`, all of them within the time."""
    try:
        async with asyncio.timeout(within_s):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("the caller left before the body was whole")
                take(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        raise Unavailable("the body came too slowly", retry_after_s=1.0) from None


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _check_length(scope: Scope, most: int) -> None:
    headers = scope[HEADERS]
    if b"content-encoding" in headers:
        raise Invalid("the body is encoded", hint="send it plain")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:19]) > most:
        raise TooLarge(f"a body of {length[:19].decode()} bytes is over {most:,}")
