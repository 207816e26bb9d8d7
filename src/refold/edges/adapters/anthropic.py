"""Anthropic's SDK: a middleware of the client that keeps what is sent small.

    client = Anthropic(middleware=[RefoldMiddleware("fix-login", store="sqlite:work.db")])

The loop stays yours: you send the whole list of messages at every call, and what goes over the wire
is folded once it has to be. System, tools and every other field go out as they came. An answer is
read as it passes, streamed or not, byte for byte the same. Neighbours: `guest`, `anthropic_body`
listens to answers.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from anthropic import Middleware

from refold.edges.adapters.anthropic_body import Listener, listened, listened_async
from refold.edges.adapters.folding import Sent, Wire, same
from refold.edges.adapters.guest import Answered, Guest
from refold.edges.adapters.sessions import Place
from refold.edges.proxy.reply import reply_of
from refold.edges.proxy.usage import UsageReader

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
