"""LangChain and LangGraph: a middleware for `create_agent` that keeps the model's page small.

    agent = create_agent(model, tools, middleware=[RefoldMiddleware(store="sqlite:work.db")])

The agent's state stays unchanged; only the page of a call is folded. A thread is a conversation,
named by its `thread_id` or by the middleware's `name`. Unfolded messages are sent as the same
objects as in the state. Neighbour: `guest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

import refold
from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    check_version,
    definitions,
)

HOST, DIALECT = "langchain", "openai_chat"


class RefoldMiddleware(AgentMiddleware):  # type: ignore[misc]
    """Folds the messages of every model call. `name` is the conversation of calls without a
    `thread_id`; `settings` are those of `refold.open`: `model` (by default the agent's own),
    `window`, `writer`, …"""

    def __init__(self, *, name: str = "agent", store: Place = None, **settings: Any) -> None:
        check_version("langchain")
        super().__init__()
        self._guest = Guest(DIALECT, store, settings)
        self._unnamed = name

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        sent = self._fold(self._name(), request)
        response = handler(request.override(messages=sent.shown))
        self._guest.take(sent, partial(_answered, response))
        return response

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        sent = await asyncio.to_thread(self._fold, self._name(), request)
        response = await handler(request.override(messages=sent.shown))
        await asyncio.to_thread(self._guest.take, sent, partial(_answered, response))
        return response

    def close(self) -> None:
        """Closes the conversations, and the store if it was opened here."""
        self._guest.close()

    def _name(self) -> str:
        try:
            thread = get_config().get("configurable", {}).get("thread_id")
        except RuntimeError:  # called outside of a graph
            thread = None
        return f"{HOST}/{self._unnamed if thread is None else thread}"

    def _fold(self, name: str, request: ModelRequest) -> Sent[BaseMessage]:
        self._guest.warn_of(_managers(request.messages))
        names = (getattr(request.model, field, None) for field in ("model_name", "model"))
        return self._guest.fold(
            name,
            request.messages,
            _wire,
            partial(_made, _spelling(request.messages)),
            model=next((name for name in names if isinstance(name, str) and name), None),
            system=str(request.system_prompt) if request.system_prompt else None,
            tools=definitions(request.tools, convert_to_openai_tool),
        )


# LangChain's standard content repeats the calls of an answer, which are also in a separate field.
_CALLS = ("tool_call", "invalid_tool_call", "tool_call_chunk")
_SPELLING = ("output_version", "model_provider")


def _wire(message: BaseMessage) -> dict[str, Any]:
    """The message in OpenAI's form, which keeps parts that it does not know, such as thinking."""
    wire: dict[str, Any] = convert_to_openai_messages(message)
    if isinstance(wire["content"], list):
        wire["content"] = [part for part in wire["content"] if part.get("type") not in _CALLS]
    return wire


def _spelling(messages: Iterable[BaseMessage]) -> dict[str, Any]:
    """How the newest answer spells its parts, by the fields of which LangChain reads them."""
    metadata = [one.response_metadata for one in messages if isinstance(one, AIMessage)][-1:]
    return {key: one[key] for one in metadata for key in _SPELLING if key in one}


def _made(spelling: dict[str, Any], wire: dict[str, Any]) -> BaseMessage:
    [message] = convert_to_messages([wire])
    if isinstance(message, AIMessage):
        message.response_metadata = spelling
    return message


def _managers(messages: Iterable[BaseMessage]) -> Iterator[str]:
    """Names of the middlewares that left a trace in a message."""
    for message in messages:
        if message.additional_kwargs.get("lc_source") == "summarization":
            yield "SummarizationMiddleware"
        if message.response_metadata.get("context_editing"):
            yield "ContextEditingMiddleware"


def _answered(response: Any) -> Answered:
    """The messages that the agent adds to its state, and the usage."""
    answer = getattr(response, "model_response", response)
    messages = [answer] if isinstance(answer, BaseMessage) else answer.result
    wires = [_wire(message) for message in messages]
    usages = (message.usage_metadata for message in messages if isinstance(message, AIMessage))
    counts = next(usages, None)
    if not counts:
        return wires, None
    details = counts.get("input_token_details") or {}
    return wires, refold.Usage(
        input=counts["input_tokens"],
        output=counts["output_tokens"],
        cache_read=details.get("cache_read") or 0,
        cache_write=details.get("cache_creation") or 0,
    )
