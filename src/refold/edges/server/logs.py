"""Routes of logs: list, read, append, fork, erase, delete, repair.

They are the operations of a store, one to one, so that a client can be a store again
(`stores.remote`). Events are sent as their stored lines, byte for byte. `append` is here for the
table and the document; `app` serves it, in front of everything else.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from refold.core.model import Conversation, Event
from refold.edges.server.route import Call, Lines, Plain, Route
from refold.errors import Corrupt, Invalid, NotFound
from refold.stores import batch_of, events_in
from refold.stores.protocol import Salvage

BASE = "/api/v1/orgs/{org}/context"
EVENTS_MAX = 1_000  # in one answer
BATCH_MAX = 10_000  # in one append
LIST_MAX = 1_000
BYTES_MAX = 8 * 1024 * 1024  # of events in one answer, above the first

Count = Annotated[int, Meta(ge=0)]


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
    """Where a log stands."""

    head: int


class ForkBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: int
    new: str


class EraseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seq: int


class SalvageBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The salvaged pieces of a damaged log: lines of events, and texts about unreadable lines."""

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


def list_conversations(call: Call) -> Listed:
    asked = call.asked(ListQuery)
    found = call.store.conversations(after=asked.after, limit=asked.limit)
    return Listed(conversations=[about_of(one) for one in found])


def show_conversation(call: Call) -> About:
    return about_of(call.store.conversation(call.id))


def read_events(call: Call) -> Lines:
    """The events up to the size limit of an answer, but at least one if there is one."""
    asked = call.asked(ReadQuery)
    events = call.store.read(call.id, after=asked.after, last=asked.last, limit=asked.limit)
    size = 0
    for at, event in enumerate(events):
        size += len(event.body)
        if at and size > BYTES_MAX:
            events = events[:at]
            break
    return Lines(batch_of(events) if events else b"")


def append(call: Call) -> Head:
    """Appends a batch in a worker thread, for stores without group commit."""
    expect = call.asked(AppendQuery).expect
    assert isinstance(call.body, bytes)
    events = events_checked(call.body)
    ends = call.orgs.ends(call.path["org"])
    ends.check(call.id, events, expect)
    call.store.append(call.id, events, expect=expect)
    call.store.flush()
    ends.keep(call.id, events)
    return Head(head=expect + len(events))


def events_checked(batch: bytes) -> list[Event]:
    """The events of a body; Invalid where it holds something else."""
    try:
        return events_in(batch, most=BATCH_MAX)
    except Corrupt as error:
        hint = "one event a line, as `refold export` has them"
        raise Invalid(error.message, hint=hint) from error


def read_bookmark(call: Call) -> Plain:
    data = call.store.bookmark(call.id)
    if data is None:
        raise NotFound(f"{call.id!r} has no bookmark", hint="it can be made again from the log")
    return Plain(data, mime="application/octet-stream")


def keep_bookmark(call: Call) -> None:
    assert isinstance(call.body, bytes)
    call.store.keep_bookmark(call.id, call.body)


def fork(call: Call) -> About:
    given = call.given(ForkBody)
    call.store.fork(call.id, given.at, given.new)
    call.store.flush()
    return about_of(call.store.conversation(given.new))


def erase(call: Call) -> None:
    call.store.erase(call.id, call.given(EraseBody).seq)
    call.store.flush()


def delete(call: Call) -> None:
    call.store.delete(call.id)
    call.store.flush()


def salvage(call: Call) -> SalvageBody:
    seen = call.store.salvage(call.id)
    return SalvageBody(
        pieces=[_piece(one) for one in seen.pieces], parent=seen.parent, parent_seq=seen.parent_seq
    )


def _piece(piece: Event | str) -> str | dict[str, str]:
    if isinstance(piece, str):
        return {"fault": piece}
    return batch_of([piece]).decode().rstrip("\n")


def rewrite(call: Call) -> Rewritten:
    given = call.given(RewriteBody)
    events = events_checked("\n".join(given.events).encode())
    seen = Salvage(
        pieces=tuple(map(_piece_given, given.seen.pieces)),
        parent=given.seen.parent,
        parent_seq=given.seen.parent_seq,
    )
    return Rewritten(kept=call.store.rewrite(call.id, events, after=given.after, seen=seen))


def _piece_given(piece: str | dict[str, str]) -> Event | str:
    if isinstance(piece, dict):
        return piece.get("fault", "")
    events = events_checked(piece.encode())
    if len(events) != 1:
        raise Invalid(f"a piece holds {len(events)} events", hint="one event, or {fault: why}")
    return events[0]


ROUTES = [
    Route(
        method="GET",
        path=f"{BASE}/conversations",
        summary="List conversations by id.",
        level="read",
        run=list_conversations,
        query=ListQuery,
        gives=Listed,
    ),
    Route(
        method="GET",
        path=f"{BASE}/conversations/{{id}}",
        summary="Say where a conversation stands.",
        level="read",
        run=show_conversation,
        gives=About,
    ),
    Route(
        method="GET",
        path=f"{BASE}/conversations/{{id}}/events",
        summary="Read events after a seq, one a line.",
        level="read",
        run=read_events,
        query=ReadQuery,
        gives="lines",
        audit="read",
    ),
    Route(
        method="POST",
        path=f"{BASE}/conversations/{{id}}/events",
        summary="Append events on top of a head: all of them, or none and 409.",
        level="write",
        run=append,
        query=AppendQuery,
        body="lines",
        gives=Head,
    ),
    Route(
        method="GET",
        path=f"{BASE}/conversations/{{id}}/bookmark",
        summary="Read the bookmark, a derived value.",
        level="read",
        run=read_bookmark,
        gives="bytes",
    ),
    Route(
        method="PUT",
        path=f"{BASE}/conversations/{{id}}/bookmark",
        summary="Keep a bookmark.",
        level="write",
        run=keep_bookmark,
        body="bytes",
    ),
    Route(
        method="POST",
        path=f"{BASE}/conversations/{{id}}/fork",
        summary="Start a conversation that shares this one up to a seq.",
        level="write",
        run=fork,
        body=ForkBody,
        gives=About,
    ),
    Route(
        method="POST",
        path=f"{BASE}/conversations/{{id}}/erase",
        summary="Erase the body of an event for good.",
        level="write",
        run=erase,
        body=EraseBody,
        audit="erase",
    ),
    Route(
        method="DELETE",
        path=f"{BASE}/conversations/{{id}}",
        summary="Delete a conversation for good.",
        level="write",
        run=delete,
        audit="erase",
    ),
    Route(
        method="GET",
        path=f"{BASE}/conversations/{{id}}/salvage",
        summary="Read what can be read of a damaged log.",
        level="admin",
        run=salvage,
        gives=SalvageBody,
        audit="read",
    ),
    Route(
        method="POST",
        path=f"{BASE}/conversations/{{id}}/rewrite",
        summary="Replace a damaged log with repaired events.",
        level="admin",
        run=rewrite,
        body=RewriteBody,
        gives=Rewritten,
        audit="admin",
    ),
]
