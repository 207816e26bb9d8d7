"""What Chat Completions would refuse, read from the provider's side and written apart from `render`
and the laws.

Each fault names its place: "messages[3]: …". A call may also stand in the simple shape {id, name,
arguments}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTS: dict[str, dict[str, str]] = {
    "system": {"text": "text"},
    "developer": {"text": "text"},
    "user": {
        "text": "text",
        "image_url": "image_url",
        "input_audio": "input_audio",
        "file": "file",
    },
    "assistant": {"text": "text", "refusal": "refusal"},
    "tool": {"text": "text"},
    "function": {},
}
_FIELDS = {"image_url": ("url",), "input_audio": ("data", "format")}


def check(request: Mapping[str, Any]) -> list[str]:
    """Every fault that the provider would refuse the request for."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: not a list with at least one message"]
    faults = [
        f"messages[{i}]: {fault}"
        for i, message in enumerate(messages)
        for fault in _message_faults(message)
    ]
    faults += _pair_faults(messages)
    faults += _order_faults(messages)
    return [*faults, *_tool_faults(request)]


# --- one message ---


def _message_faults(message: Any) -> Iterator[str]:
    if not isinstance(message, dict):
        yield "not an object"
        return
    role = message.get("role")
    if not isinstance(role, str) or role not in _PARTS:
        yield f"unknown role {role!r}"
        return
    yield from _content_faults(role, message)
    if role == "assistant":
        yield from _call_faults(message)
    elif "tool_calls" in message:
        yield f"tool_calls in a {role} message"
    if role == "tool" and not _is_name(message.get("tool_call_id")):
        yield f"tool_call_id is {message.get('tool_call_id')!r}"


def _content_faults(role: str, message: dict[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        return
    if content is None:
        if role != "assistant" or not any(
            message.get(k) for k in ("tool_calls", "function_call", "refusal", "audio")
        ):
            yield "no content"
        return
    if not isinstance(content, list):
        yield f"content is {type(content).__name__}"
        return
    if not content:
        yield "empty content"
    for index, part in enumerate(content):
        yield from (f"content[{index}]: {fault}" for fault in _part_faults(role, part))


def _part_faults(role: str, part: Any) -> Iterator[str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in _PARTS[role]:
        yield f"a part of type {kind!r} in a {role} message"
        return
    value = part.get(_PARTS[role][kind])
    if kind in ("text", "refusal"):
        if not isinstance(value, str) or not value:
            yield f"{kind} is {value!r}"
    elif not isinstance(value, dict) or not all(
        _is_name(value.get(field)) for field in _FIELDS.get(kind, ())
    ):
        yield f"{kind} is incomplete"
    elif kind == "file" and not (value.get("file_data") or value.get("file_id")):
        yield "file has neither data nor id"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


# --- calls and results ---


def _call_faults(message: dict[str, Any]) -> Iterator[str]:
    if "tool_calls" not in message or message["tool_calls"] is None:
        return
    calls = message["tool_calls"]
    if not isinstance(calls, list) or not calls:
        yield "tool_calls is not a list with at least one call"
        return
    seen: set[Any] = set()
    for index, call in enumerate(calls):
        yield from (f"tool_calls[{index}]: {fault}" for fault in _one_call_faults(call))
        id = call.get("id") if isinstance(call, dict) else None
        if _is_name(id) and id in seen:
            yield f"tool_calls[{index}]: a second call with the id {id!r}"
        seen.add(id if _is_name(id) else None)


def _one_call_faults(call: Any) -> Iterator[str]:
    if not isinstance(call, dict):
        yield "not an object"
        return
    if not _is_name(call.get("id")):
        yield f"id is {call.get('id')!r}"
    kind = call.get("type")
    if kind is None and "name" in call:
        yield from _named_faults(call, "arguments", (str, dict))
    elif kind == "function" and isinstance(call.get("function"), dict):
        yield from _named_faults(call["function"], "arguments", (str,))
    elif kind == "custom" and isinstance(call.get("custom"), dict):
        yield from _named_faults(call["custom"], "input", (str,))
    else:
        yield f"a call of type {kind!r} without its function"


def _named_faults(called: dict[str, Any], field: str, types: tuple[type, ...]) -> Iterator[str]:
    if not _is_name(called.get("name")):
        yield f"name is {called.get('name')!r}"
    if not isinstance(called.get(field), types):
        yield f"{field} is {type(called.get(field)).__name__}"


def _pair_faults(messages: list[Any]) -> Iterator[str]:
    """Every call is answered, once, before anything else is said; nothing else is answered."""
    waiting: list[str] = []
    answered: list[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        if message.get("role") == "tool":
            id = message.get("tool_call_id")
            if id in waiting:
                waiting.remove(id)
                answered.append(id)
            else:
                yield f"messages[{index}]: a {'second' if id in answered else 'stray'} result for {id!r}"
            continue
        yield from (f"messages[{index}]: the call {id!r} before it has no result" for id in waiting)
        waiting, answered = _call_ids(message), []
    yield from (f"messages: the call {id!r} has no result" for id in waiting)


def _call_ids(message: dict[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    found = (
        [call.get("id") for call in calls if isinstance(call, dict)]
        if isinstance(calls, list)
        else []
    )
    return list(dict.fromkeys(id for id in found if isinstance(id, str)))


def _order_faults(messages: list[Any]) -> Iterator[str]:
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            return
        if role == "assistant":
            yield f"messages[{index}]: an assistant message before any user message"
            return


# --- tools ---


def _tool_faults(request: Mapping[str, Any]) -> Iterator[str]:
    if "tools" not in request:
        return
    tools = request["tools"]
    if not isinstance(tools, list) or not tools:
        yield "tools: not a list with at least one tool"
        return
    for index, tool in enumerate(tools):
        kind = tool.get("type") if isinstance(tool, dict) else None
        defined = tool.get(kind) if kind in ("function", "custom") else None
        if not isinstance(defined, dict):
            yield f"tools[{index}]: a tool of type {kind!r} without its definition"
        elif not isinstance(defined.get("name"), str) or not _TOOL_NAME.fullmatch(defined["name"]):
            yield f"tools[{index}]: name is {defined.get('name')!r}"
        elif not isinstance(defined.get("parameters", {}), dict):
            yield f"tools[{index}]: parameters are {type(defined['parameters']).__name__}"
