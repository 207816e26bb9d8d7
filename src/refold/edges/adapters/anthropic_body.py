"""The body of an answer of Anthropic's SDK, listened to while its caller reads it.

Every byte is passed on as it came, and told to a listener; once the body ends, is closed or is
given up, the listener is told so, once. What was read before anybody asked is told at once.
Neighbour: `anthropic` says what is done with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2

log = logging.getLogger("refold.adapters")


class Listener:
    """Who is told the bytes of one body, and its end. What goes wrong with him is logged."""

    def __init__(self, hear: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._hear, self._end = hear, end
        self._is_done = False

    def hear(self, chunk: bytes) -> None:
        self._guarded(lambda: self._hear(chunk))

    def end(self) -> None:
        """The body has come to its end; only the first time counts."""
        if not self._is_done:
            self._is_done = True
            self._guarded(self._end)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            log.warning("the answer was not read on its way: %s", error)


class _Body(httpx2.SyncByteStream):  # type: ignore[misc]
    """A body that its caller reads synchronously."""

    def __init__(self, body: Any, listener: Listener) -> None:
        self._body, self._listener = body, listener

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._body:
            self._listener.hear(chunk)
            yield chunk

    def close(self) -> None:
        try:
            self._body.close()
        finally:
            self._listener.end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)  # the SDK keeps its tracing there


class _AsyncBody(httpx2.AsyncByteStream):  # type: ignore[misc]
    """The same for an asynchronous caller; the end is told in a thread."""

    def __init__(self, body: Any, listener: Listener) -> None:
        self._body, self._listener = body, listener

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self._listener.hear(chunk)
            yield chunk

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            await asyncio.to_thread(self._listener.end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


def listened(response: httpx2.Response, listener: Listener) -> None:
    """Has the listener hear the body of this response."""
    if response.is_closed:
        listener.hear(response.content)
        listener.end()
    else:
        response.stream = _Body(response.stream, listener)


async def listened_async(response: httpx2.Response, listener: Listener) -> None:
    """The same where the body is read asynchronously."""
    if response.is_closed:
        listener.hear(response.content)
        await asyncio.to_thread(listener.end)
    else:
        response.stream = _AsyncBody(response.stream, listener)
