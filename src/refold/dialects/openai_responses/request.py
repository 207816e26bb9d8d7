"""Requests to OpenAI Responses: the keyword arguments of `client.responses.create`.

The input is always complete and never refers to a stored response, so the model sees the compacted
page. This sees the whole page: a repeated call id gets a new one, and an item without its
counterpart (reasoning without its answer, an output without its call) is left out and reported.
Tools have a flat shape. Neighbours: `render` builds the items, `dialects.tools` reads definitions
of every shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import Struct

from refold.dialects import REASONED
from refold.dialects.input import plain, text_in, without_marks
from refold.dialects.openai_responses.items import (
    NAME,
    PROVIDERS_CALLS,
    PROVIDERS_PAIRS,
    answer_of,
    call_of,
    is_said,
    kind_of,
    without_id,
)
from refold.dialects.protocol import REFOLDS, Arranged, CacheMarks
from refold.dialects.tools import functions, report_left_out, typed
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
    """The keyword arguments of the call. There are no marks: the provider caches automatically."""
    kwargs: dict[str, Any] = {"input": arranged(messages, lost).messages}
    instructions = prompt_text(system)
    if instructions:
        kwargs["instructions"] = instructions
    defined = definitions(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


def arranged(messages: list[dict[str, Any]], lost: list[str]) -> Arranged:
    """The items with distinct ids, without those whose counterpart is missing."""
    items = list(_distinct_calls(_distinct_items(_by_reasoning(map(_read, messages)))))
    sent = _paired(items, lost)
    numbers = count()
    places = [next(numbers) if is_sent else None for is_sent in sent]
    return Arranged([read.item for read, is_sent in zip(items, sent) if is_sent], places)


class _Read(Struct, frozen=True):
    """An item, its kind, the id of the call it makes or answers, and whether it is the model's."""

    item: dict[str, Any]
    kind: str
    call: str
    answer: str
    is_said: bool


def _read(item: dict[str, Any]) -> _Read:
    return _Read(item, kind_of(item), call_of(item), answer_of(item), is_said(item))


def _by_reasoning(items: Iterable[_Read]) -> Iterator[_Read]:
    """The items. An item that arrived separately, after its reasoning, loses its id if the
    reasoning is no longer on the page, because the id would make the provider look for it."""
    is_reasoned = False
    for read in items:
        is_reasoned = read.is_said and (is_reasoned or read.kind == "reasoning")
        if REASONED in read.item:
            item = {key: value for key, value in read.item.items() if key != REASONED}
            yield _read(item if is_reasoned else without_id(item))
        else:
            yield read


# --- distinct ids ---


def _distinct_items(items: Iterable[_Read]) -> Iterator[_Read]:
    """The items with distinct ids: an item that was recorded twice is sent twice, but the second
    time without its id."""
    seen: set[str] = set()
    for read in items:
        id = text_in(read.item, "id")
        refers = read.kind == "item_reference" or read.answer
        yield _read(without_id(read.item)) if id in seen and not refers else read
        if id:
            seen.add(id)


def _distinct_calls(items: Iterable[_Read]) -> Iterator[_Read]:
    """The items with distinct call ids: if an earlier turn used the id, call and output get a new
    one."""
    used: dict[str, int] = {}
    for read in items:
        id = read.call or read.answer
        if read.call:
            used[id] = used.get(id, 0) + 1
        if used.get(id, 0) > 1:
            key = "call_id" if text_in(read.item, "call_id") else "id"
            read = _read({**read.item, key: plain_id(f"{id} {used[id]}", 64)})
        yield read


# --- pairs ---


def _paired(items: Sequence[_Read], lost: list[str]) -> list[bool]:
    """Which items have their counterpart. Reads them backwards, because reasoning needs its
    answer."""
    answerable = set(map(_answerable_id, items))
    follower: _Read | None = None
    are_sent: list[bool] = []
    for read in reversed(items):
        fault = _order_fault(read, follower)
        answered = read.answer
        if read.kind == "mcp_approval_response":
            answered = text_in(read.item, "approval_request_id")
        elif read.kind in PROVIDERS_PAIRS:
            answered = text_in(read.item, "call_id")
        if not fault and answered and answered not in answerable:
            fault = f"a {read.kind} is not sent without what it answers"
        are_sent.append(not fault)
        if fault:
            report(lost, fault)
        else:
            follower = read
    return are_sent[::-1]


def _order_fault(read: _Read, follower: _Read | None) -> str:
    """Why an item cannot be sent before its follower; empty if it can."""
    if read.kind == "compaction_trigger" and follower is not None:
        return "a compaction_trigger is only sent as the last item"
    if read.kind != "reasoning":
        return ""
    if follower is None or not follower.is_said:
        return "reasoning is not sent without what it led to"
    if not text_in(read.item, "id") and not text_in(read.item, "encrypted_content"):
        return "reasoning is not sent with neither id nor encrypted_content"
    return ""


def _answerable_id(read: _Read) -> str:
    """The id by which another item may answer this one."""
    if read.kind == "mcp_approval_request":
        return text_in(read.item, "id")
    return text_in(read.item, "call_id") if read.kind in PROVIDERS_CALLS else read.call


# --- tools ---

# Types of tools that other providers run have a date.
_DATED = re.compile(r".*_\d{8}")


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as the Responses API accepts them: flat, and none that another provider runs."""
    defined: list[dict[str, Any]] = []
    for tool in tools or ():
        fields = tool if isinstance(tool, Mapping) else plain(tool)
        kind = fields.get("type") if isinstance(fields, Mapping) else None
        if kind in ("function", "custom"):
            is_flat = isinstance(fields.get("name"), str) and "input_schema" not in fields
        elif isinstance(kind, str) and _DATED.fullmatch(kind):
            report_left_out(fields, NAME, lost)
            continue
        else:
            is_flat = isinstance(kind, str)
        if is_flat:
            defined.append(typed(without_marks(fields)))
        else:
            defined += map(_flattened, functions([fields], NAME, lost))
    return defined


def _flattened(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A wrapped tool with its definition, and its grammar, at the top level."""
    if tool["type"] != "custom":
        # Strict is the default here and nowhere else.
        return {"type": "function", "strict": False, **tool["function"]}
    flat = {"type": "custom", **tool["custom"]}
    wrapped = flat.get("format")
    grammar = wrapped.get("grammar") if isinstance(wrapped, Mapping) else None
    return (
        {**flat, "format": {"type": "grammar", **grammar}} if isinstance(grammar, Mapping) else flat
    )
