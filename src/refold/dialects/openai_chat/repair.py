"""Chat Completions, repaired: a message that came in a shape that the provider refuses goes out in
one that it takes.

Compatible servers and SDKs give messages with empty or null `tool_calls`, calls without a type or
in the simple shape {id, name, arguments}, arguments as an object, and keys that only an SDK has.
Neighbours: `render` sends every message through here that is not plain text, `dialects.repair` has
what the dialects share.
"""

from __future__ import annotations

from typing import Any

from refold.dialects.repair import (
    KNOWN_PARTS,
    argument_text,
    fitting_name,
    is_base64,
    is_data_url,
    is_fitting,
    refused_text,
)
from refold.dialects.wire import EMPTY, objects_in

NAME = "openai_chat"
_NAME_LENGTH_MAX = 64
_SAID = ("text", "refusal")
_MEDIA = ("image_url", "input_audio", "file")
_SPOKEN = ("role", "content")
_CALL = {"id", "type", "function"}
_FUNCTION = {"name", "arguments"}
# A message with one of these needs no content.
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio")

Wire = dict[str, Any]


def repaired(wire: Wire, lost: list[str]) -> Wire:
    """The message as the provider takes it; what was valid stays as it is."""
    if wire.get("role") == "assistant":
        wire = _repaired_answer(wire, lost)
    elif "tool_calls" in wire:
        wire = {key: value for key, value in wire.items() if key != "tool_calls"}
    content = wire.get("content")
    if type(content) is list:
        wire["content"] = _content(content, wire["role"], lost)
    elif content is not None and type(content) is not str:
        wire["content"] = refused_text(content, NAME, lost)
    return _with_content(wire)


def _with_content(wire: Wire) -> Wire:
    """The message, never without content: the provider refuses that."""
    content = wire.get("content")
    if content is None and not any(wire.get(key) for key in _INSTEAD):
        wire["content"] = "" if wire["role"] in ("assistant", "tool") else EMPTY
    return wire


# --- parts ---


def _content(parts: list[Any], role: str, lost: list[str]) -> Any:
    """The parts that the provider takes, none of them empty; None for nothing."""
    kept = [part for part in (_part(part, role, lost) for part in parts) if part is not None]
    if kept and role == "function":
        return "\n".join(part.get("text") or "" for part in kept)
    return kept or None


def _part(part: Any, role: str, lost: list[str]) -> Wire | None:
    kind = part.get("type") if type(part) is dict else None
    if kind in _SAID and (kind == "text" or role == "assistant"):
        return part if type(part.get(kind)) is str and part[kind] else None
    is_unknown = type(kind) is str and kind not in KNOWN_PARTS
    if is_unknown or (kind in _MEDIA and role == "user" and _is_whole(kind, part.get(kind))):
        return part  # type: ignore[no-any-return]
    text = refused_text(part, NAME, lost)
    return {"type": "text", "text": text} if text else None


def _is_whole(kind: str, held: Any) -> bool:
    """Whether media has what the provider needs of it."""
    if type(held) is not dict:
        return False
    match kind:
        case "image_url":
            return _is_address(held.get("url"))
        case "input_audio":
            return is_base64(held.get("data")) and _is_text(held.get("format"))
        case _:
            return _is_text(held.get("file_id")) or _is_address(held.get("file_data"))


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value)


def _is_address(url: Any) -> bool:
    """Whether this is a URL; one with its content in it must have content."""
    return _is_text(url) and (not url.startswith("data:") or is_data_url(url))


# --- answers ---


def _repaired_answer(wire: Wire, lost: list[str]) -> Wire:
    """An answer with nothing but what the provider takes back."""
    answer = {key: value for key, value in wire.items() if key in _SPOKEN or _goes_back(key, value)}
    if type(answer.get("audio")) is dict:
        answer["audio"] = {"id": answer["audio"]["id"]}
    if "tool_calls" in answer:
        calls = [_call(call, lost) for call in objects_in(answer["tool_calls"])]
        answer["tool_calls"] = calls
    return answer


def _goes_back(key: str, value: Any) -> bool:
    """Whether a field of an answer may go back: not what an SDK made of it, nor what is empty and
    must not be."""
    match key:
        case "parsed":
            return False
        case "annotations":
            return value is not None
        case "tool_calls":
            return bool(objects_in(value))
        case "function_call":
            return type(value) is dict and _is_text(value.get("name"))
        case "audio":
            return type(value) is dict and _is_text(value.get("id"))
        case "thinking_blocks" | "reasoning_details":
            return bool(value)
        case "refusal":
            return value is None or type(value) is str
        case _:
            return True


def _call(call: Wire, lost: list[str]) -> Wire:
    """A call in the provider's shape."""
    if call.keys() == _CALL and _is_whole_function(call):
        return call
    made = {key: value for key, value in call.items() if key != "index"}
    if call.get("type") == "custom" and type(call.get("custom")) is dict:
        return {**made, "custom": _called(call["custom"], "input", lost)}
    function = call.get("function")
    if type(function) is not dict:
        if "name" not in call:
            return made
        function = {key: made.pop(key) for key in ("name", "arguments") if key in made}
        return {"id": made.pop("id"), "type": "function", **_function(function, lost), **made}
    if made.get("type") != "function":
        made = {"id": made.pop("id"), "type": "function", **_without_type(made)}
    return {**made, **_function(function, lost)}


def _is_whole_function(call: Wire) -> bool:
    """Whether this calls a function as the provider has it."""
    function = call["function"]
    if call["type"] != "function" or type(function) is not dict or function.keys() != _FUNCTION:
        return False
    is_named = is_fitting(function["name"], _NAME_LENGTH_MAX)
    return is_named and type(function["arguments"]) is str


def _without_type(call: Wire) -> Wire:
    return {key: value for key, value in call.items() if key != "type"}


def _function(function: Wire, lost: list[str]) -> Wire:
    return {"function": _called(function, "arguments", lost)}


def _called(called: Wire, key: str, lost: list[str]) -> Wire:
    """The name and the arguments of what is called, both as the provider takes them."""
    kept = {name: value for name, value in called.items() if name != "parsed_arguments"}
    name = fitting_name(called.get("name"), NAME, _NAME_LENGTH_MAX, lost)
    return {**kept, "name": name, key: argument_text(called.get(key))}
