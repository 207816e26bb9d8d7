"""OpenAI Responses, repaired: an item that came in a shape that the provider refuses goes out in
one that it takes.

An id that the provider cannot have given is left out; a part that it takes nowhere is said as text;
a call that lacks what its type needs is said as a function call. Neighbours: `render` sends every
item through here that is not plain text, `dialects.repair` has what the dialects share.
"""

from __future__ import annotations

import re
from typing import Any

from refold.dialects.openai_responses.items import (
    INPUT_PARTS,
    NAME,
    OPEN_CALLS,
    OUTPUT_PARTS,
    kind_of,
    without_id,
)
from refold.dialects.repair import (
    KNOWN_PARTS,
    argument_text,
    fitting_name,
    is_data_url,
    refused_text,
)
from refold.dialects.wire import EMPTY, present, report

_NAME_LENGTH_MAX = 64
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
# Only these are known to the provider by nothing but their id.
NAMED_BY_ID = ("item_reference", "mcp_approval_request")
# Where the text or the address of a part stands.
_HELD: dict[str, tuple[str, ...]] = {
    "input_text": ("text",), "output_text": ("text",), "refusal": ("refusal",),
    "input_image": ("image_url", "file_id"), "input_file": ("file_data", "file_url", "file_id"),
}  # fmt: skip
_SHAPED = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}

Item = dict[str, Any]


def repaired(item: Item, lost: list[str]) -> Item | None:
    """The item as the provider takes it; None for one that says nothing."""
    kind = kind_of(item)
    item = _with_fitting_id(item, kind)
    if kind == "message":
        return _message(item, lost)
    if kind == "reasoning":
        return _reasoning(item, lost)
    if kind == "compaction" and not _is_text(item.get("encrypted_content")):
        report(lost, "a compaction without its encrypted_content is not sent")
        return None
    if kind in OPEN_CALLS:
        return _call(item, kind, lost)
    return _function_call(item, kind, lost) if _lacks_shape(item, kind) else item


def _with_fitting_id(item: Item, kind: str) -> Item:
    """The item without an id that the provider cannot have given it."""
    id = item.get("id")
    if "id" not in item or kind in NAMED_BY_ID or kind == "local_shell_call_output":
        return item
    if type(id) is str and _ID.fullmatch(id) and id.startswith(_PREFIXES.get(kind, "")):
        return item
    return item if id is None and kind != "reasoning" else without_id(item)


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value)


# --- messages ---


def _message(item: Item, lost: list[str]) -> Item | None:
    """A message without empty parts; None for an answer that says nothing, a note for anybody
    else's."""
    content, role = item.get("content"), item.get("role")
    if type(content) is list:
        content = item["content"] = _parts(content, role == "assistant", lost)
    elif type(content) is not str:
        content = item["content"] = refused_text(content, NAME, lost)
    if content:
        return item
    return None if role == "assistant" else {**item, "content": EMPTY}


def _parts(parts: list[Any], answers: bool, lost: list[str]) -> list[Item]:
    return present(_part(part, answers, lost) for part in parts)


def _part(part: Any, answers: bool, lost: list[str]) -> Item | None:
    """A part that may stand there, else the text in it; None for nothing."""
    kind = part.get("type") if type(part) is dict else None
    known = OUTPUT_PARTS if answers else INPUT_PARTS
    if kind is not None and kind in known:
        held = [part.get(key) for key in _HELD[kind]]
        if any(map(_is_sound, held)):
            return {key: value for key, value in part.items() if key != "parsed"}
        if kind not in ("input_image", "input_file"):
            return None
    elif type(kind) is str and kind not in KNOWN_PARTS:
        return part  # type: ignore[no-any-return]
    text = refused_text(part, NAME, lost)
    return {"type": "output_text" if answers else "input_text", "text": text} if text else None


def _is_sound(value: Any) -> bool:
    """Whether this is a text; a URL with its content in it must have content."""
    return _is_text(value) and (not value.startswith("data:") or is_data_url(value))


# --- other items ---


def _reasoning(item: Item, lost: list[str]) -> Item | None:
    """Reasoning with a summary and without a status; None if nothing says which it is."""
    if not _is_text(item.get("id")) and not _is_text(item.get("encrypted_content")):
        report(lost, "reasoning is not sent with neither id nor encrypted_content")
        return None
    kept = {key: value for key, value in item.items() if key != "status"}
    return kept if type(kept.get("summary")) is list else {**kept, "summary": []}


def _call(item: Item, kind: str, lost: list[str]) -> Item:
    """A call with a name and arguments that the provider takes."""
    key = "arguments" if kind == "function_call" else "input"
    name = fitting_name(item.get("name"), NAME, _NAME_LENGTH_MAX, lost)
    kept = {key: value for key, value in item.items() if key != "parsed_arguments"}
    return {**kept, "name": name, key: argument_text(item.get(key))}


def _lacks_shape(item: Item, kind: str) -> bool:
    """Whether a call of a type with a shape of its own came without it."""
    return kind in _SHAPED and type(item.get(_SHAPED[kind])) is not dict


def _function_call(item: Item, kind: str, lost: list[str]) -> Item:
    arguments = argument_text(item.get(_SHAPED[kind]))
    name = kind.removesuffix("_call")
    call = {"type": "function_call", "call_id": item.get("call_id"), "name": name}
    return {**call, "arguments": arguments}


def repaired_output(item: Item, lost: list[str]) -> Item:
    """An output without empty parts; an empty list is nothing, in words."""
    item = _with_fitting_id(item, kind_of(item))
    output = item.get("output")
    if kind_of(item).removesuffix("_output") not in OPEN_CALLS:
        return item
    if type(output) is list:
        item["output"] = _parts(output, False, lost) or ""
    elif type(output) is not str:
        item["output"] = refused_text(output, NAME, lost)
    return item
