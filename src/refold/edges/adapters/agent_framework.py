"""Microsoft's Agent Framework: a chat middleware that keeps the model's page small.

    agent = Agent(client=client, tools=tools, middleware=[RefoldMiddleware(store="sqlite:work.db")])

The session keeps every message; only what a call sends is folded. A session is a conversation: the
one of its `session_id`, or the name that the middleware was given. Unfolded messages are sent as
the very objects. A history that the provider holds passes untouched. Neighbours: `guest`,
`agent_framework_messages`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agent_framework import ChatContext, ChatMiddleware, ChatResponse, Message

import refold
from refold.edges.adapters.agent_framework_messages import apart, from_wire, to_wire
from refold.edges.adapters.folding import Sent, Wire, definitions
from refold.edges.adapters.guest import Answered, Guest
from refold.edges.adapters.sessions import Place

HOST, DIALECT = "agent-framework", "anthropic"


class RefoldMiddleware(ChatMiddleware):  # type: ignore[misc]
    """Folds the messages of every model call. `name` is the conversation of calls without a
    session; `settings` are those of `refold.open`: `model`, `window`, `writer`, …; without `model`,
    the name of the agent's own model counts."""

    def __init__(self, *, name: str = "agent", store: Place = None, **settings: Any) -> None:
        self._guest = Guest(DIALECT, store, settings)
        self._unnamed = name

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        if (context.options or {}).get("conversation_id"):
            await call_next()  # the provider holds the history, and this is only its end
            return
        self._warn(context)
        sent = await asyncio.to_thread(self._folded, context)
        context.messages = apart(sent.shown)
        await call_next()
        await self._listen(sent, context)

    def close(self) -> None:
        """Lets go of the conversations, and of the store if it was opened here."""
        self._guest.close()

    def _warn(self, context: ChatContext) -> None:
        own = context.kwargs.get("compaction_strategy")
        managers = (own, getattr(context.client, "compaction_strategy", None))
        self._guest.warn_of(type(one).__name__ for one in managers if one is not None)

    def _folded(self, context: ChatContext) -> Sent[Message]:
        options = context.options or {}
        return self._guest.fold(
            self._name(context),
            context.messages,
            to_wire,
            from_wire,
            model=options.get("model") or getattr(context.client, "model", None),
            system=options.get("instructions"),
            tools=definitions(options.get("tools") or (), _tool),
        )

    def _name(self, context: ChatContext) -> str:
        session = context.session.session_id if context.session else self._unnamed
        return f"{HOST}/{session}"

    async def _listen(self, sent: Sent[Message], context: ChatContext) -> None:
        """Keeps the answer: at once, or once its stream has been read to the end."""

        async def take(response: ChatResponse[Any]) -> None:
            await asyncio.to_thread(self._guest.take, sent, partial(_answered, response))

        if isinstance(context.result, ChatResponse):
            await take(context.result)
        elif context.result is not None:
            context.result.with_result_hook(take)


def _tool(tool: Any) -> Wire:
    schema = tool.parameters()
    return {"name": tool.name, "description": tool.description or "", "input_schema": schema}


def _answered(response: ChatResponse[Any]) -> Answered:
    answers = [to_wire(one) for one in response.messages if one.contents]
    return answers, _usage(response)


def _usage(response: ChatResponse[Any]) -> refold.Usage | None:
    """What the call was billed; None if nobody said."""
    billed = response.usage_details or {}
    if not billed.get("input_token_count"):
        return None
    return refold.Usage(
        input=billed["input_token_count"],
        output=billed.get("output_token_count") or 0,
        cache_read=billed.get("cache_read_input_token_count") or 0,
        cache_write=billed.get("cache_creation_input_token_count") or 0,
    )
