"""The keyword arguments of `client.responses.create`: the whole input, instructions, and tools.

The input is always sent whole: nothing refers to a response that the provider may have stored, so a
page that was compacted is what the model sees. Here the page is seen as one list for the first
time: a call id that was used before gets a new one, and what lost its other half (reasoning without
what it led to, an output without its call) is left out and reported. Neighbours: `tools` makes the
definitions, `render` made the items.

OpenAI Responses: tool definitions in their flat shape, the name at the top level.

Neighbours: `dialects.tools` reads definitions of every shape; `request` sends them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from refold.dialects.input import plain, text_in, without_marks
from refold.dialects.openai_responses.items import (
    NAME,
    PROVIDERS_CALLS,
    PROVIDERS_PAIRS,
    REASONED,
    answer_of,
    call_of,
    is_said,
    kind_of,
    without_id,
)
from refold.dialects.protocol import REFOLDS, CacheMarks
from refold.dialects.tools import functions, report_left_out
from refold.dialects.wire import plain_id, prompt_text, report


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
    caching: CacheMarks = REFOLDS,
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache automatically: no
    marks."""
    items = _distinct_calls(_distinct_items(_by_reasoning(map(_read, messages))))
    kwargs: dict[str, Any] = {"input": _paired(list(items), lost)}
    instructions = prompt_text(system)
    if instructions:
        kwargs["instructions"] = instructions
    defined = definitions(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


class _Read(Struct, frozen=True):
    """An item and what is asked about it more than once: its kind, the id of the call that it
    makes, that of the call that it answers, and whether the model said it."""

    item: dict[str, Any]
    kind: str
    call: str
    answer: str
    is_said: bool


def _read(item: dict[str, Any]) -> _Read:
    return _Read(item, kind_of(item), call_of(item), answer_of(item), is_said(item))


def _by_reasoning(items: Iterable[_Read]) -> Iterator[_Read]:
    """The items; one that came alone after its reasoning has no id where that is no longer on the
    page: by the id the provider would miss it."""
    is_reasoned = False
    for one in items:
        is_reasoned = one.is_said and (is_reasoned or one.kind == "reasoning")
        if REASONED in one.item:
            item = {key: value for key, value in one.item.items() if key != REASONED}
            yield _read(item if is_reasoned else without_id(item))
        else:
            yield one


# --- every id once ---


def _distinct_items(items: Iterable[_Read]) -> Iterator[_Read]:
    """The items with every item id once: what was recorded twice is said again, but is not the
    same item."""
    seen: set[str] = set()
    for one in items:
        id = text_in(one.item, "id")
        refers = one.kind == "item_reference" or one.answer
        yield _read(without_id(one.item)) if id in seen and not refers else one
        if id:
            seen.add(id)


def _distinct_calls(items: Iterable[_Read]) -> Iterator[_Read]:
    """The items with every call id once: where another turn used the id before, call and output
    get a new one."""
    used: dict[str, int] = {}
    for one in items:
        id = one.call or one.answer
        if one.call:
            used[id] = used.get(id, 0) + 1
        if used.get(id, 0) > 1:
            key = "call_id" if text_in(one.item, "call_id") else "id"
            one = _read({**one.item, key: plain_id(f"{id} {used[id]}", 64)})
        yield one


# --- pairs ---


def _paired(items: Sequence[_Read], lost: list[str]) -> list[dict[str, Any]]:
    """The items without those that lost their other half; backwards, because reasoning needs
    what follows it."""
    known = set(map(_offers, items))
    kept: list[_Read] = []
    for one in reversed(items):
        fault = _order_fault(one, kept[-1] if kept else None) or _pair_fault(one, known)
        if fault:
            report(lost, fault)
        else:
            kept.append(one)
    return [one.item for one in reversed(kept)]


def _order_fault(one: _Read, follower: _Read | None) -> str:
    """Why an item cannot be sent before the one that follows it."""
    if one.kind == "compaction_trigger" and follower is not None:
        return "a compaction_trigger is only sent as the last item"
    if one.kind != "reasoning":
        return ""
    if follower is None or not follower.is_said:
        return "reasoning is not sent without what it led to"
    if not text_in(one.item, "id") and not text_in(one.item, "encrypted_content"):
        return "reasoning is not sent with neither id nor encrypted_content"
    return ""


def _pair_fault(one: _Read, known: set[str]) -> str:
    """Why an item cannot be sent without another one."""
    wanted = _wants(one)
    if not wanted or wanted in known:
        return ""
    return f"a {one.kind} is not sent without what it answers"


def _offers(one: _Read) -> str:
    """The id by which another item may answer this one."""
    if one.kind == "mcp_approval_request":
        return text_in(one.item, "id")
    return text_in(one.item, "call_id") if one.kind in PROVIDERS_CALLS else one.call


def _wants(one: _Read) -> str:
    """The id of what this item answers."""
    if one.kind == "mcp_approval_response":
        return text_in(one.item, "approval_request_id")
    return text_in(one.item, "call_id") if one.kind in PROVIDERS_PAIRS else one.answer


# Other providers type the tools that they run themselves by a date.
_DATED = re.compile(r".*_\d{8}")


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as the Responses API takes them."""
    return [made for tool in tools or () for made in _defined(tool, lost)]


def _defined(tool: Any, lost: list[str]) -> list[dict[str, Any]]:
    """The tool in this provider's flat shape; none for one that another provider runs."""
    given = tool if isinstance(tool, Mapping) else plain(tool)
    kind = given.get("type") if isinstance(given, Mapping) else None
    if isinstance(kind, str):
        if _is_flat(given, kind):
            return [without_marks(given)]
        if _DATED.fullmatch(kind):
            report_left_out(given, NAME, lost)
            return []
    return [_flattened(made) for made in functions([given], NAME, lost)]


def _is_flat(tool: Mapping[str, Any], kind: str) -> bool:
    if kind in ("function", "custom"):
        return isinstance(tool.get("name"), str) and "input_schema" not in tool
    return not _DATED.fullmatch(kind)


def _flattened(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A wrapped tool with its definition at the top level."""
    if tool["type"] == "custom":
        return {"type": "custom", **tool["custom"], **_flat_format(tool["custom"])}
    # Strict is the default here and nowhere else.
    return {"type": "function", "strict": False, **tool["function"]}


def _flat_format(custom: Mapping[str, Any]) -> dict[str, Any]:
    """The grammar of a custom tool, if it has one, without its wrapper."""
    wrapped = custom.get("format")
    grammar = wrapped.get("grammar") if isinstance(wrapped, Mapping) else None
    return {"format": {"type": "grammar", **grammar}} if isinstance(grammar, Mapping) else {}
