"""The items of the Responses API: their kinds, their forms, and the usual rendering of blocks.

A call that the caller answers has a `call_id`, and so has its output; calls that the provider runs
itself have none. `form_of` and `filled_result` place blocks in items, as `original_form` does.
`parse` keeps a form only if the usual rendering differs; `render` falls back on the usual
rendering. Neighbours: `parse` is the way in, `render` the way out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
from refold.dialects.input import text_in
from refold.dialects.original_form import HOLE, Carving, Holes, Misfit, Placed, Rename, Show, fill
from refold.dialects.wire import (
    Path,
    Same,
    copied,
    data_url,
    is_gone,
    is_text,
    present,
    shown_text,
    text_within,
)

NAME = "openai_responses"

# Each kind's tool name, empty if the call names its tool, and the key of its arguments.
CALLS: dict[str, tuple[str, str]] = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "computer_call": ("computer", "action"),
    "shell_call": ("shell", "action"),
    "local_shell_call": ("local_shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
# Calls of these kinds accept any content as output; others have an output shape of their own.
OPEN_CALLS = ("function_call", "custom_tool_call")
# Calls of these kinds have outputs that can express any text.
TEXT_CALLS = ("shell_call", "local_shell_call", "apply_patch_call")
# Outputs of calls that the provider makes and answers itself, over several responses, and the
# calls that they answer.
PROVIDERS_PAIRS = {"program_output": "program", "tool_search_output": "tool_search_call"}
PROVIDERS_CALLS = frozenset(PROVIDERS_PAIRS.values())
INPUT_PARTS = ("input_text", "input_image", "input_file")
OUTPUT_PARTS = ("output_text", "refusal")
# Items that control the provider; they belong neither to the user nor to the model.
CONTROLS = frozenset(
    {"compaction_trigger", "additional_tools", "configuration_update", "mcp_approval_response"}
)
ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


def kind_of(item: Mapping[str, Any]) -> str:
    """The type of an item; a message may have none."""
    kind = item.get("type")
    if type(kind) is str or isinstance(kind, str):  # the first check needs no call
        return kind
    return "message" if "role" in item else ""


def call_of(item: Mapping[str, Any]) -> str:
    """The id of a call that the caller answers; empty for any other item."""
    kind = kind_of(item)
    if not kind.endswith("_call") or kind in PROVIDERS_CALLS:
        return ""
    return text_in(item, "call_id")


def answer_of(item: Mapping[str, Any]) -> str:
    """The id of the call that an item answers; empty if it answers none."""
    kind = kind_of(item)
    if not kind.endswith("_output") or kind in PROVIDERS_PAIRS:
        return ""
    id = text_in(item, "call_id")
    if not id and kind == "local_shell_call_output":
        return text_in(item, "id")
    return id


def is_said(item: Mapping[str, Any]) -> bool:
    """Whether the item is the model's: a message, reasoning or a call."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind not in CONTROLS and not answer_of(item)


def without_id(item: dict[str, Any]) -> dict[str, Any]:
    """The item without its id, so that the provider does not take it for its stored one."""
    return {key: value for key, value in item.items() if key != "id"}


# --- forms ---

_PLACES: dict[type, tuple[tuple[Path, str], ...]] = {
    Text: (
        (("text",), "text"), (("refusal",), "text"), (("stdout",), "text"), (("stderr",), "text"),
    ),
    Thinking: (
        (("summary", 0, "text"), "text"), (("content", 0, "text"), "text"),
        (("encrypted_content",), "data"), (("id",), "signature"),
    ),
    ToolCall: (
        (("call_id",), "id"), (("arguments",), "arguments"), (("input",), "arguments"),
        (("action",), "arguments"), (("operation",), "arguments"),
    ),
    Media: (
        (("image_url",), "url"), (("image_url",), "data_url"), (("file_url",), "url"),
        (("file_data",), "data_url"), (("file_id",), "file"),
    ),
}  # fmt: skip


def form_of(items: list[dict[str, Any]], placed: Placed, show: Show, same: Same) -> Any:
    """The form: `[block count, items with their blocks carved out]`. The output of a result may be
    text, a list of parts, or one object."""
    if len(items) == 1 and placed and isinstance(placed[0][1], ToolResult):
        item, result = items[0], placed[0][1]
        content, output = result.content, item.get("output")
        path: Path = (0, "output")
        placed = [((0, "call_id" if text_in(item, "call_id") else "id"), Text(result.call))]
        if isinstance(output, list):
            placed += [((*path, index), part) for index, part in enumerate(content)]
        elif isinstance(output, str):
            placed.append((path, Text(text_within(content))))
        elif content:
            placed.append((path, content[0]))
    return Carving(show, same, _holes_in).form_of(items, placed)


def _holes_in(value: Any, block: Block, carving: Carving) -> Holes:
    holes: Holes = {}
    for path, name in _PLACES.get(type(block), ()):
        if path[0] not in value:
            continue
        # The first match is the field; the same text elsewhere belongs to something else.
        if name not in holes.values() and carving.holds(value, path, block, name):
            holes[path] = name
    return holes


def filled_result(form: Any, result: ToolResult, show: Show, rename: Rename) -> dict[str, Any]:
    """The item made from a form and a result. Misfit if an edit left content that the form cannot
    hold."""
    item: dict[str, Any] = form[1][0]
    content, output = result.content, item.get("output")
    if output == {HOLE: [1, {HOLE: "text"}]}:
        content = (Text(text_within(content)),)
    elif output is None and content:
        raise Misfit  # it arrived without content and has some now
    elif item["type"].removesuffix("_output") not in OPEN_CALLS:
        # A notice cannot be a part of an output in the call's own shape.
        forms = output if isinstance(output, list) else [output]
        if any(is_text(part) and type(hole[HOLE]) is int for hole, part in zip(forms, content)):
            raise Misfit
    blocks = (Text(rename(result.call)), *content)
    filled: dict[str, Any] = fill(form, blocks, show, str)[0]
    return filled


# --- the usual form ---

_ANY_PARTS = (*INPUT_PARTS, *OUTPUT_PARTS)


def usual(message: Message, rename: Rename = str) -> list[dict[str, Any]]:
    """The message in the provider's usual form."""
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
    """A block that is a separate item, empty for removed thinking; None for a part of a message."""
    match block:
        case ToolCall():
            return usual_call(block, rename(block.id))
        case Thinking():
            return {} if is_gone(block) else _usual_reasoning(block)
        case Text() | Opaque(raw=None) if role == "assistant":
            # One item each: a list of parts is accepted only in the provider's own answers.
            return {"role": role, "content": shown_text(block)}
        case Opaque(raw=dict(raw)) if role == "assistant" and raw.get("type") not in _ANY_PARTS:
            item: dict[str, Any] = copied(raw)
            return item
        case _:
            return None


def _usual_message(role: Role, blocks: Sequence[Block]) -> dict[str, Any]:
    if len(blocks) == 1 and is_text(blocks[0]):
        return {"role": role, "content": shown_text(blocks[0])}
    parts = present(own_part(block, role) for block in blocks)
    return {"role": role, "content": parts}


def usual_call(call: ToolCall, id: str) -> dict[str, Any]:
    """A call as a function call."""
    arguments = json_text(call.arguments)
    return {"type": "function_call", "call_id": id, "name": call.name, "arguments": arguments}


def json_text(arguments: Any) -> str:
    """Arguments as text; JSON if they are not text."""
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
    """The output of a call of that kind: parts if there are several or media, else text."""
    content, type_name = result.content, f"{kind}_output"
    text = text_within(content)
    match kind:
        case "shell_call":
            outcome = {"type": "exit", "exit_code": int(result.is_error)}
            chunk = {"stdout": text, "stderr": "", "outcome": outcome}
            return {"type": type_name, "call_id": id, "output": [chunk]}
        case "local_shell_call":
            return {"type": type_name, "id": id, "output": text}
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            return {"type": type_name, "call_id": id, "status": status, "output": text}
    has_parts = len(content) > 1 or any(type(part) is Media for part in content)
    output = [own_part(part) for part in content] if has_parts else text
    return {"type": type_name, "call_id": id, "output": output}


# --- parts ---


def own_part(block: Any, role: Role = "user") -> Any:
    """A block as a part of this provider's content, or as an item; None if it can be neither."""
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


def is_sendable(media: Media) -> bool:
    """Whether the provider has a part for such media."""
    return media.media in ("image", "document") and bool(media.data or media.url or media.file)


def _media_part(media: Media) -> dict[str, Any]:
    if not is_sendable(media):
        return _text_part(shown_text(media), "user")
    content = {"file_id": media.file}
    if media.media == "image":
        if media.data or media.url:
            content = {"image_url": data_url(media) if media.data else media.url}
        return {"type": "input_image", **content, "detail": media.detail or "auto"}
    if media.data:
        content = {"file_data": data_url(media)}
    elif media.url:
        content = {"file_url": media.url}
    name = {"filename": media.name} if media.name else {}
    return {"type": "input_file", **name, **content}
