"""Anthropic's SDK: a middleware of the client that keeps what is sent small.

    client = Anthropic(middleware=[RefoldMiddleware("fix-login", store="sqlite:work.db")])

The loop stays yours: you send the whole list of messages at every call, and what goes over the wire
is folded once it has to be. System, tools and every other field go out as they came. Neighbour:
`folding`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import Middleware

from refold.edges.adapters.folding import folded
from refold.edges.adapters.sessions import Place, Sessions

HOST, DIALECT, PATH = "anthropic", "anthropic", "/v1/messages"


class RefoldMiddleware(Middleware):  # type: ignore[misc]
    """Folds the messages of every call. `name` is the conversation; a list that is another history
    goes on in a fork of it. `settings` are those of `refold.open`: `window`, `writer`, …"""

    def __init__(self, name: str = "agent", *, store: Place = None, **settings: Any) -> None:
        self._name, self._window = f"{HOST}/{name}", settings.get("window")
        self._sessions = Sessions(store, settings)

    def handle(self, request: Any, call_next: Any) -> Any:
        response = call_next(self._folded(request))
        if _is_whole(request, response):
            self._record(response.parse())
        return response

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        response = await call_next(await asyncio.to_thread(self._folded, request))
        if _is_whole(request, response):
            await asyncio.to_thread(self._record, await response.parse())
        return response

    def close(self) -> None:
        """Lets go of the conversation, and of the store if it was opened here."""
        self._sessions.close()

    def _folded(self, request: Any) -> Any:
        """The request with folded messages; any other call as it is."""
        body = request.json
        if not _is_message(request) or not isinstance(body.get("messages"), list):
            return request
        with self._sessions.session(self._name) as context:
            context.update(model=body.get("model"), window=self._window)
            shown = folded(
                context,
                body["messages"],
                _same,
                _same,
                dialect=DIALECT,
                system=body.get("system"),
                tools=body.get("tools"),
            )
        return request.copy(body={**body, "messages": shown})

    def _record(self, message: Any) -> None:
        with self._sessions.session(self._name) as context:
            context.record(usage=message.usage)


def _same(message: Any) -> Any:
    return message


def _is_message(request: Any) -> bool:
    address: str = request.url
    is_call = request.method == "post" and address.partition("?")[0] == PATH
    return is_call and isinstance(request.json, dict)


def _is_whole(request: Any, response: Any) -> bool:
    """Whether the answer has its usage: a stream is its caller's to read."""
    return _is_message(request) and not request.stream and response.status_code == 200
