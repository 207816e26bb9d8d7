"""The items of the Responses API: who says them, which call a tool, which answer a call, and their
forms.

A call that the caller answers has a `call_id`, and so has its output; what the provider runs itself
has none. `form_of` and `filled_result` say where the blocks stand in items, in the language of
`form`. Neighbours: `openai_responses` is the way in, `openai_responses_render` the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refold.core.model import Block, Media, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from refold.dialects.form import HOLE, Found, Misfit, Same, Show, carve, field_of, fill
from refold.dialects.wire import MISSING, Path, at, is_text, text_in, text_within

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
    return kind if isinstance(kind, str) else "message" if "role" in item else ""


def call_of(item: Mapping[str, Any]) -> str:
    """The id of the call that an item makes and the caller answers, or nothing."""
    kind = kind_of(item)
    return (
        text_in(item, "call_id")
        if kind.endswith("_call") and kind not in PROVIDERS_PAIRS.values()
        else ""
    )


def answer_of(item: Mapping[str, Any]) -> str:
    """The id of the call that an item answers, or nothing."""
    kind = kind_of(item)
    if not kind.endswith("_output") or kind in PROVIDERS_PAIRS:
        return ""
    return text_in(item, "call_id") or (
        text_in(item, "id") if kind == "local_shell_call_output" else ""
    )


def is_said(item: Mapping[str, Any]) -> bool:
    """Whether the model said this, in words, thoughts or calls."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind not in CONTROLS and not answer_of(item)


# --- forms ---

_PLACES: dict[type, tuple[tuple[Path, str], ...]] = {
    Text: ((("text",), "text"), (("refusal",), "text"), (("stdout",), "text"), (("stderr",), "text")),
    Thinking: (
        (("summary", 0, "text"), "text"), (("content", 0, "text"), "text"),
        (("encrypted_content",), "data"), (("id",), "signature"),
    ),
    ToolCall: ((("call_id",), "id"), *(((key,), "arguments") for key in ("arguments", "input", "action", "operation"))),
    Media: (
        (("image_url",), "url"), (("image_url",), "data_url"), (("file_url",), "url"), (("file_data",), "data_url"),
        (("file_id",), "file"),
    ),
}  # fmt: skip


def form_of(items: list[dict[str, Any]], found: Found, show: Show, same: Same) -> Any:
    """The items with their blocks carved out, behind the count of these: `[count, items]`."""
    if found and isinstance(found[0][1], ToolResult):
        found = _result_places(items[0], found[0][1])
    holes = {
        path: _reference(index, at(items, path), block, show, same)
        for index, (path, block) in enumerate(found)
    }
    return [len(found), carve(items, holes)]


def _reference(index: int, value: Any, block: Block, show: Show, same: Same) -> Any:
    if type(value) is str:
        return [index, {HOLE: "text"}]
    if same(value, show(block)):
        return index
    holes: dict[Path, Any] = {}
    for path, name in _PLACES.get(type(block), ()):
        # The first place that holds a field is its own; the same text elsewhere is somebody else's.
        if name not in holes.values() and same(at(value, path), field_of(block, name)):
            holes[path] = name
    return [index, carve(value, holes)]


def _result_places(item: dict[str, Any], result: ToolResult) -> Found:
    """Where a result's id and content stand: its output may be text, a list of parts, or one
    object."""
    key = "call_id" if text_in(item, "call_id") else "id"
    found: Found = [((0, key), Text(result.call))]
    output = item.get("output")
    if isinstance(output, list):
        return found + [((0, "output", index), part) for index, part in enumerate(result.content)]
    if isinstance(output, str):
        return [*found, ((0, "output"), Text(text_within(result.content)))]
    return [*found, ((0, "output"), result.content[0])] if result.content else found


def filled_result(
    form: Any, result: ToolResult, show: Show, name: Callable[[str], str]
) -> dict[str, Any]:
    """The item that a form and a result make. Misfit if the content became something its place
    cannot hold."""
    item = form[1][0]
    output = at(item, ("output",))
    content: tuple[Text | Media | Opaque, ...] = result.content
    if output == {HOLE: [1, {HOLE: "text"}]}:
        content = (Text(text_within(content)),)
    elif output in (MISSING, None) and content:
        raise Misfit  # it came without content and has some now
    elif item["type"].removesuffix("_output") not in OPEN_CALLS:
        _check_shape(output if isinstance(output, list) else [output], content)
    made: dict[str, Any] = fill(form, (Text(name(result.call)), *content), show, str)[0]
    return made


def _check_shape(forms: list[Any], content: tuple[Text | Media | Opaque, ...]) -> None:
    """Misfit where an output in the call's own shape became a notice: as a part, that would
    stand in no such output."""
    if any(is_text(part) and type(form[HOLE]) is int for form, part in zip(forms, content)):
        raise Misfit
