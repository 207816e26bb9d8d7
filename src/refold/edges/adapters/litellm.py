"""LiteLLM: a callback that keeps requests small, in the SDK, the router and the proxy.

    litellm.callbacks = [RefoldCallback(store="sqlite:work.db")]
    await litellm.acompletion(model="gpt-5", messages=messages)

The messages of chat completions and of Anthropic's route, and the input of the Responses API, are
folded after a deployment is chosen, so that its window counts. A call belongs to the conversation
of its session (`litellm_session_id`), or else to the one with the same beginning. LiteLLM calls
this for asynchronous calls only. Neighbours: `guest`, `conversations.importer` recognizes
conversations, `proxy.body` reads answers.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.utils import CallTypes
from pydantic import BaseModel

import refold
from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    Waiting,
    check_version,
    same,
    thinking_options,
)
from refold.edges.proxy.body import reply_in

HOST = "litellm"


class RefoldCallback(CustomLogger):  # type: ignore[misc]
    """Folds the list of every call. `settings` are those of `refold.open`: `model` (by default the
    deployment's), `window`, `writer`, …"""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        check_version("litellm")
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
        """Takes a stream at its end; any other answer was taken before."""
        await self._take(kwargs, response_obj, kwargs.get("call_type"))

    async def async_log_failure_event(
        self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self._waiting.pop(id_of(kwargs))

    def close(self) -> None:
        """Closes the conversations, and the store if it was opened here."""
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
            options=thinking_options(call) if dialect == "anthropic" else {},
        )

    async def _take(self, call: Call, response: Any, call_type: Any) -> None:
        """Takes a complete answer."""
        answer = plain(response)
        sent = self._waiting.pop(id_of(call)) if answer else None
        if sent is not None:
            await asyncio.to_thread(self._guest.take, sent, partial(answered, answer, call_type))

    def _name(self, call: Call, messages: list[Any], dialect: str) -> str:
        """The name of the call's session, or else of the conversation with the same beginning, or
        of one that it was forked from; otherwise a new name."""
        session = session_of(call)
        if session:
            return f"{HOST}/{session}"
        store = self._guest.sessions.store
        try:
            recognized = refold.conversations.recognise(store, messages, dialect=dialect)
        except refold.Invalid:
            recognized = None  # `folded` reports what is wrong with the list
        about = recognized.conversation if recognized else None
        while about is not None:
            own = [name for name in about.names if name.startswith(f"{HOST}/")]
            if own:
                return own[0]
            about = refold.conversations.find(store, about.parent) if about.parent else None
        return f"{HOST}/{uuid.uuid4().hex}"


# Types of calls, with the dialect and the field of their lists.
CALLS = {
    CallTypes.acompletion: ("openai_chat", "messages"),
    CallTypes.anthropic_messages: ("anthropic", "messages"),
    CallTypes.aresponses: ("openai_responses", "input"),
}
SYSTEM = {"anthropic": "system", "openai_responses": "instructions"}

Call = dict[str, Any]


def managers_of(call: Call) -> Iterator[str]:
    """Names of the managers, other than refold, that shorten the list of this call."""
    if call.get("context_management"):
        yield "`context_management` of the call"
    names = (type(callback).__name__ for callback in litellm.callbacks)
    yield from (name for name in names if name == "CompressionInterceptionLogger")


def id_of(call: Mapping[str, Any]) -> str:
    """LiteLLM's id of a call."""
    return str(call.get("litellm_call_id"))


def plain(response: Any) -> Call:
    """A response as its JSON; empty for a stream, which only its caller reads."""
    if isinstance(response, BaseModel):
        dumped: Call = response.model_dump(mode="json", exclude_none=True)
        return dumped
    return response if isinstance(response, dict) else {}


def answered(response: Call, call_type: Any) -> Answered:
    """The model's answer, as the caller will repeat it, and the usage."""
    # A stream of another route may end in the form of chat completions.
    dialect, _ = CALLS[CallTypes.acompletion if "choices" in response else call_type]
    reply = reply_in(response, dialect)
    usage = response.get("usage") or {}
    is_known = usage.get("prompt_tokens") or usage.get("input_tokens")  # else LiteLLM puts zeros
    return reply.messages if reply else [], usage if is_known else None


def session_of(call: Mapping[str, Any]) -> str:
    """The session of a call; empty if it names none."""
    metadata = call.get("litellm_metadata") or call.get("metadata") or {}
    named = call.get("litellm_session_id") or metadata.get("session_id")
    return named if isinstance(named, str) else ""
