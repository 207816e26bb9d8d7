"""Messages of Strands (Bedrock's shape) as Anthropic's, and back.

Texts, calls, results, thinking and images have a place in both. Whatever else a block is travels as
it is, in a block of its own kind that only this module reads; bytes in it become base64. What has
no meaning for the history, a mark for the cache, is left out. Neighbour: `strands`.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

Wire = dict[str, Any]

OTHER = "strands"  # the kind of a block that has no place in the other shape
_BYTES = "$bytes"


def to_wire(message: Wire) -> Wire:
    """A message of Strands as one of Anthropic's."""
    blocks = [_block(one) for one in message["content"] if "cachePoint" not in one]
    return {"role": message["role"], "content": blocks}


def from_wire(message: Wire) -> Wire:
    """The way back."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [_own_block(one) for one in blocks]}


def _block(block: Wire) -> Wire:
    match block:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"toolUse": call} if not call.keys() - {"toolUseId", "name", "input"}:
            named = {"id": call["toolUseId"], "name": call["name"]}
            return {"type": "tool_use", **named, "input": call["input"]}
        case {"toolResult": result}:
            content = [_content(one) for one in result["content"]]
            answered = {"type": "tool_result", "tool_use_id": result["toolUseId"]}
            is_error = result.get("status") == "error"
            return {**answered, "content": content, **({"is_error": True} if is_error else {})}
        case {"reasoningContent": {"reasoningText": thought}}:
            signature = thought.get("signature") or ""
            return {"type": "thinking", "thinking": thought["text"], "signature": signature}
        case {"reasoningContent": {"redactedContent": bytes(data)}}:
            return {"type": "redacted_thinking", "data": base64.b64encode(data).decode()}
        case {"image": {"format": form, "source": {"bytes": bytes(data)}}}:
            source = {"type": "base64", "media_type": f"image/{form}"}
            return {"type": "image", "source": source | {"data": base64.b64encode(data).decode()}}
        case _:
            return {"type": OTHER, "block": _plain(block)}


def _content(part: Wire) -> Wire:
    """A part of a result: a value goes as its text, which is what the model reads."""
    if "json" in part:
        return {"type": "text", "text": msgspec.json.encode(part["json"]).decode()}
    return _block(part)


def _own_block(block: Wire) -> Wire:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "tool_use":
            call = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
            return {"toolUse": call}
        case "tool_result":
            content = block.get("content") or ""
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            result: Wire = {"toolUseId": block["tool_use_id"]}
            result["status"] = "error" if block.get("is_error") else "success"
            return {"toolResult": result | {"content": [_own_block(part) for part in parts]}}
        case "thinking":
            thought = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": thought}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": base64.b64decode(block["data"])}}
        case "image":
            source = block["source"]
            form = source["media_type"].partition("/")[2]
            return {
                "image": {"format": form, "source": {"bytes": base64.b64decode(source["data"])}}
            }
        case _:
            return _whole(block["block"])  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, list) else value


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_BYTES}:
            return base64.b64decode(value[_BYTES])
        return {key: _whole(held) for key, held in value.items()}
    return [_whole(held) for held in value] if isinstance(value, list) else value
