"""One log as rows: functions of a connection and a `Place`.

A conversation's row has the head; an append moves it and writes the events in one statement. A fork
has the events above the seq at which it left; events below are found by walking up to its
ancestors, one statement each. Neighbours: `store` calls, `forks_and_erasure` has forks and repairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from refold.core.codec import REPAIR
from refold.core.model import Conversation, Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.postgres import statements
from refold.stores.postgres.connections import (
    ByteArray,
    Link,
    NumberArray,
    byte_array,
    number_array,
)

META = b"meta"


class Place(Struct, frozen=True):
    """The org and the id of a log."""

    org: str
    conversation: str

    def named(self, **values: Any) -> dict[str, Any]:
        """The parameters of a statement about this log."""
        return {"org": self.org, "conversation": self.conversation, **values}

    def sibling(self, conversation: str) -> Place:
        """Another log of the same org."""
        return Place(self.org, conversation)


# --- conversations ---


def listed(link: Link, org: str, after: str, limit: int) -> list[Conversation]:
    """A page of an org's conversations by id, from the first above `after`."""
    rows = link.ask(statements.LIST, {"org": org, "after": after, "limit": limit})
    return [_conversation_of(row) for row in rows]


def described(link: Link, place: Place, *, locked: bool = False) -> Conversation | None:
    """A conversation, or None; `locked` against all other writers."""
    query = statements.ROW_LOCKED if locked else statements.ROW
    row = link.ask(query, place.named()).fetchone()
    return None if row is None else _conversation_of(row)


def conversation_row(link: Link, place: Place, *, locked: bool = False) -> Conversation:
    """A conversation, or NotFound."""
    found = described(link, place, locked=locked)
    if found is None:
        raise checks.unknown(place.conversation)
    return found


def _conversation_of(row: Any) -> Conversation:
    id, head, chain, title, parent, parent_seq, at_ms, updated_ms = row
    return Conversation(
        id=id,
        head=head,
        chain=chain,
        title=title.decode(),
        parent=parent,
        parent_seq=parent_seq,
        at_ms=at_ms,
        updated_ms=updated_ms,
    )


def upwards(
    link: Link, place: Place, about: Conversation, last: int
) -> Iterator[tuple[Conversation, int]]:
    """The conversation and its ancestors, each with the last seq to read from it."""
    while True:
        if last > about.parent_seq:
            yield about, last
        last = min(last, about.parent_seq)
        if not about.parent or last == 0:
            return
        parent = described(link, place.sibling(about.parent))
        if parent is None:
            raise Corrupt(f"{about.id!r} has lost its parent {about.parent!r}", hint=REPAIR)
        about = parent


# --- reading ---


def read_own(link: Link, place: Place, after: int, last: int, limit: int) -> list[Event] | None:
    """The events, if they are all the conversation's own; None if an ancestor has some."""
    values = place.named(after=after, last=last, limit=max(1, limit))
    rows = link.ask(statements.READ, values).fetchall()
    if not rows:
        raise checks.unknown(place.conversation)
    if after < rows[0][1]:
        return None
    events = [event_of(row[2:]) for row in rows[:limit] if row[2] is not None]
    return _dense(events, after)


def read_through(link: Link, place: Place, after: int, last: int, limit: int) -> list[Event]:
    """The events, whichever conversations have them."""
    return span(link, place, conversation_row(link, place), after, last, limit)


def span(
    link: Link, place: Place, about: Conversation, after: int, last: int, limit: int
) -> list[Event]:
    """Events with after < seq <= last, at most `limit`."""
    ranges: list[tuple[str, int, int]] = []
    for holder, end in upwards(link, place, about, last):
        ranges.append((holder.id, max(after, holder.parent_seq), end))
        if holder.parent_seq <= after:
            break
    events: list[Event] = []
    for holder_id, start, end in reversed(ranges):
        if len(events) < limit:
            bounds = {"after": start, "last": end, "limit": limit - len(events)}
            rows = link.ask(statements.SPAN, place.sibling(holder_id).named(**bounds))
            events += map(event_of, rows)
    return _dense(events, after)


def event_of(row: Any) -> Event:
    seq, at_ms, tokens, chain, kind, author, id, counter, digest, salt, body = row
    try:
        return Event(
            seq=seq,
            id=id.decode(),
            at_ms=at_ms,
            by=author.decode(),
            kind=kind.decode(),
            body=body,
            salt=salt,
            digest=digest,
            chain=chain,
            tokens=tokens,
            counter=counter.decode(),
        )
    except UnicodeDecodeError as error:
        raise Corrupt(f"event {seq}: its text is not UTF-8", hint=REPAIR) from error


def _dense(events: list[Event], after: int) -> list[Event]:
    """Returns the events; Corrupt if one is missing among them."""
    for seq, event in enumerate(events, after + 1):
        if event.seq != seq:
            raise Corrupt(f"event {seq} is missing before event {event.seq}", hint=REPAIR)
    return events


# --- appending ---


def append(link: Link, place: Place, events: Sequence[Event], expect: int) -> bool:
    """Writes all events on top of head `expect`. Returns False and writes nothing if the head is
    another."""
    title, newest = checks.title_in(events), events[-1]
    values = place.named(
        expect=expect,
        head=newest.seq,
        chain=newest.chain,
        title=None if title is None else title.encode(),
        begun_ms=events[0].at_ms,
        updated_ms=newest.at_ms,
    )
    values.update(row_of(newest) if len(events) == 1 else columns(events))
    return bool(link.ask(_APPENDING[expect > 0, len(events) == 1], values).rowcount)


# By whether the log exists, and whether it is one event.
_APPENDING = {
    (True, True): statements.APPEND_ONE,
    (True, False): statements.APPEND,
    (False, True): statements.BEGIN_LOG_ONE,
    (False, False): statements.BEGIN_LOG,
}


def confirm(link: Link, place: Place, events: Sequence[Event], expect: int) -> None:
    """Raises Conflict unless exactly these events are stored already. Then makes them as safe as a
    commit of now: their own commit may have ended before a standby had it."""
    about = described(link, place, locked=True)
    head = about.head if about else 0
    kept: list[Event] = []
    if about is not None and events[-1].seq <= head:
        kept = span(link, place, about, events[0].seq - 1, events[-1].seq, len(events))
    if not checks.is_repeat(kept, events):
        raise checks.moved(place.conversation, expect, head)
    link.ask(statements.CONFIRM, place.named())


def insert(link: Link, place: Place, events: Sequence[Event]) -> None:
    """Writes events at their places."""
    link.ask(statements.INSERT_EVENTS, place.named(**columns(events)))


def row_of(event: Event) -> dict[str, Any]:
    """An event as the parameters of a statement."""
    return {
        "seq": event.seq,
        "at_ms": event.at_ms,
        "tokens": event.tokens,
        "chain": event.chain,
        "kind": event.kind.encode(),
        "author": event.by.encode(),
        "id": event.id.encode(),
        "counter": event.counter.encode(),
        "digest": event.digest,
        "salt": event.salt,
        "body": event.body,
    }


def columns(events: Sequence[Event]) -> dict[str, ByteArray | NumberArray]:
    """Events as the array parameters of a statement; its `chain` belongs to the conversation."""
    return {
        "seq": number_array([event.seq for event in events]),
        "at_ms": number_array([event.at_ms for event in events]),
        "tokens": number_array([event.tokens for event in events]),
        "chains": byte_array([event.chain for event in events]),
        "kind": byte_array([event.kind.encode() for event in events]),
        "author": byte_array([event.by.encode() for event in events]),
        "id": byte_array([event.id.encode() for event in events]),
        "counter": byte_array([event.counter.encode() for event in events]),
        "digest": byte_array([event.digest for event in events]),
        "salt": byte_array([event.salt for event in events]),
        "body": byte_array([event.body for event in events]),
    }


# --- titles ---


def title_at(link: Link, place: Place, about: Conversation, at: int) -> str:
    """The title that the conversation had at that event: the current one, unless it is newer."""
    if at == about.head:
        return about.title
    newer = next(_titles(link, place, about, at, about.head), None)
    return about.title if newer is None else title_of(link, place, about, at)


def title_of(link: Link, place: Place, about: Conversation, last: int) -> str:
    """The newest title in the log up to `last`."""
    return next(_titles(link, place, about, 0, last), "")


def _titles(link: Link, place: Place, about: Conversation, after: int, last: int) -> Iterator[str]:
    """The titles given by events with after < seq <= last, newest first."""
    for holder, end in upwards(link, place, about, last):
        bounds = {"after": max(after, holder.parent_seq), "last": end, "kind": META}
        for row in link.ask(statements.METAS, place.sibling(holder.id).named(**bounds)):
            title = checks.title_in([event_of(row)])
            if title is not None:
                yield title
        if holder.parent_seq <= after:
            return
