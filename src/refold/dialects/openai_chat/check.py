"""Faults for which Chat Completions would refuse a request, from the provider's documentation.

The rules are independent of `render` and the laws, which they test. Each fault names its position:
"messages[3]: …". Neighbour: `wire` has the checks that validators share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from refold.checked import quoted
from refold.dialects.faults import (
    Faults,
    faults_in,
    is_name,
    kind_in,
    matches,
    name_faults,
    option_faults,
    pattern_faults,
    takes_object,
    tool_faults,
    type_faults,
)
from refold.dialects.openai_chat.render import NAME
from refold.dialects.wire import at, is_object_text, is_taken, media_of_url, objects_in

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# The name of a speaker.
_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
# Types of parts by role; a part keeps its value under its type.
_PARTS: dict[str, tuple[str, ...]] = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
    "function": (),
}
_FIELDS = {"image_url": ("url",), "input_audio": ("data", "format")}

_DATA_URL = re.compile(r"data:[^,]*;base64,[A-Za-z0-9+/_-]+={0,2}")
# An assistant message with one of these needs no content.
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio")


def check(request: Mapping[str, Any]) -> list[str]:
    """All faults for which the provider would refuse the request."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: not a list with at least one message"]
    faults = list(faults_in("messages", messages, _message_faults))
    faults += _pair_faults(messages)
    faults += _order_faults(messages)
    faults += _function_faults(messages)
    if "tools" in request:
        faults += tool_faults(request["tools"], _tool_faults)
    tools = objects_in(request.get("tools"))
    names = [at(tool, (str(kind_in(tool)), "name")) for tool in tools]
    return [*faults, *option_faults(NAME, request, names)]


# --- one message ---


def _message_faults(message: Any) -> Faults:
    if not isinstance(message, dict):
        yield "not an object"
        return
    role = message.get("role")
    if not isinstance(role, str) or role not in _PARTS:
        yield f"unknown role {role!r}"
        return
    yield from _content_faults(role, message)
    name = message.get("name")
    if role != "tool" and name is not None and not matches(_SPEAKER, name):
        yield f"name is {quoted(name, 80)}"
    if role == "assistant":
        if "tool_calls" in message:
            yield from _calls_faults(message["tool_calls"])
        if "parsed" in message:
            yield "parsed, which only an SDK has"
        if isinstance(message.get("audio"), dict) and message["audio"].keys() != {"id"}:
            yield "audio with more than its id"
    elif "tool_calls" in message:
        yield f"tool_calls in a {role} message"
    if role == "tool":
        yield from name_faults(message, "tool_call_id")


def _content_faults(role: str, message: dict[str, Any]) -> Faults:
    content = message.get("content")
    if content is None:
        if role != "assistant" or not any(message.get(key) for key in _INSTEAD):
            yield "no content"
    elif not isinstance(content, str | list):
        yield f"content is {type(content).__name__}"
    elif content == []:
        yield "empty content"
    elif isinstance(content, list):
        yield from faults_in("content", content, lambda part: _part_faults(role, part))


def _part_faults(role: str, part: Any) -> Faults:
    kind = kind_in(part)
    if not isinstance(kind, str) or kind not in _PARTS[role]:
        yield f"a part of type {kind!r} in a {role} message"
        return
    value = part.get(kind)
    if kind in ("text", "refusal"):
        if not is_name(value):
            yield f"{kind} is {value!r}"
        return
    required = _FIELDS.get(kind, ())
    if not isinstance(value, dict) or not all(is_name(value.get(field)) for field in required):
        yield f"{kind} is incomplete"
    elif kind == "file" and not (value.get("file_data") or value.get("file_id")):
        yield "file has neither data nor id"
    elif kind == "image_url":
        url = value["url"]
        if url.startswith("data:") and not _DATA_URL.fullmatch(url):
            yield "the data of the image is not base64"
        elif not is_taken("openai_chat", "image", media_of_url("image", url).mime):
            yield f"an image of type {media_of_url('image', url).mime}"
    elif kind == "input_audio" and not is_taken("openai_chat", "audio", f"audio/{value['format']}"):
        yield f"audio of type {quoted(value['format'], 40)}"


# --- calls and results ---


def _calls_faults(calls: Any) -> Faults:
    if not isinstance(calls, list) or not calls:
        yield "tool_calls is not a list with at least one call"
        return
    seen: set[str] = set()
    for index, call in enumerate(calls):
        yield from (f"tool_calls[{index}]: {fault}" for fault in _call_faults(call))
        id = call.get("id") if isinstance(call, dict) else None
        if isinstance(id, str) and id:
            if id in seen:
                yield f"tool_calls[{index}]: a second call with the id {id!r}"
            seen.add(id)


def _call_faults(call: Any) -> Faults:
    if not isinstance(call, dict):
        yield "not an object"
        return
    yield from name_faults(call, "id")
    if "index" in call:
        yield "index, which only a stream has"
    kind = call.get("type")
    called = call.get(kind) if kind in ("function", "custom") else None
    if not isinstance(called, dict):
        yield f"a call of type {kind!r} without its function"
        return
    yield from pattern_faults(called, "name", _TOOL_NAME)
    yield from type_faults(called, "arguments" if kind == "function" else "input", str)
    arguments = called.get("arguments")
    if kind == "function" and isinstance(arguments, str) and not is_object_text(arguments):
        yield f"arguments are not a JSON object: {quoted(arguments, 40)}"
    if "parsed_arguments" in called:
        yield "parsed_arguments, which only an SDK has"


def _pair_faults(messages: list[Any]) -> Faults:
    """Requires exactly one result per call, before any other message."""
    waiting: list[str] = []
    answered: list[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        if message.get("role") != "tool":
            missing = (f"the call {id!r} before it has no result" for id in waiting)
            yield from (f"messages[{index}]: {fault}" for fault in missing)
            ids = (call.get("id") for call in objects_in(message.get("tool_calls")))
            waiting = list(dict.fromkeys(id for id in ids if isinstance(id, str)))
            answered = []
            continue
        id = message.get("tool_call_id")
        if id in waiting:
            waiting.remove(id)
            answered.append(id)
        else:
            which = "second" if id in answered else "stray"
            yield f"messages[{index}]: a {which} result for {id!r}"
    yield from (f"messages: the call {id!r} has no result" for id in waiting)


def _order_faults(messages: list[Any]) -> Faults:
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            yield f"messages[{index}]: an assistant message before any user message"
        if role in ("user", "assistant"):
            return


def _function_faults(messages: list[Any]) -> Faults:
    """Requires that a legacy function result comes directly after the call of that function."""
    called: Any = None
    for index, message in enumerate(objects_in(messages)):
        name = message.get("name")
        if message.get("role") == "function" and (name is None or name != called):
            yield f"messages[{index}]: a stray result of the function {name!r}"
        call = message.get("function_call")
        called = call.get("name") if isinstance(call, dict) else None


# --- tools ---


def _tool_faults(tool: Any) -> Faults:
    kind = kind_in(tool)
    defined = tool.get(kind) if kind in ("function", "custom") else None
    if not isinstance(defined, dict):
        yield f"a tool of type {kind!r} without its definition"
    elif not matches(_TOOL_NAME, defined.get("name")):
        yield f"name is {defined.get('name')!r}"
    elif not takes_object(defined.get("parameters")):
        yield "parameters are not the schema of an object"
