"""Parsing of Gemini contents: contents, parts and responses.

Messages without parts are read by the default dialect. Neighbours: `render` is the way out and has
spellings and ids, `original_form` keeps unusual shapes.
"""

from __future__ import annotations

import json
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
from refold.dialects import DEFAULT, dialect
from refold.dialects.gemini.render import NAME, Numbering, own_part, text_at, usual, value_in
from refold.dialects.input import count_in, encoded, plain, refused, remove_marks, role_of
from refold.dialects.original_form import ANSWER_KEYS, Placed, Usual, message_of
from refold.dialects.protocol import Reply
from refold.dialects.wire import Same, alike, all_objects, objects_in, same

_USUAL = Usual(NAME, usual, own_part)
_ROLES: dict[str, Role] = {
    "user": "user",
    "model": "assistant",
    "system": "system",
    "function": "user",
    "tool": "user",
}
# Files that only Google can read; any other address is a link.
_PRIVATE = ("gs://", "https://generativelanguage.googleapis.com/")
_STANDARD = str.maketrans("-_", "+/")


# --- which dialect ---


def recognizes(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape unique to this dialect: parts, none of them with a type."""
    parts = message.get("parts")
    if not isinstance(parts, list | tuple):
        return False
    return not any(
        isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in parts
    )


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a response of generateContent; a blocked one has no candidates."""
    if isinstance(response.get("candidates"), list):
        return True
    others = (value_in(response, key) for key in ("usageMetadata", "promptFeedback"))
    return any(isinstance(value, Mapping) for value in others)


# --- parse ---


def parse(message: Any) -> list[Message]:
    """A content as messages; a message without parts by the default dialect."""
    if type(message) is dict and "role" in message and "content" in message:
        return dialect(DEFAULT).parse(message)
    wire = plain(encoded(message))
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    if not isinstance(wire, dict) or "parts" not in wire:
        return dialect(DEFAULT).parse(message)
    # Objects of the SDK have the key order of their class, not of the provider's message.
    parts = message.get("parts") if type(message) is dict else None
    is_json = type(parts) is list and all_objects(parts)
    return [_parse_plain(wire, same if is_json else alike)]


def _parse_plain(wire: dict[str, Any], same: Same) -> Message:
    role = role_of({"role": wire.get("role") or "user"}, _ROLES)
    parts = wire.get("parts")
    if not isinstance(parts, list):
        raise refused(f"the parts of the {role} content", parts, "a list of parts")
    if same is alike:
        _standardize(parts)
    numbering = Numbering()
    placed: Placed = []
    for index, part in enumerate(parts):
        placed.append((("parts", index), _block(part, numbering)))
    if placed and all(type(block) is ToolResult for _, block in placed):
        role = "tool"
    return message_of(role, remove_marks(wire), placed, _USUAL, same)


def _block(part: Any, numbering: Numbering) -> Block:
    if type(part) is not dict:
        accepted = "an object such as {'text': …} or {'functionCall': …}"
        raise refused("a part of the content", part, accepted)
    call = value_in(part, "functionCall")
    if call is not None:
        tool, arguments = text_at(call, "name"), value_in(call, "args")
        if not tool or not isinstance(arguments, dict | None):
            raise refused("a functionCall", call, "an object with a name and an object as args")
        return ToolCall(numbering.id(call, tool), tool, {} if arguments is None else arguments)
    response = value_in(part, "functionResponse")
    if response is not None:
        return _result(response, numbering)
    signature = text_at(part, "thoughtSignature")
    if isinstance(part.get("text"), str):
        text = part["text"]
        is_thought = part.get("thought") is True and (text or signature)
        return Thinking(text, signature) if is_thought else Text(text)
    # A stream may end with a part that is only a signature.
    if signature and not any(value for key, value in part.items() if "ignature" not in key):
        return Thinking(signature=signature)
    return _media(part)


def _media(part: dict[str, Any]) -> Media | Opaque:
    """Media; any other part is opaque, with the code that the provider ran, or its output, as
    text."""
    inline, file = value_in(part, "inlineData"), value_in(part, "fileData")
    holder = file if inline is None else inline
    address = text_at(file, "fileUri") if inline is None else ""
    is_private = address.startswith(_PRIVATE)
    mime = text_at(holder, "mimeType")
    kind = mime.partition("/")[0].lower()
    media = Media(
        kind if kind in ("image", "audio", "video") else "document",
        mime=mime,
        name=text_at(holder, "displayName"),
        data=text_at(inline, "data"),
        url="" if is_private else address,
        file=address if is_private else "",
    )
    if media.data or media.url or media.file:
        return media
    for name, field in (("executableCode", "code"), ("codeExecutionResult", "output")):
        text = value_in(value_in(part, name), field)
        if isinstance(text, str):
            return Opaque(raw=part, text=text)
    return Opaque(raw=part)


# --- calls and results ---


def _result(answer: Any, numbering: Numbering) -> ToolResult:
    tool, response = text_at(answer, "name"), value_in(answer, "response")
    if not tool or not isinstance(response, dict | None):
        accepted = "an object with a name and an object as response"
        raise refused("a functionResponse", answer, accepted)
    parts = value_in(answer, "parts")
    if parts is None:
        parts = []
    if not isinstance(parts, list) or not all_objects(parts):
        raise refused("the parts of a functionResponse", parts, "a list of parts")
    text = _response_text(response or {})
    content = (*((Text(text),) if text else ()), *map(_media, parts))
    failed = list(response or ()) == ["error"]
    return ToolResult(numbering.id(answer, tool), content, is_error=failed, name=tool)


def _response_text(response: dict[str, Any]) -> str:
    """The only text of a tool's response, or the whole response as JSON."""
    if len(response) == 1:
        [(key, value)] = response.items()
        if key in ANSWER_KEYS and isinstance(value, str):
            return value
    return json.dumps(response, ensure_ascii=False) if response else ""


def _standardize(parts: list[Any]) -> None:
    """Turns the URL-safe base64 of SDK objects into the standard alphabet, in place."""
    for part in parts:
        _standardize(value_in(value_in(part, "functionResponse"), "parts") or [])
        inline = value_in(part, "inlineData")
        if isinstance(inline, dict) and isinstance(inline.get("data"), str):
            inline["data"] = inline["data"].translate(_STANDARD)


# --- reply ---


def reply(response: Any) -> Reply:
    """The reply in the first candidate of a response, or in a bare content of the model."""
    wire = plain(encoded(response))
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    candidate = next(iter(objects_in(wire.get("candidates"))), {})
    content = candidate.get("content") or {}
    if not isinstance(content, dict):
        raise refused("the content of the first candidate", content, "an object with parts")
    content["role"] = content.get("role") or "model"
    content["parts"] = content.get("parts") or []
    message = _parse_plain(content, same if type(response) is dict else alike)
    if value_in(candidate, "finishReason"):
        finished = text_at(candidate, "finishReason")
    else:
        finished = text_at(value_in(wire, "promptFeedback"), "blockReason")
    return Reply(message=message, usage=usage_of(wire), finished=finished)


def usage_of(response: dict[str, Any]) -> Usage | None:
    """The usage of a response. `promptTokenCount` includes cached tokens, but not those read by the
    provider's own tools; thoughts are not included in the candidates' count."""
    usage = value_in(response, "usageMetadata")
    if not isinstance(usage, dict):
        return None
    counts = {key: value_in(usage, key) for key in _COUNTS}
    thoughts = count_in(counts, "thoughtsTokenCount")
    return Usage(
        response=text_at(response, "responseId"),
        model=text_at(response, "modelVersion"),
        input=count_in(counts, "promptTokenCount") + count_in(counts, "toolUsePromptTokenCount"),
        output=count_in(counts, "candidatesTokenCount") + thoughts,
        cache_read=count_in(counts, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


_COUNTS = (
    "promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount",
    "cachedContentTokenCount",
)  # fmt: skip
