"""Two logs of one conversation, compared: how far they agree, and what may stand on top of what.

The chain of an event covers everything before it, so the last event that two logs share is found by
halves. A tail without messages is sealed again on top of another tail, with the places it speaks of
as they are then; any other tail becomes a fork, whose id follows from its parent and from its first
event: whoever makes it, and however often, it is the same. Neighbours: `exchange` acts on it.

What is erased on one side is erased on the other, before the event that says so arrives.

The content that an erased event names goes where the other side, which knows who else names it, has
dropped it. A device that erased what another asked for says so in a note, the same however often it
is made. Neighbours: `exchange` asks, `conversations.eraser` begins it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile

from msgspec.structs import replace

from refold.core import codec
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
from refold.core.switches import switches
from refold.errors import Corrupt, NotFound, RefoldError
from refold.stores import checks
from refold.stores.protocol import Store

ID_CHARS_MAX, CHAIN_CHARS = 64, 12


def about(store: Store, id: str) -> Conversation | None:
    """What a store knows of a conversation; None if it knows none of this id."""
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
    """The seq of the last event that both logs share; 0 if they share none."""
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
    """How many events two runs have in common at their beginning."""
    pairs = zip(there, events)
    return sum(1 for _ in takewhile(lambda pair: pair[0].chain == pair[1].chain, pairs))


def fork_id(parent: str, first: Event) -> str:
    """The id of the fork that a tail becomes: the same for whoever makes it."""
    end = first.chain.hex()[:CHAIN_CHARS]
    return f"{parent[: ID_CHARS_MAX - CHAIN_CHARS - 1].rstrip('.-')}-{end}"


# --- a tail on top of another ---


def on_top(log: Sequence[Event], tail: Iterable[Event], common: int) -> list[Event] | None:
    """A tail that grew on top of event `common` of this log, sealed again at its end; what the log
    holds already is left out. None if the tail cannot stand there."""
    known = {event.id: event.seq for event in log[common:]}
    places: dict[int, int] = {}
    seq, before = len(log), log[-1].chain
    moved: list[Event] = []
    for event in tail:
        if event.id in known:
            places[event.seq] = known[event.id]
            continue
        seq += 1
        places[event.seq] = seq
        placed = _placed(event, common, places)
        if placed is None:
            return None
        moved.append(codec.resealed(placed, before, seq))
        before = moved[-1].chain
    return moved if _folds([*log, *moved]) else None


def _folds(log: Sequence[Event]) -> bool:
    try:
        folded(log, switches(log))
    except RefoldError:
        return False
    return True


def _placed(event: Event, common: int, places: Mapping[int, int]) -> Event | None:
    """The event, with the places in its own tail that it speaks of as they are now; None if it
    would not mean the same on top of another tail."""
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
            # The tail has no messages, so what the span covers lies before it.
            return replace(body, span=Span(span.first, min(span.last, common)))
        case Meta(system_seq=system, tools_seq=tools):
            at = places.get
            return replace(
                body,
                system_seq=None if system is None else at(system, system),
                tools_seq=None if tools is None else at(tools, tools),
            )
        case _:
            # A message, a way back over what others wrote meanwhile, or a kind of a newer version.
            return None


# --- contents ---


def contents_of(events: Iterable[Event]) -> list[Artifact]:
    """The artifacts that events name. A damaged event names none: it travels as it is."""
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


BY = "sync"
Learn = Callable[[str, int, str], None]  # finds where an encrypted store keeps a content


def targets(events: Sequence[Event]) -> set[int]:
    """The events that these say are erased."""
    found = set()
    for event in events:
        body = codec.decode(event) if event.kind == "erase" else None
        if isinstance(body, Erase):
            found.add(body.seq)
    return found


def had(events: Sequence[Event], head: int) -> list[Event]:
    """Those of these events by which something is erased that a log of this head had: a device that
    never had it has nothing to confirm."""
    return [event for event in events if any(seq <= head for seq in targets([event]))]


def is_confirmation(event: Event) -> bool:
    """Whether a device says by this event only what it erased."""
    body = codec.decode(event) if event.kind == "note" and event.by == BY else None
    return isinstance(body, Note) and body.kind == ERASED_NOTE


def is_erased(store: Store, id: str, seq: int) -> bool:
    """Whether an event is erased, or not there."""
    return all(event.erased for event in store.read(id, after=seq - 1, last=seq, limit=1))


def erase_event(store: Store, other: Store, id: str, seq: int) -> bool:
    """Erases an event unless it is; True if it was not. The content that it names goes where the
    other side, which knows who else names it, has dropped it."""
    events = store.read(id, after=seq - 1, last=seq, limit=1)
    if not events or events[0].erased:
        return False
    named = contents_of(events)
    learn: Learn = getattr(other, "learn_place", _ignore_content)
    for artifact in named:
        learn(id, seq, artifact.digest)
    store.erase(id, seq)
    for artifact in named:
        if not holds(other, artifact.digest):
            store.drop(artifact.digest, before_ms=checks.now_ms() + 1)
    return True


def _ignore_content(id: str, seq: int, digest: str) -> None:
    """A store that is not encrypted knows where its contents are."""


def holds(store: Store, digest: str) -> bool:
    """Whether a store has a content, damaged or not."""
    try:
        for _ in store.get(digest):
            return True
    except NotFound:
        return False
    return True


def confirmation(device: str, erased: Sequence[Event], last: Event) -> Event:
    """The note by which a device says what it erased: the same however often it is made."""
    told = hashlib.blake2b(device.encode(), digest_size=10 + codec.SALT_BYTES)
    for event in erased:
        told.update(event.chain)
    randomness = told.digest()
    seqs = sorted(targets(erased))
    return codec.seal(
        last.chain,
        last.seq + 1,
        id=codec.uuid7(last.at_ms, randomness),
        at_ms=last.at_ms,
        by=BY,
        kind="note",
        body=codec.encode(Note(kind=ERASED_NOTE, data={"device": device, "seqs": seqs})),
        salt=randomness[10:],
    )


def emptied(events: Sequence[Event], seqs: set[int]) -> list[Event]:
    """The events, those of these seqs without their bodies."""
    return [replace(one, body=b"", salt=b"") if one.seq in seqs else one for one in events]
