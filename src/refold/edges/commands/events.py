"""One event as commands give it back: its envelope, its body, and what it says in one line."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from refold.core.codec import decode, digest_of
from refold.core.model import Body, Event, Hide, Replace, Summarize

START_BYTES = 300

State = Literal["", "whole", "shortened", "hidden"]


class EventRow(Struct, frozen=True, kw_only=True):
    """One event; `body` is None if it was erased. `shown` says how the page has a message: empty
    for any other event, unset where only this event was asked for."""

    seq: int
    id: str
    at_ms: int
    by: str
    kind: str
    tokens: int
    body: Raw | None
    shown: State | UnsetType = UNSET


def event_row(event: Event, shown: State | UnsetType = UNSET) -> EventRow:
    return EventRow(
        seq=event.seq,
        id=event.id,
        at_ms=event.at_ms,
        by=event.by,
        kind=event.kind,
        tokens=event.tokens,
        body=None if event.erased else Raw(event.body),
        shown=shown,
    )


def summary(row: EventRow) -> str:
    """What an event other than a message says, in one line."""
    match body := body_of(row):
        case Hide():
            action = f"hides {body.span}"
        case Summarize():
            action = f"summarizes {body.span}"
        case Replace():
            action = f"shortens #{body.seq}, block {body.block}"
        case _:
            start = body_bytes(row)[:START_BYTES].decode("utf-8", "replace")
            return f"#{row.seq} {row.kind}: {start}"
    reason = f" ({body.reason})" if body.reason else ""
    return f"#{row.seq} {row.by}: {action}{reason}"


def body_of(row: EventRow) -> Body | None:
    """What the event says; None for a kind this version does not know, and for an erased one."""
    # An event again, as far as decoding it needs.
    salt, body = b"" if row.body is None else b"kept", body_bytes(row)
    event = Event(
        seq=row.seq,
        id=row.id,
        at_ms=row.at_ms,
        by=row.by,
        kind=row.kind,
        body=body,
        salt=salt,
        digest=digest_of(salt, body),
        chain=b"",
    )
    return decode(event)


def body_bytes(row: EventRow) -> bytes:
    """The body as it was written; empty if it was erased."""
    return b"" if row.body is None else bytes(row.body)
