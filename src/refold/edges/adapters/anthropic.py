"""Anthropic's SDK: a middleware of the client that keeps what is sent small.

    client = Anthropic(middleware=[RefoldMiddleware("fix-login", store="sqlite:work.db")])

The loop stays yours: you send the whole list of messages at every call, and what goes over the wire
is folded once it has to be. System, tools and every other field go out as they came. An answer is
read as it passes, streamed or not, byte for byte the same. Neighbours: `guest`, `anthropic_body`
listens to answers.

The body of an answer of Anthropic's SDK, listened to while its caller reads it.

Every byte is passed on as it came, and told to a listener; once the body ends, is closed or is
given up, the listener is told so, once. What was read before anybody asked is told at once.
Neighbour: `anthropic` says what is done with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import httpx2
from anthropic import Middleware

from refold.edges.adapters.guest import Answered, Guest, Place, Sent, Wire, same
from refold.edges.proxy.body import reply_of
from refold.edges.proxy.savings import UsageReader

HOST, DIALECT, PATH = "anthropic", "anthropic", "/v1/messages"
READABLE = "gzip, deflate"  # how an answer may be packed
MANAGERS = ("context_management", "compaction")  # what has the provider shorten the list


class RefoldMiddleware(Middleware):  # type: ignore[misc]
    """Folds the messages of every call. `name` is the conversation; a list that is another history
    goes on in a fork of it. `settings` are those of `refold.open`: `window`, `writer`, …"""

    def __init__(self, name: str = "agent", *, store: Place = None, **settings: Any) -> None:
        self._name = f"{HOST}/{name}"
        self._guest = Guest(DIALECT, store, settings)

    def handle(self, request: Any, call_next: Any) -> Any:
        if not _is_message(request):
            return call_next(request)
        sent = self._folded(request.json)
        response = call_next(_with(request, sent.shown))
        if response.status_code == 200:
            listened(response.http_response, self._listener(sent, response))
        return response

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        if not _is_message(request):
            return await call_next(request)
        sent = await asyncio.to_thread(self._folded, request.json)
        response = await call_next(_with(request, sent.shown))
        if response.status_code == 200:
            await listened_async(response.http_response, self._listener(sent, response))
        return response

    def close(self) -> None:
        """Lets go of the conversation, and of the store if it was opened here."""
        self._guest.close()

    def _folded(self, body: Wire) -> Sent[Any]:
        self._guest.warn_of(f"`{name}` of the call" for name in MANAGERS if body.get(name))
        return self._guest.fold(
            self._name,
            body["messages"],
            same,
            same,
            model=body.get("model"),
            system=body.get("system"),
            tools=body.get("tools"),
        )

    def _listener(self, sent: Sent[Any], response: Any) -> Listener:
        headers = dict(response.headers)
        if response.http_response.is_closed:
            headers.pop("content-encoding", None)  # it was read, and unpacked, before
        reader = UsageReader(DIALECT, headers)

        def answered() -> Answered:
            usage, copy = reader.usage, reader.copy
            reply = None if copy is None else reply_of(copy, DIALECT)
            return reply.messages if reply else [], usage

        return Listener(reader.feed, partial(self._guest.take, sent, answered))


def _is_message(request: Any) -> bool:
    address: str = request.url
    is_call = request.method == "post" and address.partition("?")[0] == PATH
    body = request.json
    return is_call and isinstance(body, dict) and isinstance(body.get("messages"), list)


def _with(request: Any, messages: list[Any]) -> Any:
    """The request with other messages, and an answer that can be read on its way."""
    given = {name.lower() for name in request.headers}
    headers = {} if "accept-encoding" in given else {"accept-encoding": READABLE}
    body = {**request.json, "messages": messages}
    return request.copy(body=body, headers={**request.headers, **headers})


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
