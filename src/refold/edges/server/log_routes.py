"""Routes of logs: list, read, append, fork, erase, delete, repair.

They mirror the operations of a store, so that a client can implement a store on top of them
(`stores.remote`). Events are sent as their stored lines, byte for byte. `append` is here for the
table and the document; `app` serves it, in front of the router.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from refold.conversations.overview import overview_of
from refold.core import bookmark
from refold.core.model import Conversation, Event
from refold.edges.server.route import Call, Id, Lines, Plain, Routes
from refold.errors import Corrupt, Denied, Invalid, NotFound
from refold.log.log import Log
from refold.log.stored_logs import bound_bookmark, is_bound, unbound_bookmark
from refold.stores import batch_of, events_in
from refold.stores.protocol import Salvage

BASE = "/api/v1/orgs/{org}/context"
EVENTS_MAX = 1_000  # in one answer
BATCH_MAX = 10_000  # in one append
LIST_MAX = 1_000
BYTES_MAX = 8 * 1024 * 1024  # of events in one answer, above the first

Count = Annotated[int, Meta(ge=0)]
ROUTES = Routes()


class About(Struct, frozen=True, kw_only=True):
    """A conversation in a list."""

    id: str
    head: int
    chain: str
    title: str = ""
    parent: str = ""
    parent_seq: int = 0
    at_ms: int = 0
    updated_ms: int = 0


class Counts(Struct, frozen=True, kw_only=True):
    """The description and sizes of a conversation, from its bookmark: `tokens` is the size of its
    next request. `messages` and `tokens` are null for a long log that has no bookmark yet, `cost`
    if a price is unknown."""

    model: str
    tags: tuple[str, ...]
    messages: int | None
    tokens: int | None
    window: int
    calls: int
    cost: float | None


class Described(About, frozen=True, kw_only=True):
    """A conversation, and its `counts` if they were asked for."""

    counts: Counts | UnsetType = UNSET


class AboutQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    counts: bool = False


class Listed(Struct, frozen=True, kw_only=True):
    conversations: list[About]


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 100


class ReadQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Count = 0
    last: Count | None = None
    limit: Annotated[int, Meta(ge=0, le=EVENTS_MAX)] = EVENTS_MAX


class AppendQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    expect: Count


class Head(Struct, frozen=True, kw_only=True):
    """The head of a log."""

    head: int


class ForkBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: int
    new: Id


class EraseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seq: int


class SalvageBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The salvaged pieces of a damaged log: lines with events, and messages about unreadable
    lines."""

    pieces: list[str | dict[str, str]]
    parent: str = ""
    parent_seq: int = 0


class RewriteBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    events: list[str]
    after: int
    seen: SalvageBody


class Rewritten(Struct, frozen=True, kw_only=True):
    kept: str


def about_of(conversation: Conversation) -> About:
    return About(
        id=conversation.id,
        head=conversation.head,
        chain=conversation.chain.hex(),
        title=conversation.title,
        parent=conversation.parent,
        parent_seq=conversation.parent_seq,
        at_ms=conversation.at_ms,
        updated_ms=conversation.updated_ms,
    )


@ROUTES.add("GET", f"{BASE}/conversations", "read", query=ListQuery, gives=Listed)
def list_conversations(call: Call) -> Listed:
    """List conversations by id."""
    query = call.parsed_query(ListQuery)
    found = call.store.conversations(after=query.after, limit=query.limit)
    return Listed(conversations=[about_of(conversation) for conversation in found])


@ROUTES.add("GET", f"{BASE}/conversations/{{id}}", "read", query=AboutQuery, gives=Described)
def show_conversation(call: Call) -> About:
    """Show the head and description of a conversation; with `counts=true`, also its sizes."""
    conversation = call.store.conversation(call.id)
    about = about_of(conversation)
    # Stores that are clients ask for the head at every turn: counts would cost them a bookmark.
    if not call.parsed_query(AboutQuery).counts:
        return about
    row = overview_of(call.store, conversation)
    counts = Counts(
        model=row.model,
        tags=row.tags,
        messages=row.messages,
        tokens=row.tokens,
        window=row.window,
        calls=row.calls,
        cost=row.cost,
    )
    return Described(**structs.asdict(about), counts=counts)


@ROUTES.add(
    "GET",
    f"{BASE}/conversations/{{id}}/events",
    "read",
    query=ReadQuery,
    gives="lines",
    audit="read",
)
def read_events(call: Call) -> Lines:
    """Read events after a seq, one per line."""
    query = call.parsed_query(ReadQuery)
    events = call.store.read(call.id, after=query.after, last=query.last, limit=query.limit)
    size = 0
    for at, event in enumerate(events):
        size += len(event.body)
        if at and size > BYTES_MAX:  # an answer has at least one event
            events = events[:at]
            break
    return Lines(batch_of(events) if events else b"")


@ROUTES.add(
    "POST",
    f"{BASE}/conversations/{{id}}/events",
    "write",
    query=AppendQuery,
    body="lines",
    gives=Head,
)
def append(call: Call) -> Head:
    """Append events on top of a head: all of them, or none and 409."""
    # Runs in a worker thread, for stores without group commit.
    expect = call.parsed_query(AppendQuery).expect
    assert isinstance(call.body, bytes)
    events = events_checked(call.body)
    ends = call.orgs.ends(call.path["org"])
    ends.check(call.id, events, expect)
    call.store.append(call.id, events, expect=expect)
    call.store.flush()
    ends.keep(call.id, events)
    return Head(head=expect + len(events))


def events_checked(batch: bytes) -> list[Event]:
    """The events of a body; Invalid if it contains anything else."""
    try:
        return events_in(batch, most=BATCH_MAX)
    except Corrupt as error:
        hint = "send one event per line, as in `refold export`"
        raise Invalid(error.message, hint=hint) from error


@ROUTES.add("GET", f"{BASE}/conversations/{{id}}/bookmark", "read", gives="bytes")
def read_bookmark(call: Call) -> Plain:
    """Read the bookmark, a derived value: the caller's own, or the server's."""
    data = call.store.bookmark(call.id)
    # A bookmark decides what a page shows, and nothing proves that it fits the log. So other tokens
    # get a bookmark that the server makes.
    if data is not None and is_bound(data):
        own = unbound_bookmark(data, _maker(call))
        data = _made_here(call) if own is None else own
    if data is None:
        raise NotFound(f"{call.id!r} has no bookmark", hint="rebuild it from the log")
    return Plain(data, mime="application/octet-stream")


def _made_here(call: Call) -> bytes | None:
    """A bookmark by the server, which is kept; None for a log that it cannot read."""
    try:
        log = Log(call.store, call.id)
    except (Denied, Corrupt):
        return None
    log.keep_bookmark()
    return bookmark.kept(log.state)


@ROUTES.add("PUT", f"{BASE}/conversations/{{id}}/bookmark", "write", body="bytes")
def keep_bookmark(call: Call) -> None:
    """Store a bookmark for the caller's token."""
    assert isinstance(call.body, bytes)
    call.store.keep_bookmark(call.id, bound_bookmark(call.body, _maker(call)))


def _maker(call: Call) -> str:
    assert call.token is not None
    return call.token.id


@ROUTES.add("POST", f"{BASE}/conversations/{{id}}/fork", "write", body=ForkBody, gives=About)
def fork(call: Call) -> About:
    """Start a conversation that shares this one up to a seq."""
    body = call.parsed_body(ForkBody)
    call.store.fork(call.id, body.at, body.new)
    call.store.flush()
    return about_of(call.store.conversation(body.new))


@ROUTES.add("POST", f"{BASE}/conversations/{{id}}/erase", "write", body=EraseBody, audit="erase")
def erase(call: Call) -> None:
    """Permanently erase the body of an event."""
    call.store.erase(call.id, call.parsed_body(EraseBody).seq)
    call.store.flush()


@ROUTES.add("DELETE", f"{BASE}/conversations/{{id}}", "write", audit="erase")
def delete(call: Call) -> None:
    """Permanently delete a conversation."""
    call.store.delete(call.id)
    call.store.flush()


@ROUTES.add("GET", f"{BASE}/conversations/{{id}}/salvage", "admin", gives=SalvageBody, audit="read")
def salvage(call: Call) -> SalvageBody:
    """Read the readable parts of a damaged log."""
    seen = call.store.salvage(call.id)
    return SalvageBody(
        pieces=[_encoded_piece(piece) for piece in seen.pieces],
        parent=seen.parent,
        parent_seq=seen.parent_seq,
    )


def _encoded_piece(piece: Event | str) -> str | dict[str, str]:
    if isinstance(piece, str):
        return {"fault": piece}
    return batch_of([piece]).decode().rstrip("\n")


@ROUTES.add(
    "POST",
    f"{BASE}/conversations/{{id}}/rewrite",
    "admin",
    body=RewriteBody,
    gives=Rewritten,
    audit="admin",
)
def rewrite(call: Call) -> Rewritten:
    """Replace a damaged log with repaired events."""
    body = call.parsed_body(RewriteBody)
    events = events_checked("\n".join(body.events).encode())
    seen = Salvage(
        pieces=tuple(map(_decoded_piece, body.seen.pieces)),
        parent=body.seen.parent,
        parent_seq=body.seen.parent_seq,
    )
    return Rewritten(kept=call.store.rewrite(call.id, events, after=body.after, seen=seen))


def _decoded_piece(piece: str | dict[str, str]) -> Event | str:
    if isinstance(piece, dict):
        return piece.get("fault", "")
    events = events_checked(piece.encode())
    if len(events) != 1:
        raise Invalid(
            f"a piece has {len(events)} events", hint="send one event, or {fault: reason}"
        )
    return events[0]
