"""What the Responses API would refuse, read from the provider's side and written apart from
`render` and the laws.

Each fault names its place: "input[3]: …". Sources: the SDK's types, and the errors that users
report: ids have the prefix of their type, calls and outputs pair by `call_id`, reasoning is
followed by what it led to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

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
# What a call of each kind needs beside its call_id, and of which type.
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
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools",
    "mcp_call", "mcp_approval_request", "tool_search_call", "tool_search_output", "program", "program_output",
})  # fmt: skip
_NOT_SAID = frozenset({*_OUTPUTS, "mcp_approval_response", "compaction_trigger", "additional_tools",
                       "configuration_update"})  # fmt: skip
_OTHERS = frozenset({"reasoning", "compaction", "item_reference", *_HOSTED, *_NOT_SAID})


def check(request: Mapping[str, Any]) -> list[str]:
    """Every fault that the provider would refuse the request for."""
    items = request.get("input")
    faults = list(_tool_faults(request))
    if not isinstance(request.get("instructions", ""), str):
        faults.append("instructions: not text")
    if isinstance(items, str) and items:
        return faults
    if not isinstance(items, list) or not items:
        return ["input: not a list with at least one item", *faults]
    found = [f"input[{i}]: {fault}" for i, item in enumerate(items) for fault in _item_faults(item)]
    sound = [item if isinstance(item, dict) else {} for item in items]
    for rule in (_pair_faults, _reasoning_faults, _repeated, _answer_faults):
        found += rule(sound)
    if request.get("store") is False:
        found += _unstored_faults(sound)
    return [*found, *faults]


def _type(item: Mapping[str, Any]) -> str:
    kind = item.get("type")
    if kind is None:
        return "message" if "role" in item else "item_reference" if item.keys() == {"id"} else ""
    return kind if isinstance(kind, str) else ""


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


# --- one item ---


def _item_faults(item: Any) -> Iterator[str]:
    if not isinstance(item, dict):
        yield "not an object"
        return
    kind = _type(item)
    if kind == "message":
        yield from _message_faults(item)
    elif kind in _CALLS:
        yield from _call_faults(item, kind)
    elif kind in _OUTPUTS:
        yield from _output_faults(item, kind)
    elif kind not in _OTHERS:
        yield f"an item of type {item.get('type')!r}"
    if kind == "reasoning":
        yield from _thought_faults(item)
    if kind == "compaction" and not _is_name(item.get("encrypted_content")):
        yield "a compaction without its encrypted_content"
    yield from _id_faults(item, kind)


def _id_faults(item: dict[str, Any], kind: str) -> Iterator[str]:
    id = item.get("id")
    if id is None:
        if kind == "item_reference":
            yield "a reference without an id"
        return
    if not isinstance(id, str) or not _ID.fullmatch(id):
        yield f"id is {id!r:.80}"
    elif not id.startswith(_PREFIXES.get(kind, "")):
        yield f"id {id!r} does not begin with {_PREFIXES[kind]!r}"


def _message_faults(item: dict[str, Any]) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or role not in _PARTS:
        yield f"unknown role {role!r}"
        return
    if not isinstance(content, str | list):
        yield f"content is {type(content).__name__}"
    elif not content:
        yield "empty content"
    for index, part in enumerate(content if isinstance(content, list) else ()):
        yield from (
            f"content[{index}]: {fault}"
            for fault in _part_faults(part, _PARTS[role], f"a {role} message")
        )


def _part_faults(part: Any, known: dict[str, tuple[str, ...]], where: str) -> Iterator[str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in known:
        yield f"a part of type {kind!r} in {where}"
    elif not any(_is_name(part.get(key)) for key in known[kind]):
        yield f"an empty {kind}"


def _thought_faults(item: dict[str, Any]) -> Iterator[str]:
    if not isinstance(item.get("summary"), list):
        yield "reasoning without a summary"
    if "status" in item:
        yield "status is not taken back with reasoning"
    if not _is_name(item.get("id")) and not _is_name(item.get("encrypted_content")):
        yield "reasoning with neither id nor encrypted_content"


# --- calls and outputs ---


def _call_faults(item: dict[str, Any], kind: str) -> Iterator[str]:
    yield from _call_id_faults(item.get("call_id"))
    for key, wanted in _CALLS[kind].items():
        value: Any = item.get(key)
        if not isinstance(value, wanted):
            yield f"{key} is {type(value).__name__}"
        elif key == "name" and not _NAME.fullmatch(item[key]):
            yield f"name is {value!r:.80}"


def _call_id_faults(id: Any) -> Iterator[str]:
    if not _is_name(id):
        yield f"call_id is {id!r}"
    elif len(id) > _CALL_ID_LENGTH_MAX:
        yield f"call_id has {len(id)} characters"


def _output_faults(item: dict[str, Any], kind: str) -> Iterator[str]:
    yield from _call_id_faults(_answered(item))
    output = item.get("output")
    if not isinstance(output, _OUTPUTS[kind]):
        yield f"output is {type(output).__name__}"
    if isinstance(output, list) and str in _OUTPUTS[kind]:
        if not output:
            yield "an empty list as output"
        for index, part in enumerate(output):
            yield from (
                f"output[{index}]: {fault}" for fault in _part_faults(part, _GIVEN, "an output")
            )


def _answered(item: dict[str, Any]) -> Any:
    id = item.get("call_id")
    return item.get("id") if id is None and _type(item) == "local_shell_call_output" else id


def _pair_faults(items: list[dict[str, Any]]) -> Iterator[str]:
    """Every call is answered, once, behind it and in its own type; nothing else is answered."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    for index, item in enumerate(items):
        kind = _type(item)
        id = (
            item.get("call_id") if kind in _CALLS else _answered(item) if kind in _OUTPUTS else None
        )
        if not isinstance(id, str):
            continue
        if kind in _CALLS:
            if id in seen:
                yield f"input[{index}]: a second call with the call_id {id!r}"
            seen.add(id)
            waiting[id] = kind
        elif id not in waiting:
            yield f"input[{index}]: a {'second' if id in seen else 'stray'} output for {id!r}"
        elif f"{waiting.pop(id)}_output" != kind:
            yield f"input[{index}]: a {kind} for a call of another type"
    yield from (f"input: the call {id!r} has no output" for id in waiting)


def _answer_faults(items: list[dict[str, Any]]) -> Iterator[str]:
    """What the provider's own tools ask for is there before it is answered."""
    asked: set[Any] = set()
    for index, item in enumerate(items):
        kind = _type(item)
        if kind in ("mcp_approval_request", "program"):
            asked.add(str(item.get("id" if kind == "mcp_approval_request" else "call_id")))
        elif kind in ("mcp_approval_response", "program_output"):
            wanted = item.get(
                "approval_request_id" if kind == "mcp_approval_response" else "call_id"
            )
            if str(wanted) not in asked:
                yield f"input[{index}]: a stray {kind} for {wanted!r:.80}"
        elif kind == "compaction_trigger" and index < len(items) - 1:
            yield f"input[{index}]: a compaction_trigger that is not the last item"


# --- reasoning and ids ---


def _reasoning_faults(items: list[dict[str, Any]]) -> Iterator[str]:
    for index, item in enumerate(items):
        if _type(item) != "reasoning":
            continue
        follower = items[index + 1] if index + 1 < len(items) else {}
        given = _type(follower) == "message" and follower.get("role") != "assistant"
        if not follower or given or _type(follower) in _NOT_SAID:
            yield f"input[{index}]: reasoning without its following item"


def _repeated(items: list[dict[str, Any]]) -> list[str]:
    ids = Counter(
        item["id"] for item in items if _is_name(item.get("id")) and _type(item) != "item_reference"
    )
    return [f"input: {count} items with the id {id!r}" for id, count in ids.items() if count > 1]


def _unstored_faults(items: list[dict[str, Any]]) -> Iterator[str]:
    """With `store=False` the provider knows nothing by its id."""
    for index, item in enumerate(items):
        if _type(item) == "item_reference":
            yield f"input[{index}]: a reference to an item that was not stored"
        if _type(item) == "reasoning" and not _is_name(item.get("encrypted_content")):
            yield f"input[{index}]: reasoning that was not stored, without its encrypted_content"


# --- tools ---


def _tool_faults(request: Mapping[str, Any]) -> Iterator[str]:
    if "tools" not in request:
        return
    tools = request["tools"]
    if not isinstance(tools, list) or not tools:
        yield "tools: not a list with at least one tool"
        return
    for index, tool in enumerate(tools):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if not _is_name(kind):
            yield f"tools[{index}]: a tool of type {kind!r}"
        elif kind in ("function", "custom"):
            yield from (f"tools[{index}]: {fault}" for fault in _definition_faults(tool))


def _definition_faults(tool: dict[str, Any]) -> Iterator[str]:
    if not isinstance(tool.get("name"), str) or not _NAME.fullmatch(tool["name"]):
        yield f"name is {tool.get('name')!r:.80}"
    if not isinstance(tool.get("parameters"), dict | None):
        yield f"parameters are {type(tool['parameters']).__name__}"
