"""LiteLLM: a callback that keeps what a call sends small, in the SDK, the router and the proxy.

    litellm.callbacks = [RefoldCallback(store="sqlite:work.db")]
    await litellm.acompletion(model="gpt-5", messages=messages)

The messages of chat completions and of Anthropic's route, and the input of the Responses API, are
folded after a deployment was chosen, so that its window counts. A call that names its session
(`litellm_session_id`) is that conversation; any other is found by what it says. LiteLLM calls this
for asynchronous calls only. Neighbours: `guest`, `litellm_calls`, `conversations.recognition`.
"""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

import refold
from refold.conversations.recognition import Recognised
from refold.edges.adapters.folding import Sent, same
from refold.edges.adapters.guest import Guest, Waiting
from refold.edges.adapters.litellm_calls import (
    CALLS,
    SYSTEM,
    Call,
    answered,
    id_of,
    managers_of,
    plain,
    session_of,
)
from refold.edges.adapters.sessions import Place

HOST = "litellm"


class RefoldCallback(CustomLogger):  # type: ignore[misc]
    """Folds the list of every call. `settings` are those of `refold.open`: `window`, `writer`, …;
    without `model`, the name of the deployment's model counts."""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        super().__init__()
        self._guest = Guest("", store, settings)
        self._waiting: Waiting[Any] = Waiting()

    async def async_pre_call_deployment_hook(self, kwargs: Call, call_type: Any) -> Call | None:
        dialect, field = CALLS.get(call_type, ("", ""))
        if not isinstance(kwargs.get(field), list):
            return None
        self._guest.warn_of(managers_of(kwargs))
        sent = await asyncio.to_thread(self._folded, kwargs, dialect, field)
        self._waiting.add(id_of(kwargs), sent)
        return {**kwargs, field: sent.shown}

    async def async_post_call_success_deployment_hook(
        self, request_data: Call, response: Any, call_type: Any
    ) -> None:
        await self._take(request_data, response, call_type)

    async def async_log_success_event(
        self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """A stream has come to its end; any other answer was kept before."""
        await self._take(kwargs, response_obj, kwargs.get("call_type"))

    async def async_log_failure_event(
        self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self._waiting.pop(id_of(kwargs))

    def close(self) -> None:
        """Lets go of the conversations, and of the store if it was opened here."""
        self._guest.close()

    def _folded(self, call: Call, dialect: str, field: str) -> Sent[Any]:
        messages = call[field]
        return self._guest.fold(
            self._name(call, messages, dialect),
            messages,
            same,
            same,
            dialect=dialect,
            model=call.get("model"),
            system=call.get(SYSTEM.get(dialect, "")),
            tools=call.get("tools"),
        )

    async def _take(self, call: Call, response: Any, call_type: Any) -> None:
        """Keeps an answer, once it is whole."""
        said = plain(response)
        sent = self._waiting.pop(id_of(call)) if said else None
        if sent is not None:
            await asyncio.to_thread(self._guest.take, sent, partial(answered, said, call_type))

    def _name(self, call: Call, messages: list[Any], dialect: str) -> str:
        """The name of the session; that of the conversation which begins as the list does, if the
        call names none; else a new one."""
        session = session_of(call)
        if session:
            return f"{HOST}/{session}"
        try:
            found = refold.conversations.recognise(
                self._guest.sessions.store, messages, dialect=dialect
            )
        except refold.Invalid:
            found = None  # `folded` says what is wrong with the list
        return self._known(found) or f"{HOST}/{uuid.uuid4().hex}"

    def _known(self, found: Recognised | None) -> str:
        """The name of a conversation that was found, or of the one that it was forked from."""
        about = found.conversation if found else None
        while about is not None:
            own = [name for name in about.names if name.startswith(f"{HOST}/")]
            if own:
                return own[0]
            parent = about.parent
            about = (
                refold.conversations.find(self._guest.sessions.store, parent) if parent else None
            )
        return ""
