"""Gemini contents: parts in `user` and `model` contents, the system instruction and the tools in a
config beside them.

Either spelling comes in (REST's `functionCall`, the SDK's `function_call` and its objects) and goes
back as it came. `request` gives the keyword arguments of `client.models.generate_content`: plain
dicts with base64 text, so that `{"contents": …, **config}` is the body for REST as well. A thought
signature stays in the form of its part: it comes back with the very call or text it stood on,
whatever was shortened. What has no parts is read as Chat Completions. Neighbours: `gemini_render`
is the way out, `gemini_check` the provider's own view of a request, `gemini_fields` has spellings
and ids, `form` keeps what is unusual, `tools` translates tool definitions.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from refold.core.codec import DEPTH_MAX
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
from refold.dialects import openai_chat
from refold.dialects.form import ANSWER_KEYS, Found, Same, Speech, message_of
from refold.dialects.gemini.fields import NAME, Numbering, value_in
from refold.dialects.gemini.render import own_part, usual
from refold.dialects.protocol import Reply
from refold.dialects.wire import alike, count_in, plain, refused, role_of, same, unmarked

_SPEECH = Speech(NAME, usual, own_part)

_ROLES: dict[str, Role] = {
    "user": "user", "model": "assistant", "system": "system", "function": "user", "tool": "user",
}  # fmt: skip
_PART = "an object such as {'text': …} or {'functionCall': …}"
# Files that only Google can read; any other address is a link.
_PRIVATE = ("gs://", "https://generativelanguage.googleapis.com/")
_STANDARD = str.maketrans("-_", "+/")


# --- parse ---


def speaks(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape that only this dialect has: parts, and none of them typed."""
    parts = message.get("parts")
    if not isinstance(parts, list | tuple):
        return False
    return not any(
        isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in parts
    )


def parse(message: Any) -> list[Message]:
    """A content as messages. A message without parts is anybody's, and read as Chat Completions
    has it."""
    if type(message) is dict and "role" in message and "content" in message:
        return openai_chat.parse(message)
    wire = plain(_encoded(message))
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    if not isinstance(wire, dict) or "parts" not in wire:
        return openai_chat.parse(message)
    return [_parsed(wire, same if _is_json(message) else alike)]


def _parsed(wire: dict[str, Any], same: Same) -> Message:
    role = role_of({"role": wire.get("role") or "user"}, _ROLES)
    parts = wire.get("parts")
    if not isinstance(parts, list):
        raise refused(f"the parts of the {role} content", parts, "a list of parts")
    if same is alike:
        _standardize(parts)
    numbering = Numbering()
    found: Found = [(("parts", index), _block(part, numbering)) for index, part in enumerate(parts)]
    if found and all(type(block) is ToolResult for _, block in found):
        role = "tool"
    return message_of(role, unmarked(wire), found, _SPEECH, same)


def _block(part: Any, numbering: Numbering) -> Block:
    if type(part) is not dict:
        raise refused("a part of the content", part, _PART)
    call, response = value_in(part, "functionCall"), value_in(part, "functionResponse")
    if call is not None:
        return _call(call, numbering)
    if response is not None:
        return _result(response, numbering)
    text, signature = part.get("text"), value_in(part, "thoughtSignature")
    signed = signature if isinstance(signature, str) else ""
    if isinstance(text, str):
        return (
            Thinking(text, signed)
            if part.get("thought") is True and (text or signed)
            else Text(text)
        )
    media = _media(part)
    if (
        type(media) is Opaque
        and signed
        and not any(value for key, value in part.items() if "ignature" not in key)
    ):
        return Thinking(
            signature=signed
        )  # a stream may end with a part that is nothing but a signature
    return media


def _media(part: dict[str, Any]) -> Media | Opaque:
    """What is neither text nor a call: media, code that the provider ran, or whatever comes
    next."""
    inline, file = value_in(part, "inlineData"), value_in(part, "fileData")
    held = inline if inline is not None else file
    mime, named = value_in(held, "mimeType"), value_in(held, "displayName")
    fields = {
        "mime": mime if isinstance(mime, str) else "",
        "name": named if isinstance(named, str) else "",
    }
    content = value_in(inline, "data") if inline is not None else value_in(file, "fileUri")
    if not isinstance(content, str) or not content:
        return Opaque(raw=part, text=_run_text(part))
    if inline is not None:
        return Media(_kind(fields["mime"]), data=content, **fields)
    if content.startswith(_PRIVATE):
        return Media(_kind(fields["mime"]), file=content, **fields)
    return Media(_kind(fields["mime"]), url=content, **fields)


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


def _call(call: Any, numbering: Numbering) -> ToolCall:
    tool, arguments = value_in(call, "name"), value_in(call, "args")
    if not isinstance(tool, str) or not tool or not isinstance(arguments, dict | None):
        raise refused("a functionCall", call, "an object with a name and an object as args")
    return ToolCall(numbering.id(call, tool), tool, {} if arguments is None else arguments)


def _result(answer: Any, numbering: Numbering) -> ToolResult:
    tool, response, parts = (value_in(answer, key) for key in ("name", "response", "parts"))
    if not isinstance(tool, str) or not tool or not isinstance(response, dict | None):
        raise refused(
            "a functionResponse", answer, "an object with a name and an object as response"
        )
    if not isinstance(parts, list | None) or not all(
        isinstance(part, dict) for part in parts or ()
    ):
        raise refused("the parts of a functionResponse", parts, "a list of parts")
    text = _response_text(response or {})
    content = ((Text(text),) if text else ()) + tuple(_media(part) for part in parts or ())
    failed = list(response or ()) == ["error"]
    return ToolResult(numbering.id(answer, tool), content, is_error=failed, name=tool)


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
    if type(message) is not dict:
        return False
    parts = message.get("parts")
    return type(parts) is list and all(type(part) is dict for part in parts)


def _encoded(value: Any, depth: int = 0) -> Any:
    """The value with bytes as base64 text, which is how JSON has them here. The SDK's objects
    encode themselves."""
    if depth > DEPTH_MAX:
        return value  # `plain` says that it is too deep
    if type(value) is dict:
        return {key: _encoded(item, depth + 1) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return [_encoded(item, depth + 1) for item in value]
    return b64encode(value).decode() if type(value) is bytes else value


def _standardize(parts: list[Any]) -> None:
    """Turns the base64 of the SDK's objects, made for URLs, into the one that every provider
    reads."""
    for part in parts:
        _standardize(value_in(value_in(part, "functionResponse"), "parts") or [])
        inline = value_in(part, "inlineData")
        if isinstance(inline, dict) and isinstance(inline.get("data"), str):
            inline["data"] = inline["data"].translate(_STANDARD)


# --- reply ---


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a response of generateContent; one that was blocked has no candidates."""
    if isinstance(response.get("candidates"), list):
        return True
    return any(
        isinstance(value_in(response, key), Mapping) for key in ("usageMetadata", "promptFeedback")
    )


def reply(response: Any) -> Reply:
    """A response taken apart (its first candidate), or a bare content of the model."""
    wire = plain(_encoded(response))
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    candidates = wire.get("candidates") or [{}]
    candidate = candidates[0] if isinstance(candidates[0], dict) else {}
    content = candidate.get("content") or {}
    if not isinstance(content, dict):
        raise refused("the content of the first candidate", content, "an object with parts")
    content["role"] = content.get("role") or "model"
    content["parts"] = content.get("parts") or []
    message = _parsed(content, same if type(response) is dict else alike)
    reason = value_in(candidate, "finishReason") or value_in(
        value_in(wire, "promptFeedback"), "blockReason"
    )
    return Reply(
        message=message, usage=_usage(wire), finished=reason if isinstance(reason, str) else ""
    )


def _usage(response: dict[str, Any]) -> Usage | None:
    """What was billed. `promptTokenCount` already counts what came from the cache, but not what
    the provider's own tools read; thoughts are counted beside the candidates."""
    usage = value_in(response, "usageMetadata")
    if not isinstance(usage, dict):
        return None
    given = {key: value_in(usage, key) for key in _COUNTS}
    identity, model = value_in(response, "responseId"), value_in(response, "modelVersion")
    return Usage(
        response=identity if isinstance(identity, str) else "",
        model=model if isinstance(model, str) else "",
        input=count_in(given, "promptTokenCount") + count_in(given, "toolUsePromptTokenCount"),
        output=count_in(given, "candidatesTokenCount") + count_in(given, "thoughtsTokenCount"),
        cache_read=count_in(given, "cachedContentTokenCount"),
        reasoning=count_in(given, "thoughtsTokenCount"),
    )


_COUNTS = (
    "promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount",
    "cachedContentTokenCount",
)  # fmt: skip
