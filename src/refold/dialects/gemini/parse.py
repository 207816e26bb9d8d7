"""Gemini contents, the way in: contents, parts and responses as ours.

What has no parts is not Gemini's, and read by the default dialect. Neighbours: `render` is the way
out, `fields` has spellings and ids, `form` keeps what is unusual.
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
from refold.dialects.form import ANSWER_KEYS, Placed, Usual, message_of
from refold.dialects.gemini.render import NAME, Numbering, own_part, text_at, usual, value_in
from refold.dialects.input import count_in, encoded, plain, refused, remove_marks, role_of
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


def speaks(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape that only this dialect has: parts, and none of them typed."""
    parts = message.get("parts")
    return isinstance(parts, list | tuple) and not any(map(_is_typed, parts))


def _is_typed(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("type"), str)


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a response of generateContent; one that was blocked has no candidates."""
    if isinstance(response.get("candidates"), list):
        return True
    beside = (value_in(response, key) for key in ("usageMetadata", "promptFeedback"))
    return any(isinstance(value, Mapping) for value in beside)


# --- parse ---


def parse(message: Any) -> list[Message]:
    """A content as messages. A message without parts is anybody's."""
    if type(message) is dict and "role" in message and "content" in message:
        return dialect(DEFAULT).parse(message)
    wire = plain(encoded(message))
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    if not isinstance(wire, dict) or "parts" not in wire:
        return dialect(DEFAULT).parse(message)
    return [_parse_plain(wire, same if _is_json(message) else alike)]


def _parse_plain(wire: dict[str, Any], same: Same) -> Message:
    role = role_of({"role": wire.get("role") or "user"}, _ROLES)
    parts = wire.get("parts")
    if not isinstance(parts, list):
        raise refused(f"the parts of the {role} content", parts, "a list of parts")
    if same is alike:
        _standardize(parts)
    placed = _placed(parts)
    if placed and all(type(block) is ToolResult for _, block in placed):
        role = "tool"
    return message_of(role, remove_marks(wire), placed, _USUAL, same)


def _placed(parts: list[Any]) -> Placed:
    numbering = Numbering()
    return [(("parts", index), _block(part, numbering)) for index, part in enumerate(parts)]


def _block(part: Any, numbering: Numbering) -> Block:
    if type(part) is not dict:
        accepted = "an object such as {'text': …} or {'functionCall': …}"
        raise refused("a part of the content", part, accepted)
    call = value_in(part, "functionCall")
    if call is not None:
        return _call(call, numbering)
    response = value_in(part, "functionResponse")
    if response is not None:
        return _result(response, numbering)
    if isinstance(part.get("text"), str):
        return _text(part)
    if _is_signature(part):
        return Thinking(signature=text_at(part, "thoughtSignature"))
    return _media(part)


def _text(part: dict[str, Any]) -> Text | Thinking:
    """A text, or what the model thought."""
    text, signature = part["text"], text_at(part, "thoughtSignature")
    if part.get("thought") is True and (text or signature):
        return Thinking(text, signature)
    return Text(text)


def _is_signature(part: dict[str, Any]) -> bool:
    """Whether a part is nothing but a signature, with which a stream may end."""
    if not text_at(part, "thoughtSignature"):
        return False
    return not any(value for key, value in part.items() if "ignature" not in key)


# --- media ---


def _media(part: dict[str, Any]) -> Media | Opaque:
    """What is neither text nor a call: media, code that the provider ran, or whatever comes
    next."""
    inline, file = value_in(part, "inlineData"), value_in(part, "fileData")
    if inline is not None:
        media = _held_media(inline, data=text_at(inline, "data"))
    else:
        media = _file(file, text_at(file, "fileUri"))
    if media.data or media.url or media.file:
        return media
    return Opaque(raw=part, text=_run_text(part))


def _file(held: Any, address: str) -> Media:
    """A file of the provider, or a link."""
    if address.startswith(_PRIVATE):
        return _held_media(held, file=address)
    return _held_media(held, url=address)


def _held_media(held: Any, **content: str) -> Media:
    mime = text_at(held, "mimeType")
    return Media(_kind(mime), mime=mime, name=text_at(held, "displayName"), **content)


def _kind(mime: str) -> str:
    kind = mime.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


def _run_text(part: dict[str, Any]) -> str:
    """The code that the provider ran, or what it gave: readable for people and other providers."""
    for held, field in (("executableCode", "code"), ("codeExecutionResult", "output")):
        text = value_in(value_in(part, held), field)
        if isinstance(text, str):
            return text
    return ""


# --- calls and results ---


def _call(call: Any, numbering: Numbering) -> ToolCall:
    tool, arguments = text_at(call, "name"), value_in(call, "args")
    if not tool or not isinstance(arguments, dict | None):
        raise refused("a functionCall", call, "an object with a name and an object as args")
    return ToolCall(numbering.id(call, tool), tool, {} if arguments is None else arguments)


def _result(answer: Any, numbering: Numbering) -> ToolResult:
    tool, response = text_at(answer, "name"), value_in(answer, "response")
    if not tool or not isinstance(response, dict | None):
        accepted = "an object with a name and an object as response"
        raise refused("a functionResponse", answer, accepted)
    content = _response_content(response or {}, value_in(answer, "parts"))
    failed = list(response or ()) == ["error"]
    return ToolResult(numbering.id(answer, tool), content, is_error=failed, name=tool)


def _response_content(response: dict[str, Any], parts: Any) -> tuple[Text | Media | Opaque, ...]:
    """What a tool said, and the media beside it."""
    if parts is None:
        parts = []
    if not isinstance(parts, list) or not all_objects(parts):
        raise refused("the parts of a functionResponse", parts, "a list of parts")
    text = _response_text(response)
    said = (Text(text),) if text else ()
    return (*said, *map(_media, parts))


def _response_text(response: dict[str, Any]) -> str:
    """What a tool said: the one text of its response, or all of it as JSON."""
    if len(response) == 1:
        [(key, value)] = response.items()
        if key in ANSWER_KEYS and isinstance(value, str):
            return value
    return json.dumps(response, ensure_ascii=False) if response else ""


# --- values from outside ---


def _is_json(message: Any) -> bool:
    """Whether a content came as JSON, in the order of its sender, and not as or with objects of
    the SDK."""
    parts = message.get("parts") if type(message) is dict else None
    return type(parts) is list and all_objects(parts)


def _standardize(parts: list[Any]) -> None:
    """Turns the base64 of the SDK's objects, made for URLs, into the one that every provider
    reads."""
    for part in parts:
        _standardize(value_in(value_in(part, "functionResponse"), "parts") or [])
        inline = value_in(part, "inlineData")
        if isinstance(inline, dict) and isinstance(inline.get("data"), str):
            inline["data"] = inline["data"].translate(_STANDARD)


# --- reply ---


def reply(response: Any) -> Reply:
    """A response taken apart (its first candidate), or a bare content of the model."""
    wire = plain(encoded(response))
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    candidate = next(iter(objects_in(wire.get("candidates"))), {})
    content = _answer(candidate)
    message = _parse_plain(content, same if type(response) is dict else alike)
    return Reply(message=message, usage=usage_of(wire), finished=_finished(wire, candidate))


def _answer(candidate: dict[str, Any]) -> dict[str, Any]:
    """The content of a candidate, which may be empty. Invalid if it is not an object."""
    content = candidate.get("content") or {}
    if not isinstance(content, dict):
        raise refused("the content of the first candidate", content, "an object with parts")
    content["role"] = content.get("role") or "model"
    content["parts"] = content.get("parts") or []
    return content


def _finished(response: dict[str, Any], candidate: dict[str, Any]) -> str:
    """Why it ended, or why it was blocked."""
    reason = value_in(candidate, "finishReason")
    if not reason:
        return text_at(value_in(response, "promptFeedback"), "blockReason")
    return reason if isinstance(reason, str) else ""


def usage_of(response: dict[str, Any]) -> Usage | None:
    """What was billed. `promptTokenCount` already counts what came from the cache, but not what
    the provider's own tools read; thoughts are counted beside the candidates."""
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
