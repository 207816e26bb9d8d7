"""LiteLLM: a callback that keeps what a call sends small, in the SDK, the router and the proxy.

    litellm.callbacks = [RefoldCallback(store="sqlite:work.db")]
    await litellm.acompletion(model="gpt-5", messages=messages)

The messages of chat completions and of Anthropic's route, and the input of the Responses API, are
folded after a deployment was chosen, so that its window counts. A call that names its session
(`litellm_session_id`) is that conversation; any other is found by what it says. LiteLLM calls this
for asynchronous calls only. Neighbours: `folding`, `conversations.recognition`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.types.utils import CallTypes

import refold
from refold.conversations.recognition import Recognised
from refold.edges.adapters.folding import folded
from refold.edges.adapters.sessions import Place, Sessions

HOST = "litellm"
# The call → the dialect of its list, and where the list stands.
CALLS = {
    CallTypes.acompletion: ("openai_chat", "messages"),
    CallTypes.anthropic_messages: ("anthropic", "messages"),
    CallTypes.aresponses: ("openai_responses", "input"),
}
WAITING_MAX = 1_000  # calls whose answer never came are forgotten at some time
SYSTEM = {"anthropic": "system", "openai_responses": "instructions"}

Call = dict[str, Any]


class RefoldCallback(CustomLogger):  # type: ignore[misc]
    """Folds the list of every call. `settings` are those of `refold.open`: `window`, `writer`, …;
    without `model`, the name of the deployment's model counts."""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        super().__init__()
        self._sessions = Sessions(store, settings)
        self._asks_model, self._window = "model" not in settings, settings.get("window")
        self._waiting: OrderedDict[str, str] = OrderedDict()  # calls → their conversations

    async def async_pre_call_deployment_hook(self, kwargs: Call, call_type: Any) -> Call | None:
        dialect, field = CALLS.get(call_type, ("", ""))
        if not isinstance(kwargs.get(field), list):
            return None
        shown = await asyncio.to_thread(self._folded, kwargs, dialect, field)
        return {**kwargs, field: shown}

    async def async_log_success_event(
        self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        name = self._waiting.pop(str(kwargs.get("litellm_call_id")), "")
        usage = getattr(response_obj, "usage", None)
        if name and usage:
            await asyncio.to_thread(self._record, name, usage)

    def close(self) -> None:
        """Lets go of the conversations, and of the store if it was opened here."""
        self._sessions.close()

    def _folded(self, call: Call, dialect: str, field: str) -> list[Any]:
        messages = call[field]
        name = self._name(call, messages, dialect)
        self._wait(str(call.get("litellm_call_id")), name)
        with self._sessions.session(name) as context:
            if self._asks_model:
                context.update(model=call.get("model"), window=self._window)
            return folded(
                context,
                messages,
                _same,
                _same,
                dialect=dialect,
                system=call.get(SYSTEM.get(dialect, "")),
                tools=call.get("tools"),
            )

    def _name(self, call: Call, messages: list[Any], dialect: str) -> str:
        """The name of the session; that of the conversation which begins as the list does, if the
        call names none; else a new one."""
        session = _session(call)
        if session:
            return f"{HOST}/{session}"
        try:
            found = refold.conversations.recognise(self._sessions.store, messages, dialect=dialect)
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
            about = refold.conversations.find(self._sessions.store, parent) if parent else None
        return ""

    def _wait(self, call: str, name: str) -> None:
        self._waiting[call] = name
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)

    def _record(self, name: str, usage: Any) -> None:
        with self._sessions.session(name) as context:
            context.record(usage=usage)


def _session(call: Mapping[str, Any]) -> str:
    """How the call names its session; empty if it does not."""
    metadata = call.get("litellm_metadata") or call.get("metadata") or {}
    named = call.get("litellm_session_id") or metadata.get("session_id")
    return named if isinstance(named, str) else ""


def _same(message: Any) -> Any:
    return message
