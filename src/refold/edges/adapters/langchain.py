"""LangChain and LangGraph: a middleware for `create_agent` that keeps the model's page small.

    agent = create_agent(model, tools, middleware=[RefoldMiddleware(store="sqlite:work.db")])

The agent's state stays as it is; only what a call sends is folded. A thread is a conversation: the
one of its `thread_id`, or the name that the middleware was given. Unfolded messages are sent as the
very objects that the state holds. Neighbour: `folding`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

import refold
from refold.edges.adapters.folding import folded
from refold.edges.adapters.sessions import Place, Sessions

HOST, DIALECT = "langchain", "openai_chat"


class RefoldMiddleware(AgentMiddleware):  # type: ignore[misc]
    """Folds the messages of every model call. `name` is the conversation of calls without a
    `thread_id`; `settings` are those of `refold.open`: `model`, `window`, `writer`, …; without
    `model`, the name of the agent's own model counts."""

    def __init__(self, *, name: str = "agent", store: Place = None, **settings: Any) -> None:
        super().__init__()
        self._sessions = Sessions(store, settings)
        self._asks_model, self._window = "model" not in settings, settings.get("window")
        self._unnamed = name

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        name = self._name()
        response = handler(self._fold(name, request))
        self._record(name, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        name = self._name()
        response = await handler(await asyncio.to_thread(self._fold, name, request))
        await asyncio.to_thread(self._record, name, response)
        return response

    def close(self) -> None:
        """Lets go of the conversations, and of the store if it was opened here."""
        self._sessions.close()

    def _name(self) -> str:
        try:
            thread = get_config().get("configurable", {}).get("thread_id")
        except RuntimeError:  # called outside of a graph
            thread = None
        return f"{HOST}/{self._unnamed if thread is None else thread}"

    def _fold(self, name: str, request: ModelRequest) -> ModelRequest:
        with self._sessions.session(name) as context:
            if self._asks_model:
                context.update(model=_model_name(request.model), window=self._window)
            shown = folded(
                context,
                request.messages,
                convert_to_openai_messages,
                _made,
                dialect=DIALECT,
                system=str(request.system_prompt) if request.system_prompt else None,
                tools=[convert_to_openai_tool(tool) for tool in request.tools] or None,
            )
        return request.override(messages=shown)

    def _record(self, name: str, response: Any) -> None:
        usage = _usage(response)
        if usage is not None:
            with self._sessions.session(name) as context:
                context.record(usage=usage)


def _made(wire: dict[str, Any]) -> BaseMessage:
    [message] = convert_to_messages([wire])
    return message


def _model_name(model: Any) -> str | None:
    names = (getattr(model, field, None) for field in ("model_name", "model"))
    return next((name for name in names if isinstance(name, str) and name), None)


def _usage(response: Any) -> refold.Usage | None:
    """What the call was billed; None if nobody said."""
    answer = getattr(response, "model_response", response)
    messages = [answer] if isinstance(answer, BaseMessage) else answer.result
    billed = next((one.usage_metadata for one in messages if isinstance(one, AIMessage)), None)
    if not billed:
        return None
    details = billed.get("input_token_details") or {}
    return refold.Usage(
        input=billed["input_tokens"],
        output=billed["output_tokens"],
        cache_read=details.get("cache_read") or 0,
        cache_write=details.get("cache_creation") or 0,
    )
