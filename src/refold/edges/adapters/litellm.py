"""LiteLLM: a callback that keeps what a call sends small, in the SDK, the router and the proxy.

    litellm.callbacks = [RefoldCallback(store="sqlite:work.db")]
    await litellm.acompletion(model="gpt-5", messages=messages)

The messages of chat completions and of Anthropic's route, and the input of the Responses API, are
folded after a deployment was chosen, so that its window counts. A call that names its session
(`litellm_session_id`) is that conversation; any other is found by what it says. LiteLLM calls this
for asynchronous calls only. Neighbours: `guest`, `litellm_calls`, `conversations.recognition`.

What a call of LiteLLM says: its list, its session, who else shortens it, and its answer.

Neighbours: `litellm` folds the list, `proxy.reply` reads answers.
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
from refold.conversations.importer import Recognised
from refold.edges.adapters.guest import Answered, Guest, Place, Sent, Waiting, same
from refold.edges.proxy.body import reply_in

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


# The call → the dialect of its list, and where the list stands.
CALLS = {
    CallTypes.acompletion: ("openai_chat", "messages"),
    CallTypes.anthropic_messages: ("anthropic", "messages"),
    CallTypes.aresponses: ("openai_responses", "input"),
}
SYSTEM = {"anthropic": "system", "openai_responses": "instructions"}

Call = dict[str, Any]


def managers_of(call: Call) -> Iterator[str]:
    """What shortens the list of this call besides refold."""
    if call.get("context_management"):
        yield "`context_management` of the call"
    names = (type(callback).__name__ for callback in litellm.callbacks)
    yield from (name for name in names if name == "CompressionInterceptionLogger")


def id_of(call: Mapping[str, Any]) -> str:
    """LiteLLM's own name for a call."""
    return str(call.get("litellm_call_id"))


def plain(response: Any) -> Call:
    """A response as its JSON; empty for a stream, which is its caller's to read."""
    if isinstance(response, BaseModel):
        dumped: Call = response.model_dump(mode="json", exclude_none=True)
        return dumped
    return response if isinstance(response, dict) else {}


def answered(response: Call, call_type: Any) -> Answered:
    """What the model said, as the caller will repeat it, and what the call was billed."""
    # The end of a stream of another route may be told in the form of chat completions.
    dialect, _ = CALLS[CallTypes.acompletion if "choices" in response else call_type]
    reply = reply_in(response, dialect)
    return reply.messages if reply else [], _usage(response)


def _usage(response: Call) -> Any:
    """What the call was billed; None if nobody said: LiteLLM then puts zeros."""
    usage = response.get("usage") or {}
    return usage if usage.get("prompt_tokens") or usage.get("input_tokens") else None


def session_of(call: Mapping[str, Any]) -> str:
    """How the call names its session; empty if it does not."""
    metadata = call.get("litellm_metadata") or call.get("metadata") or {}
    named = call.get("litellm_session_id") or metadata.get("session_id")
    return named if isinstance(named, str) else ""
