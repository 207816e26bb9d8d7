"""Anthropic Messages: blocks in user and assistant messages, the system prompt and the tools beside
them.

Results come inside user messages; a message of nothing but results is a `tool` message for us.
Blocks that we do not know (server tools, compaction, whatever comes next) are carried untouched.
Neighbours: `anthropic_render` is the way out, `anthropic_check` the provider's own view of a
request, `form` keeps what is unusual, `tools` translates tool definitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
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
from refold.dialects import definitions
from refold.dialects.anthropic.check import check as check
from refold.dialects.anthropic.ids import distinct
from refold.dialects.anthropic.render import ELSEWHERE, NAME, own_part, usual
from refold.dialects.anthropic.render import render as render
from refold.dialects.foreign import as_system, leading, said_by_system
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
    report,
    role_of,
    same,
    text_in,
)

name = NAME
_SPEECH = Speech(NAME, usual, own_part)

MARKS_MAX = 4
_SYSTEM = ("system", ELSEWHERE)
_ROLE = itemgetter("role")
_MARK = {"type": "ephemeral"}
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
            return [Message(role=role, blocks=(Text(content),), dialect=name)]
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


# --- request ---


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. With marks, the system prompt (or the tools) and the
    marked messages, newest first, end cacheable prefixes, four in all; marks that were given
    with system and tools give way. System messages that lead the page stand behind the system
    prompt."""
    defined = definitions.for_anthropic(tools, lost, unmarked=bool(marks))
    lead = leading(messages, _SYSTEM)
    prompt = _prompt(system, messages[:lead], unmarked=bool(marks))
    room = MARKS_MAX
    if marks and (prompt or defined):
        prompt, defined = (
            (_marked_prompt(prompt), defined) if prompt else (prompt, _marked_last(defined))
        )
        room -= 1
    kwargs: dict[str, Any] = {"system": prompt} if prompt else {}
    kwargs["messages"] = _marked(
        distinct(_begun(messages[lead:], lost)), [mark - lead for mark in marks], room
    )
    return {**kwargs, "tools": defined} if defined else kwargs


def _begun(messages: list[dict[str, Any]], lost: list[str]) -> list[dict[str, Any]]:
    """The messages, a user first: what another provider's system says among them, or the system
    alone, is said by the user. Reports an end that is no user's."""
    if messages and messages[-1]["role"] == "assistant":
        report(
            lost, "the conversation ends with the assistant: a prefill, which newer models refuse"
        )
    by_user = _SYSTEM if messages and messages[0]["role"] in _SYSTEM else (ELSEWHERE,)
    if not any(role in map(_ROLE, messages) for role in by_user):
        return messages
    return [
        {"role": "user", "content": as_system(_said(message))}
        if message["role"] in by_user
        else message
        for message in messages
    ]


def _said(message: dict[str, Any]) -> str:
    """What a system message on the wire says."""
    return said_by_system(_parsed({**message, "role": "system"}, same))


def _prompt(
    system: Any, said: Sequence[dict[str, Any]], *, unmarked: bool
) -> str | list[dict[str, Any]]:
    """The system prompt as it was given, and each system message that leads the page as a block
    behind it."""
    if isinstance(system, str) and not said:
        return system if system.strip() else ""
    return definitions.text_blocks([system, *map(_said, said)], unmarked=unmarked)


def _marked_prompt(prompt: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return _marked_last([{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt)


def _marked_last(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*entries[:-1], {**entries[-1], MARKS[0]: dict(_MARK)}]


def _marked(
    messages: list[dict[str, Any]], marks: Sequence[int], room: int
) -> list[dict[str, Any]]:
    marked = list(messages)
    for index in sorted(set(marks), reverse=True):
        if room and 0 <= index < len(marked):
            message = _marked_message(marked[index])
            room -= message is not None
            marked[index] = message or marked[index]
    return marked


def _marked_message(message: dict[str, Any]) -> dict[str, Any] | None:
    """The message with a mark on its last block that may carry one; None if there is no such
    block."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for index in reversed(range(len(blocks))):
        if _is_markable(blocks[index]):
            blocks[index] = {**blocks[index], MARKS[0]: dict(_MARK)}
            return {**message, "content": blocks}
    return None


def _is_markable(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return kind not in ("thinking", "redacted_thinking") and (
        kind != "text" or bool(block.get("text"))
    )
