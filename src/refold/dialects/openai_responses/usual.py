"""OpenAI Responses, the usual form: what a message, a call's output and a part are where nothing
else is known.

`parse` compares with it, and keeps a form only where it differs; `render` falls back on it.
Neighbours: `render` is the way out, `items` has the forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
)
from refold.dialects.form import Rename
from refold.dialects.openai_responses.items import INPUT_PARTS, OUTPUT_PARTS
from refold.dialects.wire import (
    copied,
    data_url,
    is_gone,
    is_text,
    present,
    shown_text,
    text_within,
)

_ANY_PARTS = (*INPUT_PARTS, *OUTPUT_PARTS)


def usual(message: Message, rename: Rename = str) -> list[dict[str, Any]]:
    """The message as this provider usually has it."""
    first = message.blocks[0] if message.blocks else None
    if type(first) is ToolResult:
        return [usual_output(first, rename(first.call))]
    role: Role = "user" if message.role == "tool" else message.role
    items: list[dict[str, Any]] = []
    parts: list[Block] = []
    for block in message.blocks:
        item = _item_of(block, role, rename)
        if item is None:
            parts.append(block)
            continue
        if parts:
            items.append(_usual_message(role, parts))
            parts = []
        if item:
            items.append(item)
    if parts or not items:
        items.append(_usual_message(role, parts))
    return items


def _item_of(block: Block, role: Role, rename: Rename) -> dict[str, Any] | None:
    """A block that is an item of its own, an empty one for thinking that is gone; None for a
    part of a message."""
    match block:
        case ToolCall():
            return usual_call(block, rename(block.id))
        case Thinking():
            return {} if is_gone(block) else _usual_reasoning(block)
        case Text() | Opaque(raw=None) if role == "assistant":
            # One item each: a list of parts is taken only from the provider's own answers.
            return {"role": role, "content": shown_text(block)}
        case Opaque(raw=dict(raw)) if role == "assistant" and raw.get("type") not in _ANY_PARTS:
            made: dict[str, Any] = copied(raw)
            return made
        case _:
            return None


def _usual_message(role: Role, said: Sequence[Block]) -> dict[str, Any]:
    if len(said) == 1 and is_text(said[0]):
        return {"role": role, "content": shown_text(said[0])}
    parts = present(own_part(block, role) for block in said)
    return {"role": role, "content": parts}


def usual_call(call: ToolCall, id: str) -> dict[str, Any]:
    arguments = argument_text(call.arguments)
    return {"type": "function_call", "call_id": id, "name": call.name, "arguments": arguments}


def argument_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _usual_reasoning(thinking: Thinking) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "reasoning"}
    if thinking.signature:
        item["id"] = thinking.signature
    summary = {"type": "summary_text", "text": thinking.text}
    item["summary"] = [summary] if thinking.text else []
    if thinking.data:
        item["encrypted_content"] = thinking.data
    return item


# --- outputs ---


def usual_output(result: ToolResult, id: str, kind: str = "function_call") -> dict[str, Any]:
    """What answers a call of that kind."""
    make = TEXT_OUTPUTS.get(kind)
    if make:
        return make(result, id, text_within(result.content))
    return {"type": f"{kind}_output", "call_id": id, "output": _any_output(result)}


def _any_output(result: ToolResult) -> str | list[Any]:
    """A content as an output that takes any: parts if there are several, else text."""
    content = result.content
    if len(content) > 1 or any(type(part) is Media for part in content):
        return [own_part(part) for part in content]
    return text_within(content)


def _shell_output(result: ToolResult, id: str, text: str) -> dict[str, Any]:
    outcome = {"type": "exit", "exit_code": int(result.is_error)}
    chunk = {"stdout": text, "stderr": "", "outcome": outcome}
    return {"type": "shell_call_output", "call_id": id, "output": [chunk]}


def _local_shell_output(result: ToolResult, id: str, text: str) -> dict[str, Any]:
    return {"type": "local_shell_call_output", "id": id, "output": text}


def _patch_output(result: ToolResult, id: str, text: str) -> dict[str, Any]:
    status = "failed" if result.is_error else "completed"
    return {"type": "apply_patch_call_output", "call_id": id, "status": status, "output": text}


TEXT_OUTPUTS: dict[str, Callable[[ToolResult, str, str], dict[str, Any]]] = {
    "shell_call": _shell_output,
    "local_shell_call": _local_shell_output,
    "apply_patch_call": _patch_output,
}


# --- parts ---


def own_part(block: Any, role: Role = "user") -> Any:
    """A block as a part of this provider's content, or as an item; None for what has no place
    there."""
    match block:
        case Text():
            return _text_part(block.text, role)
        case Media():
            return _media_part(block)
        case Opaque():
            return _text_part(block.text, role) if block.raw is None else copied(block.raw)
        case ToolCall():
            return usual_call(block, block.id)
        case Thinking():
            return _usual_reasoning(block)
        case _:
            return None


def _text_part(text: str, role: Role) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": kind, "text": text}


def is_sayable(media: Media) -> bool:
    """Whether there is a part for such media."""
    return media.media in ("image", "document") and bool(media.data or media.url or media.file)


def _media_part(media: Media) -> dict[str, Any]:
    if not is_sayable(media):
        return _text_part(shown_text(media), "user")
    if media.media == "image":
        return {"type": "input_image", **_image(media), "detail": media.detail or "auto"}
    name = {"filename": media.name} if media.name else {}
    return {"type": "input_file", **name, **_file(media)}


def _image(media: Media) -> dict[str, str]:
    url = data_url(media) if media.data else media.url
    return {"image_url": url} if url else {"file_id": media.file}


def _file(media: Media) -> dict[str, str]:
    if media.data:
        return {"file_data": data_url(media)}
    return {"file_url": media.url} if media.url else {"file_id": media.file}
