"""Faults for which the Responses API would refuse a request.

The rules are independent of `render` and the laws, which they test. Sources are the SDK's types and
errors reported by users: ids have the prefix of their type, calls and outputs pair by `call_id`,
reasoning is followed by its answer. Each fault names its position: "input[3]: …". Neighbour: `wire`
has the checks that validators share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from refold.checked import quoted
from refold.dialects.faults import (
    Faults,
    faults_in,
    is_name,
    kind_in,
    matches,
    option_faults,
    takes_object,
    tool_faults,
)
from refold.dialects.wire import is_object_text, is_taken, media_of_url, objects_in

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID_LENGTH_MAX = 64
_GIVEN = {"input_text": ("text",), "input_image": ("image_url", "file_id"),
          "input_file": ("file_data", "file_url", "file_id")}  # fmt: skip
_PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "user": _GIVEN,
    "system": _GIVEN,
    "developer": _GIVEN,
    "assistant": {"output_text": ("text",), "refusal": ("refusal",)},
}
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
# Required fields of each kind of call besides its call_id, and their types.
_CALLS: dict[str, dict[str, type]] = {
    "function_call": {"name": str, "arguments": str},
    "custom_tool_call": {"name": str, "input": str},
    "computer_call": {},
    "shell_call": {"action": dict},
    "local_shell_call": {"action": dict},
    "apply_patch_call": {"operation": dict},
}
_OUTPUTS: dict[str, tuple[type, ...]] = {
    "function_call_output": (str, list),
    "custom_tool_call_output": (str, list),
    "computer_call_output": (dict,),
    "shell_call_output": (list,),
    "local_shell_call_output": (str,),
    "apply_patch_call_output": (str, type(None)),
}
_HOSTED = frozenset({
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_list_tools", "mcp_call", "mcp_approval_request", "tool_search_call", "tool_search_output",
    "program", "program_output",
})  # fmt: skip
_NOT_SAID = frozenset({*_OUTPUTS, "mcp_approval_response", "compaction_trigger", "additional_tools",
                       "configuration_update"})  # fmt: skip
_OTHERS = frozenset({"reasoning", "compaction", "item_reference", *_HOSTED, *_NOT_SAID})
# Items that request an answer from the caller or from the provider itself, and items that answer
# them, each with the field of its id.
_ASKING = {"mcp_approval_request": "id", "program": "call_id"}
_ANSWERING = {"mcp_approval_response": "approval_request_id", "program_output": "call_id"}

Item = dict[str, Any]


def check(request: Mapping[str, Any]) -> list[str]:
    """All faults for which the provider would refuse the request."""
    items = request.get("input")
    outside: list[str] = []
    if "tools" in request:
        outside += tool_faults(request["tools"], _tool_faults)
    if not isinstance(request.get("instructions", ""), str):
        outside.append("instructions: not text")
    names = [
        tool.get("name")
        for tool in objects_in(request.get("tools"))
        if tool.get("type") in ("function", "custom")
    ]
    outside += option_faults("openai_responses", request, names)
    if isinstance(items, str) and items:
        return outside
    if not isinstance(items, list) or not items:
        return ["input: not a list with at least one item", *outside]
    faults = list(faults_in("input", items, _item_faults))
    objects = [item if isinstance(item, dict) else {} for item in items]
    for rule in (_pair_faults, _reasoning_faults, _repeated_faults, _answer_faults):
        faults += rule(objects)
    if request.get("store") is False:
        faults += faults_in("input", objects, _unstored_faults)
    return [*faults, *outside]


def _type(item: Mapping[str, Any]) -> str:
    kind = item.get("type")
    if kind is not None:
        return kind if isinstance(kind, str) else ""
    if item.keys() == {"id"}:
        return "item_reference"
    return "message" if "role" in item else ""


# --- one item ---


def _item_faults(item: Any) -> Faults:
    if not isinstance(item, dict):
        yield "not an object"
        return
    kind = _type(item)
    if kind in _RULES:
        yield from _RULES[kind](item)
    elif kind in _CALLS:
        yield from _call_faults(item, kind)
    elif kind in _OUTPUTS:
        yield from _output_faults(item, kind)
    elif kind not in _OTHERS:
        yield f"an item of type {item.get('type')!r}"
    id = item.get("id")
    prefix = _PREFIXES.get(kind, "")
    if id is None:
        if kind == "item_reference":
            yield "a reference without an id"
    elif not matches(_ID, id):
        yield f"id is {quoted(id, 80)}"
    elif not id.startswith(prefix):
        yield f"id {id!r} does not begin with {prefix!r}"


def _message_faults(item: Item) -> Faults:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or role not in _PARTS:
        yield f"unknown role {role!r}"
        return
    if not isinstance(content, str | list):
        yield f"content is {type(content).__name__}"
    elif not content:
        yield "empty content"
    elif isinstance(content, list):
        where = f"a {role} message"
        kinds = _PARTS[role]
        yield from faults_in("content", content, lambda part: _part_faults(part, kinds, where))


def _part_faults(part: Any, kinds: dict[str, tuple[str, ...]], where: str) -> Faults:
    kind = kind_in(part)
    if not isinstance(kind, str) or kind not in kinds:
        yield f"a part of type {kind!r} in {where}"
    elif not any(is_name(part.get(key)) for key in kinds[kind]):
        yield f"an empty {kind}"
    elif kind == "input_image" and isinstance(url := part.get("image_url"), str):
        mime = media_of_url("image", url).mime
        if not is_taken("openai_responses", "image", mime):
            yield f"an image of type {mime}"


def _thought_faults(item: Item) -> Faults:
    if not isinstance(item.get("summary"), list):
        yield "reasoning without a summary"
    if "status" in item:
        yield "status is not taken back with reasoning"
    if not is_name(item.get("id")) and not is_name(item.get("encrypted_content")):
        yield "reasoning with neither id nor encrypted_content"


def _compaction_faults(item: Item) -> Faults:
    if not is_name(item.get("encrypted_content")):
        yield "a compaction without its encrypted_content"


_RULES = {
    "message": _message_faults,
    "reasoning": _thought_faults,
    "compaction": _compaction_faults,
}


# --- calls and outputs ---


def _call_faults(item: Item, kind: str) -> Faults:
    yield from _call_id_faults(item.get("call_id"))
    for key, required in _CALLS[kind].items():
        value = item.get(key)
        if not isinstance(value, required):
            yield f"{key} is {type(value).__name__}"
        elif key == "name" and not matches(_NAME, value):
            yield f"name is {quoted(value, 80)}"
        elif key == "arguments" and isinstance(value, str) and not is_object_text(value):
            yield f"arguments are not a JSON object: {quoted(value, 40)}"


def _call_id_faults(id: Any) -> Faults:
    if not is_name(id):
        yield f"call_id is {id!r}"
    elif len(id) > _CALL_ID_LENGTH_MAX:
        yield f"call_id has {len(id)} characters"


def _output_faults(item: Item, kind: str) -> Faults:
    yield from _call_id_faults(_answered(item))
    output = item.get("output")
    if not isinstance(output, _OUTPUTS[kind]):
        yield f"output is {type(output).__name__}"
    if isinstance(output, list) and str in _OUTPUTS[kind]:
        if not output:
            yield "an empty list as output"
        yield from faults_in("output", output, lambda part: _part_faults(part, _GIVEN, "an output"))


def _answered(item: Item) -> Any:
    """The id of the call that an output answers."""
    id = item.get("call_id")
    if id is None and _type(item) == "local_shell_call_output":
        return item.get("id")
    return id


def _pair_faults(items: list[Item]) -> Faults:
    """Requires exactly one output per call, after it and of its type."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    for index, item in enumerate(items):
        kind = _type(item)
        id = item.get("call_id") if kind in _CALLS else None
        if kind in _OUTPUTS:
            id = _answered(item)
        position = f"input[{index}]"
        if not isinstance(id, str):
            continue
        if kind in _CALLS:
            if id in seen:
                yield f"{position}: a second call with the call_id {id!r}"
            seen.add(id)
            waiting[id] = kind
        elif id not in waiting:
            yield f"{position}: a {'second' if id in seen else 'stray'} output for {id!r}"
        elif f"{waiting.pop(id)}_output" != kind:
            yield f"{position}: a {kind} for a call of another type"
    yield from (f"input: the call {id!r} has no output" for id in waiting)


def _answer_faults(items: list[Item]) -> Faults:
    """Requires that answers to the provider's own tools follow their requests."""
    requested: set[str] = set()
    for index, item in enumerate(items):
        kind = _type(item)
        if kind in _ASKING:
            requested.add(str(item.get(_ASKING[kind])))
        elif kind in _ANSWERING:
            id = item.get(_ANSWERING[kind])
            if str(id) not in requested:
                yield f"input[{index}]: a stray {kind} for {quoted(id, 80)}"
        elif kind == "compaction_trigger" and index < len(items) - 1:
            yield f"input[{index}]: a compaction_trigger that is not the last item"


# --- reasoning and ids ---


def _reasoning_faults(items: list[Item]) -> Faults:
    for index, (item, follower) in enumerate(zip(items, [*items[1:], {}])):
        if _type(item) == "reasoning" and not _is_said(follower):
            yield f"input[{index}]: reasoning without its following item"


def _is_said(item: Item) -> bool:
    """Whether the item is the model's, and so may follow from reasoning."""
    kind = _type(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return bool(item) and kind not in _NOT_SAID


def parted_faults(request: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[str]:
    """Faults of items that still have the provider's id, but not the reasoning before them in an
    earlier request. A single request cannot show that: a model may answer without reasoning."""
    before, now = _reasoning_by_id(earlier["input"]), _reasoning_by_id(request["input"])
    return [
        f"the item {id!r} is parted from its reasoning"
        for id, reasoning in now.items()
        if before.get(id) and reasoning != before[id]
    ]


def _reasoning_by_id(items: list[Item]) -> dict[str, str]:
    """The reasoning before each of the model's items, by the item's id."""
    reasoning_by_id: dict[str, str] = {}
    reasoning = ""
    for item in items:
        if not _is_said(item):
            reasoning = ""
        elif _type(item) == "reasoning":
            reasoning = str(item.get("id") or item.get("encrypted_content"))
        elif is_name(item.get("id")):
            reasoning_by_id[item["id"]] = reasoning
    return reasoning_by_id


def _repeated_faults(items: list[Item]) -> Faults:
    named = (item for item in items if is_name(item.get("id")))
    ids = Counter(item["id"] for item in named if _type(item) != "item_reference")
    for id, count in ids.items():
        if count > 1:
            yield f"input: {count} items with the id {id!r}"


def _unstored_faults(item: Item) -> Faults:
    """The faults of an item if the provider has not stored it (`store=False`)."""
    kind = _type(item)
    if kind == "item_reference":
        yield "a reference to an item that was not stored"
    if kind == "reasoning" and not is_name(item.get("encrypted_content")):
        yield "reasoning that was not stored, without its encrypted_content"


# --- tools ---


def _tool_faults(tool: Any) -> Faults:
    kind = kind_in(tool)
    if not is_name(kind):
        yield f"a tool of type {kind!r}"
    elif kind in ("function", "custom"):
        name, parameters = tool.get("name"), tool.get("parameters")
        if not matches(_NAME, name):
            yield f"name is {quoted(name, 80)}"
        if not takes_object(parameters):
            yield "parameters are not the schema of an object"
