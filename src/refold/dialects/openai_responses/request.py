"""The keyword arguments of `client.responses.create`: the whole input, instructions, and tools in
their flat shape.

The input is always sent whole: nothing refers to a response that the provider may have stored, so a
page that was compacted is what the model sees. Here the page is seen as one list for the first
time: a call id that was used before gets a new one, and what lost its other half (reasoning without
what it led to, an output without its call) is left out and reported. Neighbours: `tools` translates
definitions, `openai_responses_render` made the items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from refold.dialects import definitions
from refold.dialects.openai_responses.items import (
    NAME,
    PROVIDERS_PAIRS,
    answer_of,
    call_of,
    is_said,
    kind_of,
)
from refold.dialects.wire import MARKS, plain, plain_id, report, text_in

# Other providers type the tools that they run themselves by a date.
_DATED = re.compile(r".*_\d{8}")


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache by itself: no
    marks."""
    kwargs: dict[str, Any] = {"input": _paired(list(_distinct(_named_once(messages))), lost)}
    instructions = _instructions(system)
    if instructions:
        kwargs["instructions"] = instructions
    defined = [made for tool in tools or () for made in _defined(tool, lost)]
    return {**kwargs, "tools": defined} if defined else kwargs


def _instructions(system: Any) -> str:
    if isinstance(system, str):
        return system if system.strip() else ""
    return "\n\n".join(block["text"] for block in definitions.text_blocks(system))


# --- the input as one list ---


def _named_once(items: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The items with every item id once: what was recorded twice is said again, but is not the
    same item."""
    seen: set[str] = set()
    for item in items:
        id = text_in(item, "id")
        again = id in seen and kind_of(item) != "item_reference" and not answer_of(item)
        yield {key: value for key, value in item.items() if key != "id"} if again else item
        seen.update((id,) if id else ())


def _distinct(items: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
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


def _paired(items: list[dict[str, Any]], lost: list[str]) -> list[dict[str, Any]]:
    """The items without those that lost their other half; backwards, because reasoning needs
    what follows it."""
    known = {name for item in items if (name := _offers(item))}
    kept: list[dict[str, Any]] = []
    for item in reversed(items):
        fault = _fault(item, kept[-1] if kept else None, known)
        if fault:
            report(lost, fault)
        else:
            kept.append(item)
    return kept[::-1]


def _fault(item: dict[str, Any], follower: dict[str, Any] | None, known: set[str]) -> str:
    kind = kind_of(item)
    if kind == "reasoning" and (follower is None or not is_said(follower)):
        return "reasoning is not sent without what it led to"
    if kind == "reasoning" and not (text_in(item, "id") or text_in(item, "encrypted_content")):
        return "reasoning is not sent with neither id nor encrypted_content"
    if kind == "compaction_trigger" and follower is not None:
        return "a compaction_trigger is only sent as the last item"
    wanted = _wants(item)
    return f"a {kind} is not sent without what it answers" if wanted and wanted not in known else ""


def _offers(item: Mapping[str, Any]) -> str:
    """The id by which another item may answer this one."""
    if kind_of(item) == "mcp_approval_request":
        return text_in(item, "id")
    return text_in(item, "call_id") if kind_of(item) in PROVIDERS_PAIRS.values() else call_of(item)


def _wants(item: Mapping[str, Any]) -> str:
    """The id of what this item answers."""
    if kind_of(item) == "mcp_approval_response":
        return text_in(item, "approval_request_id")
    return text_in(item, "call_id") if kind_of(item) in PROVIDERS_PAIRS else answer_of(item)


# --- tools ---


def _defined(tool: Any, lost: list[str]) -> list[dict[str, Any]]:
    """The tool in this provider's flat shape; none for one that another provider runs."""
    given = tool if isinstance(tool, Mapping) else plain(tool)
    kind = given.get("type") if isinstance(given, Mapping) else None
    if isinstance(kind, str) and _is_flat(given, kind):
        return [{key: value for key, value in given.items() if key not in MARKS}]
    if isinstance(kind, str) and _DATED.fullmatch(kind):
        report(lost, f"the tool {given.get('name')!r} of type {kind!r} is not sent to {NAME}")
        return []
    return [_flattened(made) for made in definitions.for_openai([given], lost)]


def _flattened(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool of Chat Completions with its definition at the top level."""
    if tool["type"] == "custom":
        return {"type": "custom", **tool["custom"], **_flat_format(tool["custom"])}
    # Strict is the default here and nowhere else.
    return {"type": "function", "strict": False, **tool["function"]}


def _is_flat(tool: Mapping[str, Any], kind: str) -> bool:
    if kind in ("function", "custom"):
        return isinstance(tool.get("name"), str) and "input_schema" not in tool
    return not _DATED.fullmatch(kind)


def _flat_format(custom: Mapping[str, Any]) -> dict[str, Any]:
    format = custom.get("format")
    grammar = format.get("grammar") if isinstance(format, Mapping) else None
    return {"format": {"type": "grammar", **grammar}} if isinstance(grammar, Mapping) else {}
