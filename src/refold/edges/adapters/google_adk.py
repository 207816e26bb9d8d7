"""Google's ADK: a plugin that keeps what the model reads small.

    app = App(name="fixer", root_agent=agent, plugins=[RefoldPlugin(store="sqlite:work.db")])

The events of the session stay as they are; only what a call sends is folded. Every agent of a
session has a conversation of its own, because each reads another list. Unfolded contents are sent
as the very objects. Neighbour: `guest`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from google.adk.plugins import BasePlugin
from google.genai import types

from refold.edges.adapters.guest import Answered, Guest, Place, Sent, Waiting

HOST, DIALECT = "adk", "gemini"
OWN_ID = "adk-"  # how the id of a call begins that the ADK made

Wire = dict[str, Any]


class RefoldPlugin(BasePlugin):  # type: ignore[misc]
    """Folds the contents of every model call. `settings` are those of `refold.open`: `model`,
    `window`, `writer`, …; without `model`, the name that the request has counts."""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        super().__init__(name="refold")
        self._guest = Guest(DIALECT, store, settings)
        self._waiting: Waiting[types.Content] = Waiting()  # by invocation and agent

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        if _compacts(callback_context):
            self._guest.warn_of(["EventsCompactionConfig of the app"])
        sent = await asyncio.to_thread(self._folded, _name(callback_context), llm_request)
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

    def _folded(self, name: str, asked: Any) -> Sent[types.Content]:
        config = _wire(asked.config) if asked.config else {}
        return self._guest.fold(
            name,
            asked.contents,
            _wire,
            types.Content.model_validate,
            model=asked.model,
            system=config.get("systemInstruction"),
            tools=config.get("tools"),
        )


def _wire(value: Any) -> Wire:
    """An object of Google's package as its API has it."""
    unsayable = {"http_options", "response_schema"}  # need not be JSON
    dumped: Wire
    dumped = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=unsayable)
    return dumped


def _compacts(context: Any) -> bool:
    """Whether the app compacts its events; the ADK has no public way to ask."""
    invocation = getattr(context, "_invocation_context", None)
    return getattr(invocation, "events_compaction_config", None) is not None


def _answered(response: Any) -> Answered:
    usage, content = response.usage_metadata, response.content
    answers = [_repeated(_wire(content))] if content and content.parts else []
    return answers, None if usage is None else _wire(usage)


def _repeated(answer: Wire) -> Wire:
    """An answer as the ADK repeats it: without the ids that it gave to calls itself."""
    for part in answer["parts"]:
        call = part.get("functionCall", {})
        if call.get("id", "").startswith(OWN_ID):
            del call["id"]
    return answer


def _call(context: Any) -> str:
    return f"{context.invocation_id} {context.agent_name}"


def _name(context: Any) -> str:
    session = context.session
    place = (session.app_name, session.user_id, session.id, context.agent_name)
    return "/".join((HOST, *place))
