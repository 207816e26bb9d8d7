"""Two logs of one conversation, compared: their last common event, and whether one tail fits on top
of the other.

The chain of an event covers everything before it, so the last common event is found by bisection. A
tail without messages is sealed again on top of another tail, with its references to events
adjusted; any other tail becomes a fork, whose id is derived from its parent and its first event, so
a repetition makes the same fork on every device.

An event erased on one side is erased on the other before the event that records it arrives. Its
content is dropped if the other side, which knows all conversations that name it, has dropped it. A
device that erased on request confirms it in a note, which is always the same. Neighbours:
`conversation_sync` acts, `conversations.eraser` begins an erasure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile

from msgspec.structs import replace

from refold.core import codec, ids
from refold.core.active_events import switches
from refold.core.fold import folded
from refold.core.model import (
    ERASED_NOTE,
    Artifact,
    Body,
    Checkpoint,
    Conversation,
    Erase,
    Event,
    Hide,
    Memory,
    Meta,
    Note,
    Pin,
    Replace,
    Revert,
    Span,
    Summarize,
    Usage,
)
from refold.errors import Corrupt, NotFound, RefoldError
from refold.stores import checks
from refold.stores.protocol import Store

ID_CHARS_MAX, CHAIN_CHARS = 64, 12


def about(store: Store, id: str) -> Conversation | None:
    """A conversation of a store; None if there is no such conversation."""
    try:
        return store.conversation(id)
    except NotFound:
        return None


def chain_at(store: Store, of: Conversation, seq: int) -> bytes:
    """The chain value of a log after its event `seq`; Corrupt if there is no such event."""
    if seq == 0:
        return codec.ZERO
    if seq == of.head:
        return of.chain
    events = store.read(of.id, after=seq - 1, last=seq, limit=1)
    if not events:
        raise Corrupt(f"{of.id}: event {seq} is missing", hint=codec.REPAIR)
    return events[0].chain


def last_common(near: Store, here: Conversation, far: Store, there: Conversation) -> int:
    """The seq of the last common event; 0 without one."""
    low, high = 0, min(here.head, there.head)
    if chain_at(near, here, high) == chain_at(far, there, high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if chain_at(near, here, middle) == chain_at(far, there, middle):
            low = middle
        else:
            high = middle
    return low


def shared(there: Sequence[Event], events: Sequence[Event]) -> int:
    """The number of common events at the start of two tails."""
    pairs = zip(there, events)
    return sum(1 for _ in takewhile(lambda pair: pair[0].chain == pair[1].chain, pairs))


def fork_id(parent: str, first: Event) -> str:
    """The id of the fork for a tail: the same on every device."""
    end = first.chain.hex()[:CHAIN_CHARS]
    return f"{parent[: ID_CHARS_MAX - CHAIN_CHARS - 1].rstrip('.-')}-{end}"


# --- a tail on top of another ---


def on_top(log: Sequence[Event], tail: Iterable[Event], common: int) -> list[Event] | None:
    """The tail after event `common`, sealed again on top of this log, without the events that the
    log has already. None if the tail does not fit there."""
    seqs = {event.id: event.seq for event in log[common:]}
    places: dict[int, int] = {}
    seq, before = len(log), log[-1].chain
    moved: list[Event] = []
    for event in tail:
        if event.id in seqs:
            places[event.seq] = seqs[event.id]
            continue
        seq += 1
        places[event.seq] = seq
        placed = _placed(event, common, places)
        if placed is None:
            return None
        moved.append(codec.resealed(placed, before, seq))
        before = moved[-1].chain
    merged = [*log, *moved]
    try:
        folded(merged, switches(merged))
    except RefoldError:
        return None
    return moved


def _placed(event: Event, common: int, places: Mapping[int, int]) -> Event | None:
    """The event, with its references into its own tail adjusted; None if it would not mean the same
    on top of another tail."""
    if event.erased:
        return event if event.kind in ("note", "memory", "artifact") else None
    body = codec.decode(event)
    moved = _body_placed(body, common, places)
    if moved is None:
        return None
    if moved == body:
        return event
    data = codec.encode(moved)
    return replace(event, body=data, digest=codec.digest_of(event.salt, data))


def _body_placed(body: Body | None, common: int, places: Mapping[int, int]) -> Body | None:
    match body:
        case Note() | Memory() | Artifact():
            return body
        case Usage(replied=False):
            return replace(body, upto=min(body.upto, common))
        case Replace() | Checkpoint() | Pin() | Erase() | Revert():
            return replace(body, seq=places.get(body.seq, body.seq))
        case Hide(span=span) | Summarize(span=span) if span.first <= common:
            # The tail has no messages, so all messages in the span are before it.
            return replace(body, span=Span(span.first, min(span.last, common)))
        case Meta(system_seq=system, tools_seq=tools):
            at = places.get
            return replace(
                body,
                system_seq=None if system is None else at(system, system),
                tools_seq=None if tools is None else at(tools, tools),
            )
        case _:
            # A message, a restore across events of another device, or a kind of a newer version.
            return None


# --- contents ---


def contents_of(events: Iterable[Event]) -> list[Artifact]:
    """The artifacts that events name. A damaged event is sent as it is, without artifacts."""
    named: list[Artifact] = []
    for event in events:
        if event.kind != "artifact":
            continue
        try:
            body = codec.decode(event)
        except Corrupt:
            continue
        if isinstance(body, Artifact):
            named.append(body)
    return named


# --- erasing ---

BY = "sync"
Learn = Callable[[str, int, str], None]  # finds a content's place; only in encrypted stores


def targets(events: Sequence[Event]) -> set[int]:
    """The seqs that these erase events name."""
    seqs = set()
    for event in events:
        body = codec.decode(event) if event.kind == "erase" else None
        if isinstance(body, Erase):
            seqs.add(body.seq)
    return seqs


def had(events: Sequence[Event], head: int) -> list[Event]:
    """The erase events among these that name an event up to `head`: a device that never had the
    event has nothing to confirm."""
    return [event for event in events if any(seq <= head for seq in targets([event]))]


def is_confirmation(event: Event) -> bool:
    """Whether the event only confirms an erasure by a device."""
    body = codec.decode(event) if event.kind == "note" and event.by == BY else None
    return isinstance(body, Note) and body.kind == ERASED_NOTE


def is_erased(store: Store, id: str, seq: int) -> bool:
    """Whether an event is erased or missing."""
    return all(event.erased for event in store.read(id, after=seq - 1, last=seq, limit=1))


def erase_event(store: Store, other: Store, id: str, seq: int) -> bool:
    """Erases an event; False if it is erased or missing already. Its content is dropped if the
    other side, which knows all conversations that name it, has dropped it."""
    events = store.read(id, after=seq - 1, last=seq, limit=1)
    if not events or events[0].erased:
        return False
    named = contents_of(events)
    learn: Learn = getattr(other, "learn_place", lambda id, seq, digest: None)
    for artifact in named:
        learn(id, seq, artifact.digest)
    store.erase(id, seq)
    for artifact in named:
        if not holds(other, artifact.digest):
            store.drop(artifact.digest, before_ms=checks.now_ms() + 1)
    return True


def holds(store: Store, digest: str) -> bool:
    """Whether a store has the content, damaged or not."""
    try:
        for _ in store.get(digest):
            return True
    except NotFound:
        return False
    return True


def confirmation(device: str, erased: Sequence[Event], last: Event) -> Event:
    """The note in which a device confirms an erasure; it is always the same."""
    hasher = hashlib.blake2b(device.encode(), digest_size=10 + codec.SALT_BYTES)
    for event in erased:
        hasher.update(event.chain)
    randomness = hasher.digest()
    seqs = sorted(targets(erased))
    return codec.seal(
        last.chain,
        last.seq + 1,
        id=ids.uuid7(last.at_ms, randomness),
        at_ms=last.at_ms,
        by=BY,
        kind="note",
        body=codec.encode(Note(kind=ERASED_NOTE, data={"device": device, "seqs": seqs})),
        salt=randomness[10:],
    )


def emptied(events: Sequence[Event], seqs: set[int]) -> list[Event]:
    """The events, without the bodies of those with these seqs."""
    return [replace(one, body=b"", salt=b"") if one.seq in seqs else one for one in events]
