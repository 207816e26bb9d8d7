"""Microsoft's Agent Framework: a chat middleware that keeps the model's page small.

    agent = Agent(client=client, tools=tools, middleware=[RefoldMiddleware(store="sqlite:work.db")])

The session keeps every message; only the page of a call is folded. A session is a conversation,
named by its `session_id` or by the middleware's `name`. Unfolded messages are sent as the same
objects. A history stored by the provider is left alone. Messages are translated to Anthropic's
form, because one of its messages may have several results; content that it lacks travels unchanged
in a block of its own type. Neighbour: `guest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from agent_framework import ChatContext, ChatMiddleware, ChatResponse, Content, Message

import refold
from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    Wire,
    check_version,
    definitions,
    thinking_options,
)

HOST, DIALECT = "agent-framework", "anthropic"


class RefoldMiddleware(ChatMiddleware):  # type: ignore[misc]
    """Folds the messages of every model call. `name` is the conversation of calls without a
    session; `settings` are those of `refold.open`: `model` (by default the agent's own), `window`,
    `writer`, …"""

    def __init__(self, *, name: str = "agent", store: Place = None, **settings: Any) -> None:
        check_version("agent-framework")
        self._guest = Guest(DIALECT, store, settings)
        self._unnamed = name

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        if (context.options or {}).get("conversation_id"):
            await call_next()  # the provider stores the history, and this is only its end
            return
        own = context.kwargs.get("compaction_strategy")
        managers = (own, getattr(context.client, "compaction_strategy", None))
        self._guest.warn_of(type(one).__name__ for one in managers if one is not None)
        sent = await asyncio.to_thread(self._folded, context)
        context.messages = apart(sent.shown)
        await call_next()

        async def take(response: ChatResponse[Any]) -> None:
            await asyncio.to_thread(self._guest.take, sent, partial(_answered, response))

        if isinstance(context.result, ChatResponse):
            await take(context.result)
        elif context.result is not None:  # a stream, which is taken at its end
            context.result.with_result_hook(take)

    def close(self) -> None:
        """Closes the conversations, and the store if it was opened here."""
        self._guest.close()

    def _folded(self, context: ChatContext) -> Sent[Message]:
        options = context.options or {}
        session = context.session.session_id if context.session else self._unnamed
        return self._guest.fold(
            f"{HOST}/{session}",
            context.messages,
            to_wire,
            from_wire,
            model=options.get("model") or getattr(context.client, "model", None),
            system=options.get("instructions"),
            tools=definitions(options.get("tools") or (), _tool),
            options=thinking_options(options),
        )


def _tool(tool: Any) -> Wire:
    schema = tool.parameters()
    return {"name": tool.name, "description": tool.description or "", "input_schema": schema}


def _answered(response: ChatResponse[Any]) -> Answered:
    answers = [to_wire(message) for message in response.messages if message.contents]
    counts = response.usage_details or {}
    if not counts.get("input_token_count"):
        return answers, None
    return answers, refold.Usage(
        input=counts["input_token_count"],
        output=counts.get("output_token_count") or 0,
        cache_read=counts.get("cache_read_input_token_count") or 0,
        cache_write=counts.get("cache_creation_input_token_count") or 0,
    )


# --- messages in Anthropic's form ---

OTHER = "agent-framework"  # the type of blocks that Anthropic's form lacks
_ROLES = {"assistant": "assistant", "system": "system", "developer": "system"}


def to_wire(message: Message) -> Wire:
    """A message of the framework in Anthropic's form."""
    role = _ROLES.get(str(message.role), "user")
    blocks = [_block(content) for content in message.contents] or [_text("(nothing)")]
    return {"role": role, "content": blocks}


def from_wire(message: Wire) -> Message:
    """A message in Anthropic's form as one of the framework."""
    content = message["content"]
    blocks = [_text(content)] if isinstance(content, str) else content
    is_result = any(block["type"] == "tool_result" for block in blocks)
    return Message("tool" if is_result else message["role"], [_own(block) for block in blocks])


def apart(messages: Iterable[Message]) -> list[Message]:
    """The messages, with other content moved out of tool messages: the framework's role `tool` is
    for results alone."""
    separated: list[Message] = []
    for message in messages:
        is_tool = isinstance(message, Message) and message.role == "tool"
        contents = message.contents if is_tool else []
        others = [content for content in contents if content.type != "function_result"]
        if others:
            results = [content for content in contents if content.type == "function_result"]
            separated += [Message("tool", results), Message("user", others)]
        else:
            separated.append(message)
    return separated


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _block(content: Any) -> Wire:
    match content.type:
        case "text":
            return _text(content.text)
        case "function_call":
            call = {"id": content.call_id, "name": content.name}
            return {"type": "tool_use", **call, "input": content.parse_arguments() or {}}
        case "function_result":
            parts = [_block(item) for item in content.items or ()]
            result = {"type": "tool_result", "tool_use_id": content.call_id, "content": parts}
            return {**result, "is_error": True} if content.exception else result
        case _:
            return {"type": OTHER, "content": content.to_dict()}


def _own(block: Wire) -> Any:
    match block["type"]:
        case "text":
            return Content.from_text(block["text"])
        case "tool_use":
            return Content.from_function_call(block["id"], block["name"], arguments=block["input"])
        case "tool_result":
            content = block.get("content") or ""
            parts = [_text(content)] if isinstance(content, str) else content
            failed = "it failed" if block.get("is_error") else None
            return Content.from_function_result(
                block["tool_use_id"], result=[_own(part) for part in parts], exception=failed
            )
        case _:
            return Content.from_dict(block["content"])
