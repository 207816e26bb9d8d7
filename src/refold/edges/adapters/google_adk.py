"""Google's ADK: a plugin that keeps what the model reads small.

    app = App(name="fixer", root_agent=agent, plugins=[RefoldPlugin(store="sqlite:work.db")])

The events of the session stay as they are; only what a call sends is folded. Every agent of a
session has a conversation of its own, because each reads another list. Unfolded contents are sent
as the very objects. Neighbour: `folding`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.plugins import BasePlugin
from google.genai import types

from refold.edges.adapters.folding import folded
from refold.edges.adapters.sessions import Place, Sessions

HOST, DIALECT = "adk", "gemini"

Wire = dict[str, Any]


class RefoldPlugin(BasePlugin):  # type: ignore[misc]
    """Folds the contents of every model call. `settings` are those of `refold.open`: `model`,
    `window`, `writer`, …; without `model`, the name that the request has counts."""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        super().__init__(name="refold")
        self._sessions = Sessions(store, settings)
        self._asks_model, self._window = "model" not in settings, settings.get("window")

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        name = _name(callback_context)
        llm_request.contents = await asyncio.to_thread(self._folded, name, llm_request)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        usage = llm_response.usage_metadata
        if usage is not None and not llm_response.partial:
            billed = _wire(usage)
            await asyncio.to_thread(self._record, _name(callback_context), billed)

    async def close(self) -> None:
        """Lets go of the conversations, and of the store if it was opened here."""
        self._sessions.close()

    def _folded(self, name: str, asked: Any) -> list[types.Content]:
        config = _wire(asked.config) if asked.config else {}
        with self._sessions.session(name) as context:
            if self._asks_model:
                context.update(model=asked.model, window=self._window)
            return folded(
                context,
                asked.contents,
                _wire,
                types.Content.model_validate,
                dialect=DIALECT,
                system=config.get("systemInstruction"),
                tools=config.get("tools"),
            )

    def _record(self, name: str, usage: Wire) -> None:
        with self._sessions.session(name) as context:
            context.record(usage=usage)


def _wire(value: Any) -> Wire:
    """An object of Google's package as its API has it."""
    unsayable = {"http_options", "response_schema"}  # need not be JSON
    dumped: Wire
    dumped = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=unsayable)
    return dumped


def _name(context: Any) -> str:
    session = context.session
    place = (session.app_name, session.user_id, session.id, context.agent_name)
    return "/".join((HOST, *place))
