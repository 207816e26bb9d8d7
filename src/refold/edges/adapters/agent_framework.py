"""Microsoft's Agent Framework: a chat middleware that keeps the model's page small.

    agent = Agent(client=client, tools=tools, middleware=[RefoldMiddleware(store="sqlite:work.db")])

The session keeps every message; only what a call sends is folded. A session is a conversation: the
one of its `session_id`, or the name that the middleware was given. Unfolded messages are sent as
the very objects. A history that the provider holds passes untouched. Neighbours: `guest`,
`agent_framework_messages`.

Messages of Microsoft's Agent Framework in Anthropic's form, and back.

Texts, calls and results have a place in both; a message of results is one there, because it may
hold several. Whatever else a content is travels as it is, in a block of its own kind that only this
module reads. Neighbour: `agent_framework`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any

from agent_framework import ChatContext, ChatMiddleware, ChatResponse, Content, Message

import refold
from refold.edges.adapters.guest import Answered, Guest, Place, Sent, Wire, definitions

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
        """Closes the conversations, and the store if it was opened here."""
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
    """The usage of the call; None if it is unknown."""
    billed = response.usage_details or {}
    if not billed.get("input_token_count"):
        return None
    return refold.Usage(
        input=billed["input_token_count"],
        output=billed.get("output_token_count") or 0,
        cache_read=billed.get("cache_read_input_token_count") or 0,
        cache_write=billed.get("cache_creation_input_token_count") or 0,
    )


OTHER = "agent-framework"  # the kind of a block that has no place in the other form
_ROLES = {"assistant": "assistant", "system": "system", "developer": "system"}


def to_wire(message: Message) -> Wire:
    """A message of the framework as one of Anthropic's."""
    role = _ROLES.get(str(message.role), "user")
    blocks = [_block(one) for one in message.contents] or [_text("(nothing)")]
    return {"role": role, "content": blocks}


def from_wire(message: Wire) -> Message:
    """The way back."""
    content = message["content"]
    blocks = [_text(content)] if isinstance(content, str) else content
    is_result = any(block["type"] == "tool_result" for block in blocks)
    return Message("tool" if is_result else message["role"], [_own(block) for block in blocks])


def apart(messages: Iterable[Message]) -> list[Message]:
    """The messages, what stands beside results in a message of its own: the framework has a role
    for results alone."""
    return [part for message in messages for part in _parted(message)]


def _parted(message: Message) -> Iterator[Message]:
    if not isinstance(message, Message) or message.role != "tool":
        yield message
        return
    results = [one for one in message.contents if one.type == "function_result"]
    others = [one for one in message.contents if one.type != "function_result"]
    if not others:
        yield message
        return
    yield Message("tool", results)
    yield Message("user", others)


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
            parts = [_block(one) for one in content.items or ()]
            given = {"type": "tool_result", "tool_use_id": content.call_id, "content": parts}
            return {**given, "is_error": True} if content.exception else given
        case _:
            return {"type": OTHER, "content": content.to_dict()}


def _own(block: Wire) -> Any:
    match block["type"]:
        case "text":
            return Content.from_text(block["text"])
        case "tool_use":
            return Content.from_function_call(block["id"], block["name"], arguments=block["input"])
        case "tool_result":
            return _result(block)
        case _:
            return Content.from_dict(block["content"])


def _result(block: Wire) -> Any:
    content = block.get("content") or ""
    parts = [_text(content)] if isinstance(content, str) else content
    failed = "it failed" if block.get("is_error") else None
    return Content.from_function_result(
        block["tool_use_id"], result=[_own(part) for part in parts], exception=failed
    )
