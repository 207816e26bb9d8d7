"""Google's ADK: a plugin that keeps the model's page small.

    app = App(name="fixer", root_agent=agent, plugins=[RefoldPlugin(store="sqlite:work.db")])

The events of the session stay unchanged; only the page of a call is folded. Every agent of a
session has a conversation of its own, because each has its own list. Unfolded contents are sent as
the same objects. Neighbour: `guest`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from google.adk.plugins import BasePlugin
from google.genai import types

from refold.edges.adapters.guest import Answered, Guest, Place, Sent, Waiting

HOST, DIALECT = "adk", "gemini"
OWN_ID = "adk-"  # prefix of call ids that the ADK generated

Wire = dict[str, Any]


class RefoldPlugin(BasePlugin):  # type: ignore[misc]
    """Folds the contents of every model call. `settings` are those of `refold.open`: `model` (by
    default the request's), `window`, `writer`, …"""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        super().__init__(name="refold")
        self._guest = Guest(DIALECT, store, settings)
        self._waiting: Waiting[types.Content] = Waiting()  # by invocation and agent

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        # The ADK has no public way to ask whether the app compacts its events.
        invocation = getattr(callback_context, "_invocation_context", None)
        if getattr(invocation, "events_compaction_config", None) is not None:
            self._guest.warn_of(["EventsCompactionConfig of the app"])
        session = callback_context.session
        path = (session.app_name, session.user_id, session.id, callback_context.agent_name)
        sent = await asyncio.to_thread(self._folded, "/".join((HOST, *path)), llm_request)
        self._waiting.add(_call(callback_context), sent)
        llm_request.contents = sent.shown

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        if llm_response.partial:
            return
        sent = self._waiting.pop(_call(callback_context))
        if sent is not None:
            await asyncio.to_thread(self._guest.take, sent, partial(_answered, llm_response))

    async def close(self) -> None:
        """Closes the conversations, and the store if it was opened here."""
        self._guest.close()

    def _folded(self, name: str, request: Any) -> Sent[types.Content]:
        config = _wire(request.config) if request.config else {}
        return self._guest.fold(
            name,
            request.contents,
            _wire,
            types.Content.model_validate,
            model=request.model,
            system=config.get("systemInstruction"),
            tools=config.get("tools"),
        )


def _wire(value: Any) -> Wire:
    """An object of Google's package as the JSON of its API."""
    not_json = {"http_options", "response_schema"}  # they may be any object
    dumped: Wire
    dumped = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=not_json)
    return dumped


def _answered(response: Any) -> Answered:
    """The answer as the ADK will repeat it: without the call ids that it generated."""
    usage, content = response.usage_metadata, response.content
    answers = [_wire(content)] if content and content.parts else []
    for part in answers[0]["parts"] if answers else ():
        call = part.get("functionCall", {})
        if call.get("id", "").startswith(OWN_ID):
            del call["id"]
    return answers, None if usage is None else _wire(usage)


def _call(context: Any) -> str:
    return f"{context.invocation_id} {context.agent_name}"
