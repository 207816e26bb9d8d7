"""Parsing of Anthropic Messages: wire messages, blocks and responses.

Results in a user message make it a `tool` message if it has nothing else; a part of an unknown type
becomes an opaque block. Neighbours: `render` is the way out, `original_form` keeps unusual shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from refold.core.model import (
    Block,
    Media,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from refold.dialects import MARKED
from refold.dialects.anthropic.render import ELSEWHERE, NAME, own_part, usual
from refold.dialects.input import (
    MARKS,
    checked_message,
    count_in,
    marks_in,
    plain,
    refused,
    role_of,
    text_in,
)
from refold.dialects.original_form import Usual, content_blocks, message_of, placed_content
from refold.dialects.protocol import Reply
from refold.dialects.wire import Same, equality, is_text_part, objects_in

_USUAL = Usual(NAME, usual, own_part)
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    ELSEWHERE: "system",
}
_PARTS = frozenset({
    "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use",
    "mcp_tool_result", "mcp_tool_listing", "container_upload", "compaction", "fallback",
    "tool_addition", "tool_removal", "search_result",
})  # fmt: skip


# --- which dialect ---


def recognizes(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape unique to this dialect. Calls outside the content belong to
    another dialect, whatever the content is: LangChain leaves Anthropic's thinking there."""
    if message.get("tool_calls"):
        return False
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(kind, str):
            continue
        if kind in _PARTS or kind.endswith("_tool_result") or MARKS[0] in part:
            return True
        if kind in ("image", "document") and "source" in part:
            return True
    return False


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a response of the Messages API."""
    if response.get("type") != "message" or response.get("role") != "assistant":
        return False
    return isinstance(response.get("content"), list | None) and "content" in response


# --- parse ---


def parse(message: Any) -> list[Message]:
    """A wire message as messages."""
    wire = plain(message)
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    marks = marks_in(wire)
    parsed = parse_plain(checked_message(wire), equality(message))
    if marks:
        parsed = replace(parsed, metadata={**parsed.metadata, MARKED: marks})
    return [parsed]


def parse_plain(wire: dict[str, Any], same: Same) -> Message:
    """A plain wire message with a role."""
    role = role_of(wire, _ROLES)
    placed = placed_content(wire.get("content"), ("content",), _block, role, "blocks")
    if placed and all(type(block) is ToolResult for _, block in placed):
        role = "tool"
    return message_of(role, wire, placed, _USUAL, same)


def _block(part: Any) -> Block:
    kind = part.get("type") if type(part) is dict else None
    if kind == "tool_use":
        id, tool, arguments = text_in(part, "id"), part.get("name"), part.get("input")
        if not id or not isinstance(tool, str) or not isinstance(arguments, dict | str):
            accepted = "a block with an id, a name and an input object"
            raise refused("a tool_use block", part, accepted)
        return ToolCall(id, tool, arguments)
    if kind == "tool_result":
        return _result(part)
    if kind == "thinking" and type(part.get("thinking")) is str:
        return Thinking(part["thinking"], text_in(part, "signature"))
    if kind == "redacted_thinking" and type(part.get("data")) is str:
        return Thinking(data=part["data"])
    return _part(part)


def _part(part: Any) -> Text | Media | Opaque:
    """A block that is also allowed inside a result."""
    if is_text_part(part):
        return Text(part["text"])
    if type(part) is not dict or not isinstance(part.get("type"), str):
        accepted = "an object with a type, such as text or tool_use,"
        raise refused("a block of the content", part, accepted)
    kind, title = part["type"], text_in(part, "title")
    match part.get("source") if kind in ("image", "document") else None:
        case {"type": "base64", "data": str(base64), **source}:
            return Media(kind, mime=text_in(source, "media_type"), data=base64, name=title)
        case {"type": "url", "url": str(url)}:
            return Media(kind, url=url, name=title)
        case {"type": "file", "file_id": str(file)}:
            return Media(kind, file=file, name=title)
        case _:
            return Opaque(raw=part)


def _result(part: dict[str, Any]) -> ToolResult:
    call = part.get("tool_use_id")
    if not isinstance(call, str) or not call:
        raise refused("the tool_use_id of a tool_result", call, "the id of the call it answers")
    content = content_blocks(part.get("content"), _part)
    if content is None:
        accepted = "text or a list of blocks"
        raise refused("the content of a tool_result", part["content"], accepted)
    return ToolResult(call, content, is_error=part.get("is_error") is True)


# --- reply ---


def reply(response: Any) -> Reply:
    """The reply in a response, or in a bare assistant message."""
    wire = plain(response)
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    content = [] if wire["content"] is None else wire["content"]
    answer = checked_message({"role": "assistant", "content": content})
    message = parse_plain(answer, equality(response))
    return Reply(message=message, usage=usage_of(wire), finished=text_in(wire, "stop_reason"))


def usage_of(response: dict[str, Any]) -> Usage | None:
    """The usage of a response. `input_tokens` excludes cached tokens, which have separate counts.
    If the server looped, its last `message` iteration gives the size of the context."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    iterations = objects_in(usage.get("iterations"))
    messages = [entry for entry in iterations if entry.get("type") == "message"]
    last = messages[-1] if messages else usage
    cache_read = count_in(last, "cache_read_input_tokens")
    cache_write = count_in(last, "cache_creation_input_tokens")
    creation = last.get("cache_creation") or usage.get("cache_creation")
    written_1h = count_in(creation, "ephemeral_1h_input_tokens")
    return Usage(
        response=text_in(response, "id"),
        model=text_in(response, "model"),
        input=count_in(last, "input_tokens") + cache_read + cache_write,
        output=count_in(usage, "output_tokens"),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=count_in(usage.get("output_tokens_details"), "thinking_tokens"),
        cache_write_1h=min(written_1h, cache_write),
    )
