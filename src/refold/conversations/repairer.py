"""Repairing a damaged conversation so that it opens again.

The log consists of the events that continue each other from the first on, in any order in the file.
A changed body becomes an erased envelope. At a broken or missing envelope the log ends, and later
events that do not depend on others become a conversation of their own, `ID-rest`. The store keeps a
copy of the damaged log, and the result lists the losses. Neighbours: `verifier` finds the same
damage and changes nothing, `Store.salvage` reads damaged logs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from refold.core import codec
from refold.core.model import Event
from refold.errors import Conflict, Corrupt
from refold.log.stored_logs import conversations, is_taken, pages_of
from refold.stores.protocol import Salvage, Store

APPEND_EVENTS = 500
ID_CHARS_MAX = 55  # so that `ID-rest-999` is still an id
LOST_MAX = 200  # lines of a report
# All other kinds refer to positions in the log, which are different in the rest.
INDEPENDENT_KINDS = ("message", "artifact", "meta")


class Repaired(Struct, frozen=True, kw_only=True):
    """The result of a repair: the events that lost their bodies, the new end of a cut log, the ids
    of the rest and of the copy, and the losses. `changed` without any of these means that the
    events were in another order, or had garbage between them."""

    conversation: str
    changed: bool = False
    erased: tuple[int, ...] = ()
    ends_at: int | None = None
    rest: str = ""
    copy: str = ""
    lost: tuple[str, ...] = ()


class _Damage(Struct, kw_only=True):
    """The parts of a log: the events that continue each other, the others, and broken pieces.
    `last` is the newest event that the log is known to have had."""

    sound: list[Event]
    others: list[Event]
    broken: list[str]
    last: int

    @property
    def is_cut(self) -> bool:
        return bool(self.others) or self.last > len(self.sound)

    @property
    def changed_bodies(self) -> list[int]:
        """The events with a changed body."""
        return [event.seq for event in self.sound if not _is_readable(event)]

    @property
    def rest(self) -> list[Event]:
        """The other events that can be in a log of their own."""
        return [event for event in self.others if _is_readable(event) and _is_independent(event)]

    @property
    def first(self) -> int:
        """The first damaged event; beyond the log if there is none."""
        return min(self.changed_bodies, default=len(self.sound) + 1)

    def lost(self) -> list[str]:
        """The losses, by event where known."""
        lost = list(self.broken)
        there = {event.seq for event in self.others}
        end = len(self.sound) + 1
        if end in there:
            lost.append(f"event {end}: the chain is broken there")
        lost += [f"event {seq}" for seq in range(end, self.last + 1) if seq not in there]
        for event in self.others:
            if not _is_readable(event):
                lost.append(f"event {event.seq}: its body does not match its digest")
            elif not _is_independent(event):
                lost.append(f"event {event.seq}: a {event.kind} names places that no longer exist")
        bodies = [f"the body of event {seq}" for seq in self.changed_bodies]
        return [*_bounded(lost), *_bounded(bodies)]


def repair(store: Store, conversation: str) -> Repaired:
    """Makes a conversation readable again. Conflict, before anything is changed, if a fork depends
    on the part to cut, or the damage is in a parent's log."""
    with suppress(Corrupt):
        # As for every reader, a half-written end is moved aside first.
        store.conversation(conversation)
    seen = store.salvage(conversation)
    damage = _judged(seen)
    changed = damage.changed_bodies
    if not damage.is_cut and not changed and _reads_as(store, conversation, damage.sound):
        return Repaired(conversation=conversation, changed=bool(seen.copy), copy=seen.copy)
    after = _parting(store, conversation, seen, damage)
    rest = _keep_rest(store, conversation, damage.rest)
    kept = [
        event if _is_readable(event) else replace(event, body=b"", salt=b"")
        for event in damage.sound[after:]
    ]
    copy = store.rewrite(conversation, kept, after=after, seen=seen)
    store.flush()
    return Repaired(
        conversation=conversation,
        changed=True,
        erased=tuple(changed),
        ends_at=len(damage.sound) if damage.is_cut else None,
        rest=rest,
        copy=seen.copy or copy,
        lost=tuple(damage.lost()),
    )


# --- diagnosis ---


def _judged(seen: Salvage) -> _Damage:
    events = {event.id: event for event in seen.pieces if isinstance(event, Event)}
    by_seq: dict[int, list[Event]] = {}
    for event in seen.pieces:
        if isinstance(event, Event):
            by_seq.setdefault(event.seq, []).append(event)
    sound = list(_chained(by_seq))
    for event in sound:
        events.pop(event.id, None)
    others = sorted(events.values(), key=lambda event: event.seq)
    broken = [piece for piece in seen.pieces if isinstance(piece, str)]
    last = _last(seen, len(sound), others)
    return _Damage(sound=sound, others=others, broken=broken, last=last)


def _chained(by_seq: dict[int, list[Event]]) -> Iterator[Event]:
    """The events that continue each other from the first on; of two with one seq, the one with the
    original body."""
    before = codec.ZERO
    for seq in range(1, len(by_seq) + 1):
        fitting = [event for event in by_seq.get(seq, ()) if codec.continues(event, before)]
        if not fitting:
            return
        event = max(fitting, key=_is_readable)
        yield event
        before = event.chain


def _last(seen: Salvage, sound: int, others: Sequence[Event]) -> int:
    """The newest event that the log is known to have had. A seq far beyond the others is damaged
    itself, unless a neighbour confirms it; a broken piece at the end was at least one event."""
    near = sound + 2 * len(seen.pieces)
    chains = {event.seq: event.chain for event in others}
    places = [
        event.seq
        for event in others
        if event.seq <= near or codec.continues(event, chains.get(event.seq - 1, b""))
    ]
    at_end = sum(1 for _ in takewhile(lambda piece: isinstance(piece, str), seen.pieces[::-1]))
    return max([sound, *places]) + at_end


def _is_readable(event: Event) -> bool:
    try:
        codec.decode(event)
    except Corrupt:
        return False
    return event.erased or codec.digest_of(event.salt, event.body) == event.digest


def _is_independent(event: Event) -> bool:
    """Whether an event can be in another log: its kind does not refer to other events, and its
    envelope has valid values."""
    try:
        codec.chain_of(codec.ZERO, event)
    except (struct.error, ValueError):
        return False
    return event.kind in INDEPENDENT_KINDS


def _reads_as(store: Store, conversation: str, events: Sequence[Event]) -> bool:
    """Whether the store reads exactly these events."""
    try:
        last = store.conversation(conversation).head
        pages = pages_of(store, conversation, last=last)
        return [event for page in pages for event in page] == list(events)
    except Corrupt:
        return False


def _bounded(lines: Sequence[str]) -> list[str]:
    if len(lines) <= LOST_MAX:
        return list(lines)
    return [*lines[:LOST_MAX], f"and {len(lines) - LOST_MAX:,} more"]


# --- repair ---


def _parting(store: Store, conversation: str, seen: Salvage, damage: _Damage) -> int:
    """The last event that the repaired log shares with its parent; 0 if it becomes independent,
    because the parent's log is cut before. Conflict if the parent has to be repaired instead, or a
    fork first."""
    head = len(damage.sound)
    for other in conversations(store) if damage.is_cut else ():
        if other.parent == conversation and other.parent_seq > head:
            problem = f"{conversation!r} has to be cut, and its fork {other.id!r} reads it"
            hint = f"refold verify --repair {other.id} makes it a log of its own: do that first"
            raise Conflict(problem, head=head, hint=hint)
    if head < seen.parent_seq:
        return 0
    if damage.first <= seen.parent_seq:
        problem = f"the damage is in {seen.parent!r}, the parent of {conversation!r}"
        raise Conflict(problem, head=head, hint=f"refold verify --repair {seen.parent}")
    return seen.parent_seq


def _keep_rest(store: Store, conversation: str, events: Sequence[Event]) -> str:
    """Writes the rest as a conversation of its own, each event sealed at its new seq; returns its
    id."""
    if not events:
        return ""
    suffixes = ("", *(f"-{number}" for number in range(999)))
    names = [f"{conversation[:ID_CHARS_MAX]}-rest{suffix}" for suffix in suffixes]
    id = next(name for name in names if not is_taken(store, name))
    before, moved = codec.ZERO, list[Event]()
    for seq, event in enumerate(events, 1):
        moved.append(codec.resealed(event, before, seq))
        before = moved[-1].chain
    for at in range(0, len(moved), APPEND_EVENTS):
        store.append(id, moved[at : at + APPEND_EVENTS], expect=at)
    return id
