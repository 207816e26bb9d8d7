"""Parsing of OpenAI Chat Completions: messages, calls and responses.

Results inside their calls become separate messages, because no provider accepts them there.
Neighbours: `render` is the way out, `original_form` keeps unusual shapes.
"""

from __future__ import annotations

import json
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
from refold.dialects.input import MARKS, checked_message, count_in, plain, refused, role_of, text_in
from refold.dialects.openai_chat.render import NAME, own_part, usual
from refold.dialects.original_form import Placed, Usual, message_of, placed_content
from refold.dialects.protocol import Reply
from refold.dialects.wire import (
    Same,
    alike,
    at,
    equality,
    is_text_part,
    media_of_url,
    objects_in,
    same,
)

_USUAL = Usual(NAME, usual, own_part)
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "user",
}
_KEYS = frozenset({
    "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content",
    "reasoning_details", "thinking_blocks",
})  # fmt: skip
_ITEM_PARTS = ("input_text", "output_text", "input_image", "input_file")
_PARTS = (
    "image_url", "input_audio", "file", "refusal", "reasoning", "reasoning_content", "non_standard",
)  # fmt: skip
# Keys of a call's wrapper and of its arguments; the last is the simple shape, without a wrapper.
_CALLS = (("function", "arguments"), ("custom", "input"), ("", "arguments"))
_KINDS = ("function", "custom")
_CALL_KEYS = frozenset({"function", "custom", "name"})
_REASONING = ("reasoning_content", "reasoning")
# Lists of thinking with signatures: LiteLLM's and OpenRouter's.
_SIGNED = ("thinking_blocks", "reasoning_details")
_THINKING = frozenset({*_REASONING, *_SIGNED})
# Parts of an answer that are thinking: LangChain's standard content, and Bedrock's.
_THINKING_PARTS = ("reasoning", "reasoning_content", "thinking", "redacted_thinking")
_THOUGHT = ("thinking", "reasoning", "text", "summary")
_SEALED = ("data", "encrypted_content", "redacted_content")


# --- which dialect ---


def recognizes(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape unique to this dialect."""
    if not _KEYS.isdisjoint(message):
        return True
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    objects = [part for part in parts if isinstance(part, Mapping)]
    # OpenAI's other interface has developers and refusals too.
    is_item = message.get("type") == "message"
    if is_item or any(part.get("type") in _ITEM_PARTS for part in objects):
        return False
    if message.get("role") in ("tool", "developer", "function"):
        return True
    return any(part.get("type") in _PARTS or MARKS[1] in part for part in objects)


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a chat completion."""
    return isinstance(response.get("choices"), list)


# --- parse ---


def parse(message: Any) -> list[Message]:
    """A wire message as messages: itself, then the results inside its calls."""
    wire = plain(message)
    if isinstance(wire, dict) and is_response(wire):
        answer = reply(message)
        return [answer.message, *answer.results]
    checked = checked_message(wire)
    results = _take_results(checked)
    return [_parse_plain(checked, equality(message)), *results]


def _take_results(wire: dict[str, Any]) -> list[Message]:
    """Removes the results from the calls of a message and returns them as messages; a result that
    is not text becomes JSON."""
    if wire["role"] != "assistant":
        return []
    calls = [call for call in objects_in(wire.get("tool_calls")) if "result" in call]
    answers = [(call.get("id"), call.pop("result")) for call in calls]
    messages = []
    for id, result in answers:
        if result is not None:
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            answer = {"role": "tool", "tool_call_id": id, "content": text}
            messages.append(_parse_plain(answer, same))
    return messages


def _parse_plain(wire: dict[str, Any], same: Same) -> Message:
    role = role_of(wire, _ROLES)
    if role == "tool":
        placed: Placed = [((), _result(wire))]
    elif role == "assistant":
        placed = _placed_answer(wire)
    else:
        placed = _placed_content(wire)
    return message_of(role, wire, placed, _USUAL, same)


def _placed_content(wire: dict[str, Any]) -> Placed:
    read = _answer_part if wire["role"] == "assistant" else _part
    return placed_content(wire.get("content"), ("content",), read, wire["role"])


def _placed_answer(wire: dict[str, Any]) -> Placed:
    """The assistant's thinking, content and calls."""
    placed = _placed_reasoning(wire)
    if wire.get("content") is not None:
        placed += _placed_content(wire)
    if type(wire.get("refusal")) is str and wire["refusal"]:
        placed.append((("refusal",), Text(wire["refusal"])))
    legacy = wire.get("function_call")
    if type(legacy) is dict:
        text = f"{legacy.get('name')}({legacy.get('arguments')})"
        placed.append((("function_call",), Opaque(raw=legacy, text=text)))
    calls = wire.get("tool_calls") or []
    if type(calls) is not list:
        raise refused("tool_calls", calls, "a list of calls")
    for index, call in enumerate(calls):
        placed.append((("tool_calls", index), _call(call)))
    return placed


def _placed_reasoning(wire: dict[str, Any]) -> Placed:
    """The model's thinking: as text, and in the shapes that carry signatures."""
    if _THINKING.isdisjoint(wire):
        return []
    texts = [key for key in _REASONING if type(wire.get(key)) is str and wire[key]]
    placed: Placed = [((key,), Thinking(wire[key])) for key in texts[:1]]
    for key in _SIGNED:
        for index, part in enumerate(wire[key] if type(wire.get(key)) is list else []):
            thinking = _thinking(part) if type(part) is dict else Thinking()
            if thinking != Thinking():
                placed.append(((key, index), thinking))
    return placed


def _thinking(part: dict[str, Any]) -> Thinking:
    """The thinking in a part; empty if it has none."""
    nested = part.get("reasoning_content")
    fields = {**part, **at(part, ("extras",))} if type(part.get("extras")) is dict else part
    fields = nested if type(nested) is dict else fields
    text = next((fields[name] for name in _THOUGHT if type(fields.get(name)) is str), "")
    data = next((fields[name] for name in _SEALED if type(fields.get(name)) is str), "")
    return Thinking(text, text_in(fields, "signature"), data)


def _answer_part(part: Any) -> Text | Media | Opaque | Thinking:
    """A part of an answer; LangChain wraps anything that its standard content has no name for."""
    is_wrapped = at(part, ("type",)) == "non_standard"
    inner = at(part, ("value",)) if is_wrapped else part
    if type(inner) is dict and inner.get("type") in _THINKING_PARTS:
        thinking = _thinking(inner)
        if thinking != Thinking():
            return thinking
    return _part(part)


def _part(part: Any) -> Text | Media | Opaque:
    if is_text_part(part):
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
            accepted = "an object with a type, such as text or image_url,"
            raise refused("a part of the content", part, accepted)


def _call(call: Any) -> ToolCall | Opaque:
    accepted = "an object with an id and a function (or name)"
    if type(call) is not dict or type(call.get("id")) is not str or not call["id"]:
        raise refused("a tool call", call, accepted)
    for key, arguments in _CALLS:
        called = call.get(key) if key else call
        if type(called) is dict and type(called.get("name")) is str:
            value = "" if called.get(arguments) is None else called[arguments]
            if not isinstance(value, str | dict):
                raise refused("the arguments of a tool call", value, "JSON text or an object")
            return ToolCall(call["id"], called["name"], value)
    kind = call.get("type")
    if type(kind) is not str or kind in _KINDS or not _CALL_KEYS.isdisjoint(call):
        raise refused("a tool call", call, accepted)
    return Opaque(raw=call)


def _result(wire: dict[str, Any]) -> ToolResult:
    call = wire.get("tool_call_id")
    if not isinstance(call, str) or not call:
        raise refused("the tool_call_id of a tool message", call, "the id of the call it answers")
    is_empty = "content" in wire and wire["content"] is None
    content: Any = () if is_empty else tuple(part for _, part in _placed_content(wire))
    failed = wire.get("is_error") is True
    return ToolResult(call, content, is_error=failed, name=text_in(wire, "name"))


# --- reply ---


def reply(response: Any) -> Reply:
    """The reply in the first choice of a chat completion, or in a bare assistant message."""
    wire = plain(response)
    if not isinstance(wire, dict) or not is_response(wire):
        message, *results = parse(response)
        return Reply(message=message, usage=None, results=tuple(results))
    choice: Any = wire["choices"][0] if wire["choices"] else None
    answer = at(choice, ("message",))
    if not isinstance(answer, dict):
        raise refused("the first choice", choice, "a finished chat completion with a message")
    answer = checked_message(answer if "role" in answer else {"role": "assistant", **answer})
    results = _take_results(answer)
    message = _parse_plain(answer, same if type(response) is dict else alike)
    finished = text_in(choice, "finish_reason")
    return Reply(message=message, usage=usage_of(wire), finished=finished, results=tuple(results))


def usage_of(response: dict[str, Any]) -> Usage | None:
    """The usage of a response. `prompt_tokens` includes cached tokens."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    read = usage.get("prompt_tokens_details") or {}
    written = usage.get("completion_tokens_details") or {}
    return Usage(
        response=text_in(response, "id"),
        model=text_in(response, "model"),
        input=count_in(usage, "prompt_tokens"),
        output=count_in(usage, "completion_tokens"),
        cache_read=count_in(read, "cached_tokens") or count_in(usage, "prompt_cache_hit_tokens"),
        cache_write=count_in(read, "cache_write_tokens"),
        reasoning=count_in(written, "reasoning_tokens"),
    )
