"""The items of the Responses API: who says them, which call a tool, which answer a call, and their
forms.

A call that the caller answers has a `call_id`, and so has its output; what the provider runs itself
has none. `form_of` and `filled_result` say where the blocks stand in items, in the language of
`form`. Neighbours: `parse` is the way in, `render` the way out.

OpenAI Responses, the usual form: what a message, a call's output and a part are where nothing
else is known.

`parse` compares with it, and keeps a form only where it differs; `render` falls back on it.
Neighbours: `render` is the way out, `items` has the forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from refold.dialects import REASONED as REASONED
from refold.dialects.form import HOLE, Carving, Holes, Misfit, Placed, Rename, Show, fill
from refold.dialects.input import text_in
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

# The name of a call that does not say one, and the key of its arguments.
CALLS: dict[str, tuple[str, str]] = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "computer_call": ("computer", "action"),
    "shell_call": ("shell", "action"),
    "local_shell_call": ("local_shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
# Calls of these kinds take any content as their output; others a shape of their own.
OPEN_CALLS = ("function_call", "custom_tool_call")
# Calls that the provider makes and answers itself, over several responses: by output, what it
# answers.
PROVIDERS_PAIRS = {"program_output": "program", "tool_search_output": "tool_search_call"}
PROVIDERS_CALLS = frozenset(PROVIDERS_PAIRS.values())
INPUT_PARTS = ("input_text", "input_image", "input_file")
OUTPUT_PARTS = ("output_text", "refusal")
# What steers the provider; neither the user nor the model says it.
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
    """The type of an item; a message may come without."""
    kind = item.get("type")
    if type(kind) is str or isinstance(kind, str):  # the first costs no call
        return kind
    return "message" if "role" in item else ""


def call_of(item: Mapping[str, Any]) -> str:
    """The id of the call that an item makes and the caller answers, or nothing."""
    kind = kind_of(item)
    if not kind.endswith("_call") or kind in PROVIDERS_CALLS:
        return ""
    return text_in(item, "call_id")


def answer_of(item: Mapping[str, Any]) -> str:
    """The id of the call that an item answers, or nothing."""
    kind = kind_of(item)
    if not kind.endswith("_output") or kind in PROVIDERS_PAIRS:
        return ""
    id = text_in(item, "call_id")
    if not id and kind == "local_shell_call_output":
        return text_in(item, "id")
    return id


def is_said(item: Mapping[str, Any]) -> bool:
    """Whether the model said this, in words, thoughts or calls."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind not in CONTROLS and not answer_of(item)


def without_id(item: dict[str, Any]) -> dict[str, Any]:
    """The item without its own id, so that it is not taken for the one the provider knows."""
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
    """The items with their blocks carved out, after the count of these: `[count, items]`."""
    if len(items) == 1 and placed and isinstance(placed[0][1], ToolResult):
        placed = _placed_result(items[0], placed[0][1])
    return Carving(show, same, _holes_in).form_of(items, placed)


def _holes_in(value: Any, block: Block, carving: Carving) -> Holes:
    holes: Holes = {}
    for path, name in _PLACES.get(type(block), ()):
        if path[0] not in value:
            continue
        # The first place that holds a field is its own; the same text elsewhere is somebody else's.
        if name not in holes.values() and carving.holds(value, path, block, name):
            holes[path] = name
    return holes


def _placed_result(item: dict[str, Any], result: ToolResult) -> Placed:
    """Where a result's id and content stand: its output may be text, a list of parts, or one
    object."""
    key = "call_id" if text_in(item, "call_id") else "id"
    id: Placed = [((0, key), Text(result.call))]
    return id + _placed_output(item.get("output"), result.content)


def _placed_output(output: Any, content: tuple[Text | Media | Opaque, ...]) -> Placed:
    path: Path = (0, "output")
    if isinstance(output, list):
        return [((*path, index), part) for index, part in enumerate(content)]
    if isinstance(output, str):
        return [(path, Text(text_within(content)))]
    return [(path, content[0])] if content else []


def filled_result(form: Any, result: ToolResult, show: Show, rename: Rename) -> dict[str, Any]:
    """The item that a form and a result make. Misfit if the content became something its place
    cannot hold."""
    content = _fitting_content(form[1][0], result)
    blocks = (Text(rename(result.call)), *content)
    made: dict[str, Any] = fill(form, blocks, show, str)[0]
    return made


def _fitting_content(item: dict[str, Any], result: ToolResult) -> tuple[Text | Media | Opaque, ...]:
    """The content of a result in as many blocks as the form of its item has places."""
    content, output = result.content, item.get("output")
    if output == {HOLE: [1, {HOLE: "text"}]}:
        return (Text(text_within(content)),)
    if output is None and content:
        raise Misfit  # it came without content and has some now
    if item["type"].removesuffix("_output") not in OPEN_CALLS:
        _check_shape(output, content)
    return content


def _check_shape(output: Any, content: tuple[Text | Media | Opaque, ...]) -> None:
    """Misfit where an output in the call's own shape became a notice: as a part, that would
    stand in no such output."""
    forms = output if isinstance(output, list) else [output]
    if any(is_text(part) and type(form[HOLE]) is int for form, part in zip(forms, content)):
        raise Misfit


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
