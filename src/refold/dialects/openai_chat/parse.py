"""OpenAI Chat Completions, and the many servers that speak it.

Results are messages of their own (`tool`), arguments are text, reasoning of compatible servers
stands beside the content. Calls may also come in the simple shape {id, name, arguments}, and go
back in it. Neighbours: `openai_chat_render` is the way out, `openai_chat_check` the provider's own
view of a request, `form` keeps what is unusual, `tools` translates tool definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.core.model import (
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
from refold.dialects.form import Found, Same, Speech, message_of
from refold.dialects.openai_chat.render import NAME, own_part, usual
from refold.dialects.protocol import Reply
from refold.dialects.wire import (
    MARKS,
    alike,
    count_in,
    is_json,
    media_of_url,
    opened,
    plain,
    refused,
    role_of,
    same,
    text_in,
)

_SPEECH = Speech(NAME, usual, own_part)

_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "function": "user",
}  # fmt: skip
_KEYS = frozenset(
    {
        "tool_calls",
        "tool_call_id",
        "function_call",
        "refusal",
        "reasoning_content",
        "reasoning_details",
    }
)
_PARTS = ("image_url", "input_audio", "file", "refusal")
# Where a call has its name and its arguments; the last is the simple shape, without a wrapper.
_CALLS = (("function", "arguments"), ("custom", "input"), ("", "arguments"))
_CALL_KEYS = frozenset({"function", "custom", "name"})
_REASONING = ("reasoning_content", "reasoning")


# --- parse ---


def speaks(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape that only this dialect has."""
    if message.get("role") in ("tool", "developer", "function") or not _KEYS.isdisjoint(message):
        return True
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(part, Mapping) and (part.get("type") in _PARTS or MARKS[1] in part)
        for part in content
    )


def parse(message: Any) -> list[Message]:
    """A wire message as messages; plain text takes the short way."""
    if type(message) is dict and len(message) == 2 and next(iter(message)) == "role":
        content, role = message.get("content"), message["role"]
        if type(content) is str and role in ("user", "assistant", "system"):
            return [Message(role=role, blocks=(Text(content),), dialect=NAME)]
    wire = plain(message)
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    return [_parsed(opened(wire), same if is_json(message) else alike)]


def _parsed(wire: dict[str, Any], same: Same) -> Message:
    role = role_of(wire, _ROLES)
    found: Found = []
    if role == "tool":
        found.append(((), _result(wire)))
    elif role == "assistant":
        _find_answer(wire, found)
    else:
        _find_content(wire, found)
    return message_of(role, wire, found, _SPEECH, same)


def _find_answer(wire: dict[str, Any], found: Found) -> None:
    for key in _REASONING:
        if key in wire and type(wire[key]) is str and wire[key]:
            found.append(((key,), Thinking(wire[key])))
            break
    if wire.get("content") is not None:
        _find_content(wire, found)
    if type(wire.get("refusal")) is str and wire["refusal"]:
        found.append((("refusal",), Text(wire["refusal"])))
    if type(wire.get("function_call")) is dict:
        found.append((("function_call",), _legacy_call(wire["function_call"])))
    calls = wire.get("tool_calls") or []
    if type(calls) is not list:
        raise refused("tool_calls", calls, "a list of calls")
    for index, call in enumerate(calls):
        found.append((("tool_calls", index), _call(call)))


def _find_content(wire: dict[str, Any], found: Found) -> None:
    content = wire.get("content")
    if isinstance(content, str):
        found.append((("content",), Text(content)))
    elif isinstance(content, list):
        for index, part in enumerate(content):
            found.append((("content", index), _part(part)))
    else:
        raise refused(
            f"the content of the {wire['role']} message", content, "text or a list of parts"
        )


def _part(part: Any) -> Text | Media | Opaque:
    if type(part) is dict and part.get("type") == "text" and type(part.get("text")) is str:
        return Text(part["text"])
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
            return media_of_url("image", url, detail=text_in(rest, "detail"))
        case {"type": "input_audio", "input_audio": {"data": str(data), **rest}}:
            return Media("audio", mime=f"audio/{text_in(rest, 'format')}", data=data)
        case {"type": "file", "file": {"file_data": str(url), **rest}}:
            return media_of_url("document", url, name=text_in(rest, "filename"))
        case {"type": "file", "file": {"file_id": str(file), **rest}}:
            return Media("document", file=file, name=text_in(rest, "filename"))
        case {"type": str()}:
            return Opaque(raw=part)
        case _:
            raise refused(
                "a part of the content", part, "an object with a type, such as text or image_url,"
            )


def _call(call: Any) -> ToolCall | Opaque:
    if type(call) is not dict or type(call.get("id")) is not str or not call["id"]:
        raise refused("a tool call", call, "an object with an id and a function (or name)")
    for key, arguments in _CALLS:
        called = call.get(key) if key else call
        if type(called) is dict and type(called.get("name")) is str:
            return ToolCall(call["id"], called["name"], _arguments(called.get(arguments)))
    if type(call.get("type")) is not str or not _CALL_KEYS.isdisjoint(call):
        raise refused("a tool call", call, "an object with an id and a function (or name)")
    return Opaque(raw=call)


def _arguments(value: Any) -> str | dict[str, Any]:
    if value is None:
        return ""
    if not isinstance(value, str | dict):
        raise refused("the arguments of a tool call", value, "JSON text or an object")
    return value


def _legacy_call(call: dict[str, Any]) -> Opaque:
    return Opaque(raw=call, text=f"{call.get('name')}({call.get('arguments')})")


def _result(wire: dict[str, Any]) -> ToolResult:
    call = wire.get("tool_call_id")
    if not isinstance(call, str) or not call:
        raise refused("the tool_call_id of a tool message", call, "the id of the call it answers")
    found: Found = []
    _find_content(wire, found)
    content: Any = tuple(part for _, part in found)
    return ToolResult(
        call, content, is_error=wire.get("is_error") is True, name=text_in(wire, "name")
    )


# --- reply ---


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a chat completion."""
    return isinstance(response.get("choices"), list)


def reply(response: Any) -> Reply:
    """A chat completion taken apart (its first choice), or a bare assistant message."""
    wire = plain(response)
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    choice = wire["choices"][0] if wire["choices"] else None
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        raise refused("the first choice", choice, "a finished chat completion with a message")
    said = (
        choice["message"]
        if "role" in choice["message"]
        else {"role": "assistant", **choice["message"]}
    )
    message = _parsed(opened(said), same if type(response) is dict else alike)
    return Reply(message=message, usage=_usage(wire), finished=text_in(choice, "finish_reason"))


def _usage(response: dict[str, Any]) -> Usage | None:
    """What was billed. `prompt_tokens` already counts what came from the cache."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    read, written = (
        usage.get("prompt_tokens_details") or {},
        usage.get("completion_tokens_details") or {},
    )
    return Usage(
        response=text_in(response, "id"),
        model=text_in(response, "model"),
        input=count_in(usage, "prompt_tokens"),
        output=count_in(usage, "completion_tokens"),
        cache_read=count_in(read, "cached_tokens") or count_in(usage, "prompt_cache_hit_tokens"),
        cache_write=count_in(read, "cache_write_tokens"),
        reasoning=count_in(written, "reasoning_tokens"),
    )
