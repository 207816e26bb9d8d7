"""Tools that no kept conversation called, left to the provider's tool search: the model gets their
definitions only when it looks for them.

Tools come before everything else in the provider's cache, so a conversation defers the same ones
from its first call on, or none; a note in its log names them. Nothing is deferred for a client with
a tool search of its own, for a model without one, and where no tool was called yet. Neighbours:
`observer` sends, `own_tools.tools` adds refold's own tools.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

import refold
from refold import decoding
from refold.edges.proxy.body import MARK, ParsedCall
from refold.log.notes import Noted

NOTE = "proxy-deferred"
READ_MAX = 50  # conversations, the newest
SEARCHES: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "openai_responses": {"type": "tool_search"},
}
# The first versions that search for tools.
SINCE = {
    "anthropic": (re.compile(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?"), (4, 0)),
    "openai_responses": (re.compile(r"gpt-(\d+)(?:\.(\d+))?"), (5, 4)),
}
_CLIENTS = (None, "custom", "function")  # the types of tools that a client runs


def can_search(dialect: str, model: str) -> bool:
    """Whether the provider searches for tools when this model asks."""
    if dialect not in SINCE:
        return False
    pattern, since = SINCE[dialect]
    found = pattern.search(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= since


def deferrable(parsed: ParsedCall, called: Collection[str]) -> tuple[str, ...]:
    """The client's tools that nobody called; none if all of them would be, or nobody called any."""
    tools = [one for one in parsed.tools or () if isinstance(one, dict)]
    if not called or not can_search(parsed.dialect, parsed.model) or _searches(tools):
        return ()
    names = [str(one.get("name")) for one in tools if one.get("type") in _CLIENTS]
    unused = tuple(name for name in names if name not in called)
    return unused if len(unused) < len(tools) else ()


def with_deferred(parsed: ParsedCall, names: Collection[str]) -> ParsedCall:
    """The call with these tools deferred, and the search for them after the client's tools."""
    if not names or not parsed.has_tools:
        return parsed
    raws = decoding.decode(parsed.fields["tools"], list[Raw])
    tools = [msgspec.json.decode(raw) for raw in raws]
    if _searches(tools):
        return parsed
    mark = None
    for at, tool in enumerate(tools):
        if tool.get("name") in names:
            # A deferred tool is not in the cached front, so its mark moves to the search.
            mark = tool.pop(MARK, mark)
            raws[at] = Raw(msgspec.json.encode({**tool, "defer_loading": True}))
    search = SEARCHES[parsed.dialect] | ({} if mark is None else {MARK: mark})
    listed = b",".join([*map(bytes, raws), msgspec.json.encode(search)])
    return replace(parsed, fields={**parsed.fields, "tools": Raw(b"[" + listed + b"]")})


def _searches(tools: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the client defers tools itself."""
    kinds = (str(one.get("type")) for one in tools)
    return any(kind.startswith("tool_search") for kind in kinds) or any(
        one.get("defer_loading") for one in tools
    )


def deferred_in(notes: Sequence[Noted]) -> tuple[str, ...]:
    """The tools that a conversation deferred from its first call on, from its notes."""
    data = next((note.data for note in reversed(notes) if note.kind == NOTE), None)
    names = data.get("tools") if isinstance(data, Mapping) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


def note(context: refold.Context, names: Sequence[str]) -> None:
    """Notes which tools a conversation defers."""
    said = f"left to the provider's tool search: {', '.join(names)}"
    context.note(NOTE, {"tools": list(names), "text": said}, by="proxy")
