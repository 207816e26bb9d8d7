"""Routes that find things: search over the conversations of an organization, and its memory.

The user's own memory is on the user's machine and has no route here. Neighbours: `search` and
`memory` do the work.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from refold.edges.server.logs import BASE, Count
from refold.edges.server.route import Call, Route
from refold.errors import Invalid
from refold.memory.entry import MemoryEntry
from refold.memory.semantic import SemanticMemory
from refold.search.hits import Hit
from refold.search.searcher import Searcher

LIMIT_MAX = 100
TEXT_MAX = 10_000
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Text
    limit: Limit = 10
    conversation: str | None = None
    role: str | None = None
    tool: str | None = None
    since: Count | None = None
    until: Count | None = None


class Found(Struct, frozen=True, kw_only=True):
    hits: list[Hit]


class MemoryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    limit: Limit = 10
    scope: Annotated[str, Meta(max_length=100)] = "project"
    as_of: Count | None = None


class Remembered(Struct, frozen=True, kw_only=True):
    entries: list[MemoryEntry]


class MemoryBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    content: Text
    tags: list[str] = field(default_factory=list)
    scope: Annotated[str, Meta(max_length=100)] = "project"
    replaces: list[str] = field(default_factory=list)


class ScopeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scope: Annotated[str, Meta(max_length=100)] = "project"


class Forgot(Struct, frozen=True, kw_only=True):
    entries: tuple[str, ...]


def search(call: Call) -> Found:
    asked = call.asked(SearchQuery)
    searcher = Searcher(call.store, embedder=False)
    try:
        hits = searcher.search(
            asked.q,
            limit=asked.limit,
            conversation=asked.conversation,
            role=asked.role,
            tool=asked.tool,
            since=asked.since,
            until=asked.until,
        )
    finally:
        searcher.close()
    return Found(hits=hits)


def _memory(call: Call, scope: str) -> SemanticMemory:
    """The memory of the organization; Invalid for the user's, which is not on the server."""
    if scope.lower() == "user":
        raise Invalid("the memory of a user is on the user's machine", hint="scope=project")
    return SemanticMemory(call.store, scope=scope, embedder=False)


def recall(call: Call) -> Remembered:
    asked = call.asked(MemoryQuery)
    memory = _memory(call, asked.scope)
    try:
        if not asked.q.strip():
            found = memory.list(limit=asked.limit, scope=asked.scope, as_of=asked.as_of)
        else:
            found = memory.retrieve(asked.q, asked.limit, scope=asked.scope, as_of=asked.as_of)
    finally:
        memory.close()
    return Remembered(entries=found)


def remember(call: Call) -> MemoryEntry:
    given = call.given(MemoryBody)
    memory = _memory(call, given.scope)
    try:
        return memory.store(
            given.content, tags=given.tags, scope=given.scope, replaces=given.replaces
        )
    finally:
        memory.close()


def forget(call: Call) -> Forgot:
    memory = _memory(call, call.asked(ScopeQuery).scope)
    try:
        return Forgot(entries=memory.forget(call.path["entry"]).entries)
    finally:
        memory.close()


ROUTES = [
    Route(
        method="GET",
        path=f"{BASE}/search",
        summary="Find messages and artifacts by what they say.",
        level="read",
        run=search,
        query=SearchQuery,
        gives=Found,
        audit="read",
    ),
    Route(
        method="GET",
        path=f"{BASE}/memory",
        summary="Find or list what is remembered across conversations.",
        level="read",
        run=recall,
        query=MemoryQuery,
        gives=Remembered,
        audit="read",
    ),
    Route(
        method="POST",
        path=f"{BASE}/memory",
        summary="Remember something across conversations.",
        level="write",
        run=remember,
        body=MemoryBody,
        gives=MemoryEntry,
    ),
    Route(
        method="DELETE",
        path=f"{BASE}/memory/{{entry}}",
        summary="Erase what is remembered for good.",
        level="write",
        run=forget,
        query=ScopeQuery,
        gives=Forgot,
        audit="erase",
    ),
]
