"""What the Responses API refuses about items: shapes, pairs (P4), reasoning and what it led to (P5),
what was not stored (P6).

Items come here whole: what a reference or `previous_response_id` stands for is already in its
place. Neighbour: `responses_service` keeps what was issued.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.real.proxy.strict.seals import unseal
from tests.real.proxy.strict.wire import Json, Refusal, is_text, need

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_GIVEN = {
    "input_text": ("text",),
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_data", "file_url", "file_id"),
}
_SAID = {"output_text": ("text",), "refusal": ("refusal",)}
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
_HOSTED = (
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_list_tools", "mcp_call", "mcp_approval_request", "tool_search_call", "tool_search_output",
    "program", "program_output",
)  # fmt: skip
_GIVEN_KINDS = ("mcp_approval_response", "compaction_trigger", "additional_tools",
                "configuration_update")  # fmt: skip


def kind_of(item: Json) -> str:
    kind = item.get("type")
    if kind is None and item.keys() == {"id"}:
        return "item_reference"
    if kind is None and "role" in item:
        return "message"
    return str(kind)


def check_item(place: str, item: object) -> None:
    need(isinstance(item, dict), f"Invalid type for '{place}': expected an object.")
    assert isinstance(item, dict)
    kind = kind_of(item)
    if kind in _CHECKS:
        _CHECKS[kind](place, item)
    elif kind in _CALLS:
        _check_call(place, item, kind)
    elif kind in _OUTPUTS:
        _check_output(place, item, kind)
    else:
        known = kind in _HOSTED or kind in _GIVEN_KINDS or kind == "item_reference"
        need(known, f"Invalid value: '{kind}'. ({place}.type)", code="invalid_value")
    _check_id(place, item, kind)


def _check_id(place: str, item: Json, kind: str) -> None:
    id = item.get("id")
    if id is None:
        need(kind != "item_reference", f"Missing required parameter: '{place}.id'.")
        return
    is_id = isinstance(id, str) and _ID.fullmatch(id) is not None
    need(is_id, f"Invalid '{place}.id': {id!r}.")
    prefix = _PREFIXES.get(kind, "")
    message = f"Invalid '{place}.id': '{id}'. Expected an ID that begins with '{prefix}'."
    need(str(id).startswith(prefix), message, code="invalid_value")


def _check_message(place: str, item: Json) -> None:
    role, content = item.get("role"), item.get("content")
    known = role in ("user", "system", "developer", "assistant")
    need(known, f"Invalid value: {role!r}. ({place}.role)")
    need(isinstance(content, str | list), f"Invalid type for '{place}.content'.")
    need(content, f"Invalid '{place}.content': empty.")
    if isinstance(content, list):
        parts = _SAID if role == "assistant" else _GIVEN
        for index, part in enumerate(content):
            _check_part(f"{place}.content[{index}]", part, parts)


def _check_part(place: str, part: object, parts: dict[str, tuple[str, ...]]) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    known = isinstance(kind, str) and kind in parts
    need(known, f"Invalid value: {kind!r}. ({place}.type)", code="invalid_value")
    assert isinstance(part, dict) and isinstance(kind, str)
    has_any = any(is_text(part.get(name)) for name in parts[kind])
    need(has_any, f"Missing required parameter: '{place}.{parts[kind][0]}'.")


def _check_reasoning(place: str, item: Json) -> None:
    need(isinstance(item.get("summary"), list), f"Missing required parameter: '{place}.summary'.")
    need("status" not in item, f"Unknown parameter: '{place}.status'.", code="unknown_parameter")
    has_one = is_text(item.get("id")) or is_text(item.get("encrypted_content"))
    need(has_one, f"Missing required parameter: '{place}.id'.")


def _check_compaction(place: str, item: Json) -> None:
    text = item.get("encrypted_content")
    need(is_text(text), f"Missing required parameter: '{place}.encrypted_content'.")


_CHECKS: dict[str, Callable[[str, Json], None]] = {
    "message": _check_message,
    "reasoning": _check_reasoning,
    "compaction": _check_compaction,
}


def _check_call(place: str, item: Json, kind: str) -> None:
    _check_call_id(place, item.get("call_id"))
    for key, wanted in _CALLS[kind].items():
        need(isinstance(item.get(key), wanted), f"Missing required parameter: '{place}.{key}'.")
    if "name" in _CALLS[kind]:
        is_name = re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"]) is not None
        need(is_name, f"Invalid '{place}.name': string does not match pattern.")


def _check_call_id(place: str, id: object) -> None:
    need(is_text(id), f"Missing required parameter: '{place}.call_id'.")
    message = f"Invalid '{place}.call_id': string too long. Expected at most 64 characters."
    need(len(str(id)) <= 64, message, code="string_above_max_length")


def _check_output(place: str, item: Json, kind: str) -> None:
    _check_call_id(place, pair_id(item))
    output = item.get("output")
    need(isinstance(output, _OUTPUTS[kind]), f"Invalid type for '{place}.output'.")
    if isinstance(output, list) and str in _OUTPUTS[kind]:
        need(output, f"Invalid '{place}.output': empty array.")
        for index, part in enumerate(output):
            _check_part(f"{place}.output[{index}]", part, _GIVEN)


def pair_id(item: Json) -> object:
    if item.get("call_id") is None and kind_of(item) == "local_shell_call_output":
        return item.get("id")
    return item.get("call_id")


# --- the list ---


def check_pairs(items: list[Json]) -> None:
    """P4: calls and outputs pair by `call_id`, the output after its call."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    for item in items:
        kind, id = kind_of(item), str(pair_id(item))
        if kind in _CALLS:
            need(id not in seen, f"Duplicate call_id found: {id}.")
            seen.add(id)
            waiting[id] = kind
        elif kind in _OUTPUTS:
            is_waited = f"{waiting.pop(id, '')}_output" == kind
            need(is_waited, f"No tool call found for function call output with call_id {id}.")
    if waiting:
        raise Refusal(f"No tool output found for function call {next(iter(waiting))}.")


def check_answers(items: list[Json]) -> None:
    """What the provider's own tools ask for stands before its answer."""
    asked: set[object] = set()
    for index, item in enumerate(items):
        kind = kind_of(item)
        if kind in ("mcp_approval_request", "program"):
            asked.add(item.get("id" if kind == "mcp_approval_request" else "call_id"))
        wanted = {"mcp_approval_response": "approval_request_id", "program_output": "call_id"}
        if kind in wanted:
            is_asked = item.get(wanted[kind]) in asked
            need(is_asked, f"No request found for {kind} {item.get(wanted[kind])!r}.")
        is_last = kind != "compaction_trigger" or index == len(items) - 1
        need(is_last, "'compaction_trigger' must be the last input item.")


def is_said(item: Json) -> bool:
    """Whether the model said this."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind not in _OUTPUTS and kind not in _GIVEN_KINDS


def check_reasoning(items: list[Json], led_by: dict[str, str]) -> None:
    """P5: reasoning stands before what it led to, and what it led to behind it."""
    reasoning = ""
    for index, item in enumerate(items):
        kind = kind_of(item)
        if kind == "reasoning":
            follower = items[index + 1] if index + 1 < len(items) else {"role": "user"}
            message = f"Item '{item.get('id')}' of type 'reasoning' was provided without its "
            need(is_said(follower), message + "required following item.")
            reasoning = str(item.get("id"))
            continue
        if not is_said(item):
            reasoning = ""
            continue
        needed = led_by.get(str(item.get("id")), "")
        message = f"Item '{item.get('id')}' of type '{kind}' was provided without its required "
        need(not needed or needed == reasoning, message + f"'reasoning' item: '{needed}'.")


def check_ids(items: list[Json]) -> None:
    ids = [item["id"] for item in items if is_text(item.get("id"))]
    for id in ids:
        message = f"Duplicate item found with id {id}. Remove duplicate items from your input."
        need(ids.count(id) == 1, message)


def check_seals(items: list[Json], account: str, stored: set[str]) -> None:
    """P6: reasoning is known by its id, or brings its own content, which this server sealed."""
    for item in items:
        if kind_of(item) not in ("reasoning", "compaction"):
            continue
        text, id = item.get("encrypted_content"), str(item.get("id"))
        if text is None:
            message = f"Item with id '{id}' not found. Items are not persisted when `store` is "
            message += "set to false. Try again with `store` set to true, or remove this item."
            need(id in stored, message, status=404)
            continue
        note = unseal(text)
        is_ours = note is not None and note["account"] == account
        is_whole = is_ours and (item.get("id") is None or note["id"] == id)
        message = f"The encrypted content for item {id} could not be verified."
        need(is_whole, message, code="invalid_encrypted_content")
