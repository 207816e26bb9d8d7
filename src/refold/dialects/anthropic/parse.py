"""Anthropic Messages: blocks in user and assistant messages, the system prompt and the tools beside
them.

Results come inside user messages; a message of nothing but results is a `tool` message for us.
Blocks that we do not know (server tools, compaction, whatever comes next) are carried untouched.
Neighbours: `anthropic_render` is the way out, `anthropic_check` the provider's own view of a
request, `form` keeps what is unusual, `tools` translates tool definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from refold.dialects.anthropic.render import ELSEWHERE, NAME, own_part, usual
from refold.dialects.form import Found, Same, Speech, message_of
from refold.dialects.protocol import Reply
from refold.dialects.wire import (
    MARKS,
    alike,
    count_in,
    is_json,
    opened,
    plain,
    refused,
    role_of,
    same,
    text_in,
)

_SPEECH = Speech(NAME, usual, own_part)

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    ELSEWHERE: "system",
}
_PARTS = frozenset({
    "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_result",
    "mcp_tool_listing", "container_upload", "compaction", "fallback", "tool_addition", "tool_removal",
})  # fmt: skip


# --- parse ---


def speaks(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape that only this dialect has."""
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(part, Mapping) and _is_ours(part) for part in content
    )


def _is_ours(part: Mapping[str, Any]) -> bool:
    kind = part.get("type")
    if not isinstance(kind, str):
        return False
    typed = kind in _PARTS or kind.endswith("_tool_result") or MARKS[0] in part
    return typed or (kind in ("image", "document") and "source" in part)


def parse(message: Any) -> list[Message]:
    """A wire message as messages; plain text takes the short way."""
    if type(message) is dict and len(message) == 2 and next(iter(message)) == "role":
        content, role = message.get("content"), message["role"]
        if type(content) is str and role in ("user", "system"):
            return [Message(role=role, blocks=(Text(content),), dialect=NAME)]
    wire = plain(message)
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    return [_parsed(opened(wire), same if is_json(message) else alike)]


def _parsed(wire: dict[str, Any], same: Same) -> Message:
    role = role_of(wire, _ROLES)
    content = wire.get("content")
    found: Found = []
    if isinstance(content, str):
        found.append((("content",), Text(content)))
    elif isinstance(content, list):
        for index, part in enumerate(content):
            found.append((("content", index), _block(part)))
    else:
        raise refused(f"the content of the {role} message", content, "text or a list of blocks")
    if found and all(type(block) is ToolResult for _, block in found):
        role = "tool"
    return message_of(role, wire, found, _SPEECH, same)


def _block(part: Any) -> Block:
    kind = part.get("type") if type(part) is dict else None
    if kind == "tool_use":
        return _call(part)
    if kind == "tool_result":
        return _result(part)
    if kind == "thinking" and type(part.get("thinking")) is str:
        return Thinking(part["thinking"], text_in(part, "signature"))
    if kind == "redacted_thinking" and type(part.get("data")) is str:
        return Thinking(data=part["data"])
    return _part(part)


def _part(part: Any) -> Text | Media | Opaque:
    if type(part) is dict and part.get("type") == "text" and type(part.get("text")) is str:
        return Text(part["text"])
    match part:
        case {
            "type": "image" | "document" as kind,
            "source": {"type": "base64", "data": str(base64), **source},
        }:
            return Media(
                kind, mime=text_in(source, "media_type"), data=base64, name=text_in(part, "title")
            )
        case {"type": "image" | "document" as kind, "source": {"type": "url", "url": str(url)}}:
            return Media(kind, url=url, name=text_in(part, "title"))
        case {
            "type": "image" | "document" as kind,
            "source": {"type": "file", "file_id": str(file)},
        }:
            return Media(kind, file=file, name=text_in(part, "title"))
        case {"type": str()}:
            return Opaque(raw=part)
        case _:
            raise refused(
                "a block of the content", part, "an object with a type, such as text or tool_use,"
            )


def _call(part: dict[str, Any]) -> ToolCall:
    id, tool, arguments = part.get("id"), part.get("name"), part.get("input")
    if (
        type(id) is not str
        or not id
        or type(tool) is not str
        or not isinstance(arguments, dict | str)
    ):
        raise refused("a tool_use block", part, "a block with an id, a name and an input object")
    return ToolCall(id, tool, arguments)


def _result(part: dict[str, Any]) -> ToolResult:
    call, content = part.get("tool_use_id"), part.get("content")
    if not isinstance(call, str) or not call:
        raise refused("the tool_use_id of a tool_result", call, "the id of the call it answers")
    failed = part.get("is_error") is True
    if content is None:
        return ToolResult(call, is_error=failed)
    if isinstance(content, str):
        return ToolResult(call, (Text(content),), is_error=failed)
    if isinstance(content, list):
        return ToolResult(call, tuple(map(_part, content)), is_error=failed)
    raise refused("the content of a tool_result", content, "text or a list of blocks")


# --- reply ---


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a response of the Messages API."""
    return (
        response.get("type") == "message"
        and "content" in response
        and response.get("role") == "assistant"
    )


def reply(response: Any) -> Reply:
    """A response taken apart, or a bare assistant message."""
    wire = plain(response)
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    content = wire["content"] if wire["content"] is not None else []
    message = _parsed(
        opened({"role": "assistant", "content": content}), same if is_json(response) else alike
    )
    return Reply(message=message, usage=_usage(wire), finished=text_in(wire, "stop_reason"))


def _usage(response: dict[str, Any]) -> Usage | None:
    """What was billed. `input_tokens` is only what no cache had; the rest is counted beside it.
    Where the server looped, the last `message` iteration says how large the context is."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    read = _last_iteration(usage)
    cache_read, cache_write = (
        count_in(read, "cache_read_input_tokens"),
        count_in(read, "cache_creation_input_tokens"),
    )
    return Usage(
        response=text_in(response, "id"),
        model=text_in(response, "model"),
        input=count_in(read, "input_tokens") + cache_read + cache_write,
        output=count_in(usage, "output_tokens"),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=count_in(usage.get("output_tokens_details"), "thinking_tokens"),
    )


def _last_iteration(usage: dict[str, Any]) -> dict[str, Any]:
    iterations = usage.get("iterations")
    typed = (
        [each for each in iterations if isinstance(each, dict)]
        if isinstance(iterations, list)
        else []
    )
    return next((each for each in reversed(typed) if each.get("type") == "message"), usage)
