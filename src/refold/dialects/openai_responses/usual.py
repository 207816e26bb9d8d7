"""OpenAI Responses, the usual form: what a message, a call's output and a part are where nothing
else is known.

`parse` compares with it, and keeps a form only where it differs; `render` falls back on it.
Neighbours: `openai_responses_render` is the way out, `openai_responses_items` has the forms.
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
from refold.dialects.openai_responses.items import INPUT_PARTS, OUTPUT_PARTS
from refold.dialects.wire import copied, is_gone, is_text, shown_text, text_within


def usual(message: Message, id: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """The message as this provider usually has it."""
    first = message.blocks[0] if message.blocks else None
    if type(first) is ToolResult:
        return [usual_output(first, id(first.call))]
    role: Role = "user" if message.role == "tool" else message.role
    items: list[dict[str, Any]] = []
    said: list[Block] = []
    for block in message.blocks:
        item = _item_of(block, role, id)
        if item is None:
            said.append(block)
            continue
        items += _usual_message(role, said) if said else []
        said = []
        items += [item] if item else []
    return items + (_usual_message(role, said) if said or not items else [])


def _item_of(block: Block, role: Role, id: Callable[[str], str]) -> dict[str, Any] | None:
    """A block that is an item of its own, an empty one for thinking that is gone; None for a
    part of a message."""
    match block:
        case ToolCall():
            return usual_call(block, id(block.id))
        case Thinking():
            return {} if is_gone(block) else _usual_reasoning(block)
        case Text() | Opaque(raw=None) if role == "assistant":
            # One item each: a list of parts is taken only from the provider's own answers.
            return {"role": role, "content": shown_text(block)}
        case Opaque(raw=dict(raw)) if role == "assistant" and raw.get("type") not in (
            *INPUT_PARTS,
            *OUTPUT_PARTS,
        ):
            made: dict[str, Any] = copied(raw)
            return made
        case _:
            return None


def _usual_message(role: Role, said: Sequence[Block]) -> list[dict[str, Any]]:
    if len(said) == 1 and is_text(said[0]):
        return [{"role": role, "content": shown_text(said[0])}]
    parts = (own_part(block, role) for block in said)
    return [{"role": role, "content": [part for part in parts if part is not None]}]


def usual_call(call: ToolCall, id: str) -> dict[str, Any]:
    arguments = argument_text(call.arguments)
    return {"type": "function_call", "call_id": id, "name": call.name, "arguments": arguments}


def argument_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _usual_reasoning(thinking: Thinking) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
    named = {"id": thinking.signature} if thinking.signature else {}
    sealed = {"encrypted_content": thinking.data} if thinking.data else {}
    return {"type": "reasoning", **named, "summary": summary, **sealed}


# --- outputs ---


def usual_output(result: ToolResult, id: str, kind: str = "function_call") -> dict[str, Any]:
    """What answers a call of that kind."""
    make = TEXT_OUTPUTS.get(kind)
    if make is not None:
        return make(result, id, text_within(result.content))
    many = len(result.content) > 1 or any(type(part) is Media for part in result.content)
    output = [own_part(part) for part in result.content] if many else text_within(result.content)
    return {"type": f"{kind}_output", "call_id": id, "output": output}


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
            return {
                "type": "output_text" if role == "assistant" else "input_text",
                "text": block.text,
            }
        case Media():
            return _media_part(block)
        case Opaque():
            return copied(block.raw) if block.raw is not None else own_part(Text(block.text), role)
        case ToolCall():
            return usual_call(block, block.id)
        case Thinking():
            return _usual_reasoning(block)
        case _:
            return None


def is_sayable(media: Media) -> bool:
    return media.media in ("image", "document") and bool(media.data or media.url or media.file)


def _media_part(media: Media) -> dict[str, Any]:
    if not is_sayable(media):
        return {"type": "input_text", "text": shown_text(media)}
    url = f"data:{media.mime};base64,{media.data}" if media.data else media.url
    if media.media == "image":
        image = {"image_url": url} if url else {"file_id": media.file}
        return {"type": "input_image", **image, "detail": media.detail or "auto"}
    file = (
        {"file_data": url} if media.data else {"file_url": url} if url else {"file_id": media.file}
    )
    return {"type": "input_file", **({"filename": media.name} if media.name else {}), **file}
