"""The keyword arguments of `client.responses.create`: the whole input, instructions, and tools.

The input is always sent whole: nothing refers to a response that the provider may have stored, so a
page that was compacted is what the model sees. Here the page is seen as one list for the first
time: a call id that was used before gets a new one, and what lost its other half (reasoning without
what it led to, an output without its call) is left out and reported. Neighbours: `tools` makes the
definitions, `render` made the items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from refold.dialects.openai_responses.items import (
    PROVIDERS_PAIRS,
    REASONED,
    answer_of,
    call_of,
    is_said,
    kind_of,
    without_id,
)
from refold.dialects.openai_responses.tools import definitions
from refold.dialects.outside import text_in
from refold.dialects.protocol import REFOLDS, CacheMarks
from refold.dialects.system import prompt_text
from refold.dialects.wire import plain_id, report


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
    items = list(_distinct_calls(_distinct_items(list(_by_reasoning(messages)))))
    kwargs: dict[str, Any] = {"input": _paired(items, lost)}
    instructions = prompt_text(system)
    if instructions:
        kwargs["instructions"] = instructions
    defined = definitions(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


def _by_reasoning(items: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The items; one that came alone after its reasoning has no id where that is no longer on the
    page: by the id the provider would miss it."""
    is_reasoned = False
    for item in items:
        is_reasoned = is_said(item) and (is_reasoned or kind_of(item) == "reasoning")
        if REASONED in item:
            item = {key: value for key, value in item.items() if key != REASONED}
            yield item if is_reasoned else without_id(item)
        else:
            yield item


# --- every id once ---


def _distinct_items(items: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The items with every item id once: what was recorded twice is said again, but is not the
    same item."""
    seen: set[str] = set()
    for item in items:
        id = text_in(item, "id")
        refers = kind_of(item) == "item_reference" or answer_of(item)
        yield without_id(item) if id in seen and not refers else item
        if id:
            seen.add(id)


def _distinct_calls(items: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The items with every call id once: where another turn used the id before, call and output
    get a new one."""
    used: dict[str, int] = {}
    for item in items:
        id = call_of(item)
        if id:
            used[id] = used.get(id, 0) + 1
        else:
            id = answer_of(item)
        if used.get(id, 0) > 1:
            key = "call_id" if text_in(item, "call_id") else "id"
            item = {**item, key: plain_id(f"{id} {used[id]}", 64)}
        yield item


# --- pairs ---


def _paired(items: list[dict[str, Any]], lost: list[str]) -> list[dict[str, Any]]:
    """The items without those that lost their other half; backwards, because reasoning needs
    what follows it."""
    known = set(map(_offers, items))
    kept: list[dict[str, Any]] = []
    for item in reversed(items):
        follower = kept[-1] if kept else None
        fault = _order_fault(item, follower) or _pair_fault(item, known)
        if fault:
            report(lost, fault)
        else:
            kept.append(item)
    return kept[::-1]


def _order_fault(item: dict[str, Any], follower: dict[str, Any] | None) -> str:
    """Why an item cannot be sent before the one that follows it."""
    kind = kind_of(item)
    if kind == "compaction_trigger" and follower is not None:
        return "a compaction_trigger is only sent as the last item"
    if kind != "reasoning":
        return ""
    if follower is None or not is_said(follower):
        return "reasoning is not sent without what it led to"
    if not text_in(item, "id") and not text_in(item, "encrypted_content"):
        return "reasoning is not sent with neither id nor encrypted_content"
    return ""


def _pair_fault(item: dict[str, Any], known: set[str]) -> str:
    """Why an item cannot be sent without another one."""
    wanted = _wants(item)
    if not wanted or wanted in known:
        return ""
    return f"a {kind_of(item)} is not sent without what it answers"


def _offers(item: Mapping[str, Any]) -> str:
    """The id by which another item may answer this one."""
    kind = kind_of(item)
    if kind == "mcp_approval_request":
        return text_in(item, "id")
    if kind in PROVIDERS_PAIRS.values():
        return text_in(item, "call_id")
    return call_of(item)


def _wants(item: Mapping[str, Any]) -> str:
    """The id of what this item answers."""
    kind = kind_of(item)
    if kind == "mcp_approval_response":
        return text_in(item, "approval_request_id")
    if kind in PROVIDERS_PAIRS:
        return text_in(item, "call_id")
    return answer_of(item)
