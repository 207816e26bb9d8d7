"""Anthropic's SDK: a middleware of the client that keeps requests small.

    client = Anthropic(middleware=[RefoldMiddleware("fix-login", store="sqlite:work.db")])

The loop stays yours: you send the whole list of messages with every call, and the request is folded
when necessary. System, tools and every other field are sent unchanged. An answer is read on its way
to the caller, streamed or not, without changing a byte. Neighbour: `guest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import httpx2
from anthropic import Middleware

from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    Wire,
    check_version,
    log,
    same,
    thinking_options,
)
from refold.edges.proxy.body import reply_of
from refold.edges.proxy.savings import UsageReader

HOST, DIALECT, PATH = "anthropic", "anthropic", "/v1/messages"
READABLE = "gzip, deflate"  # encodings that can be read here
MANAGERS = ("context_management", "compaction")  # fields that make the provider shorten the list


class RefoldMiddleware(Middleware):  # type: ignore[misc]
    """Folds the messages of every call. `name` is the conversation; a list with another history
    continues in a fork of it. `settings` are those of `refold.open`: `window`, `writer`, …"""

    def __init__(self, name: str = "agent", *, store: Place = None, **settings: Any) -> None:
        check_version("anthropic")
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
        """Closes the conversation, and the store if it was opened here."""
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
            options=thinking_options(body),
        )

    def _listener(self, sent: Sent[Any], response: Any) -> Listener:
        headers = dict(response.headers)
        if response.http_response.is_closed:
            headers.pop("content-encoding", None)  # it is already read and decoded
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
    """The request with other messages, and with encodings that can be read here."""
    names = {name.lower() for name in request.headers}
    headers = {} if "accept-encoding" in names else {"accept-encoding": READABLE}
    body = {**request.json, "messages": messages}
    return request.copy(body=body, headers={**request.headers, **headers})


# --- answers, read on their way ---


class Listener:
    """Receives the bytes of one body, and its end. Errors are logged."""

    def __init__(self, hear: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._hear, self._end = hear, end
        self._is_done = False

    def hear(self, chunk: bytes) -> None:
        self._guarded(lambda: self._hear(chunk))

    def end(self) -> None:
        """Reports the end of the body, once."""
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
        return getattr(self._body, name)  # the SDK keeps its tracing data there


class _AsyncBody(httpx2.AsyncByteStream):  # type: ignore[misc]
    """A body that its caller reads asynchronously; a thread handles its end."""

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
    """Passes the body of this response to the listener, at once if it is already read."""
    if response.is_closed:
        listener.hear(response.content)
        listener.end()
    else:
        response.stream = _Body(response.stream, listener)


async def listened_async(response: httpx2.Response, listener: Listener) -> None:
    """The same for a body that is read asynchronously."""
    if response.is_closed:
        listener.hear(response.content)
        await asyncio.to_thread(listener.end)
    else:
        response.stream = _AsyncBody(response.stream, listener)
