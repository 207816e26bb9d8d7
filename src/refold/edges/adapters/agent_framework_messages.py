"""Messages of Microsoft's Agent Framework in Anthropic's form, and back.

Texts, calls and results have a place in both; a message of results is one there, because it may
hold several. Whatever else a content is travels as it is, in a block of its own kind that only this
module reads. Neighbour: `agent_framework`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent_framework import Content, Message

from refold.edges.adapters.folding import Wire

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
