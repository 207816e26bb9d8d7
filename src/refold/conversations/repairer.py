"""A damaged conversation becomes one that opens: what cannot be trusted goes, the rest stays.

The events that continue each other from the first on are the log, in whatever order they lie. A
body that is not the one that was sealed becomes an erased envelope. At an envelope that is broken
or missing the log ends, and what speaks for itself after it becomes a conversation of its own,
`ID-rest`. The store keeps what was there, and the report says what was given up. Neighbours:
`verifier` finds the same damage and changes nothing, `Store.salvage` reads damaged logs.
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
from refold.log.trace import conversations, is_taken, pages_of
from refold.stores.protocol import Salvage, Store

APPEND_EVENTS = 500
ID_CHARS_MAX = 55  # with `-rest-999` it is still an id
LOST_MAX = 200  # lines of a report
# All other kinds speak of places in the log, and those are other places in the rest.
SPEAKS_FOR_ITSELF = ("message", "artifact", "meta")


class Repaired(Struct, frozen=True, kw_only=True):
    """What was done: which events lost their bodies, where the log ends now if it was cut, where
    the rest and what was there before are, and what is gone. `changed` without any of these means
    that something lay between the events, or they lay in another order."""

    conversation: str
    changed: bool = False
    erased: tuple[int, ...] = ()
    ends_at: int | None = None
    rest: str = ""
    copy: str = ""
    lost: tuple[str, ...] = ()


class _Damage(Struct, kw_only=True):
    """A log in parts: the events that continue each other, those that do not, and what is not an
    event. `last` is the newest event that the log is known to have had."""

    sound: list[Event]
    others: list[Event]
    broken: list[str]
    last: int

    @property
    def is_cut(self) -> bool:
        return bool(self.others) or self.last > len(self.sound)

    @property
    def spoilt(self) -> list[int]:
        """The events whose bodies are not those that were sealed."""
        return [event.seq for event in self.sound if not _is_readable(event)]

    @property
    def rest(self) -> list[Event]:
        """What can stand in a log of its own."""
        return [event for event in self.others if _is_readable(event) and _is_free(event)]

    @property
    def first(self) -> int:
        """The first event that is damaged; beyond the log if none is."""
        cut = len(self.sound) + 1
        return min(self.spoilt, default=cut)

    def lost(self) -> list[str]:
        """What is given up, by event where that is known."""
        found = [*self.broken, *self._missing(), *self._dropped()]
        return [*_bounded(found), *_bounded([f"the body of event {seq}" for seq in self.spoilt])]

    def _missing(self) -> Iterator[str]:
        there = {event.seq for event in self.others}
        if len(self.sound) + 1 in there:
            yield f"event {len(self.sound) + 1}: the chain is broken there"
        for seq in range(len(self.sound) + 1, self.last + 1):
            if seq not in there:
                yield f"event {seq}"

    def _dropped(self) -> Iterator[str]:
        for event in self.others:
            if not _is_readable(event):
                yield f"event {event.seq}: its body does not match its digest"
            elif not _is_free(event):
                yield f"event {event.seq}: a {event.kind} names places that no longer exist"


def repair(store: Store, conversation: str) -> Repaired:
    """Makes a conversation readable again. Conflict, and nothing is changed, if others were forked
    from what has to be cut, or the damage is in a parent's log."""
    with suppress(Corrupt):
        # A half-written end is moved aside first, as every reader does.
        store.conversation(conversation)
    seen = store.salvage(conversation)
    damage = _judged(seen)
    spoilt = damage.spoilt
    if not damage.is_cut and not spoilt and _reads_as(store, conversation, damage.sound):
        return Repaired(conversation=conversation, changed=bool(seen.copy), copy=seen.copy)
    after = _parting(store, conversation, seen, damage)
    rest = _keep_rest(store, conversation, damage.rest)
    kept = [_mended(event) for event in damage.sound[after:]]
    copy = store.rewrite(conversation, kept, after=after, seen=seen)
    store.flush()
    return Repaired(
        conversation=conversation,
        changed=True,
        erased=tuple(spoilt),
        ends_at=len(damage.sound) if damage.is_cut else None,
        rest=rest,
        copy=seen.copy or copy,
        lost=tuple(damage.lost()),
    )


# --- what is damaged ---


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
    """The events that continue each other from the first on; of two with one place, the one whose
    body is the one that was sealed."""
    before = codec.ZERO
    for seq in range(1, len(by_seq) + 1):
        fitting = [event for event in by_seq.get(seq, ()) if codec.continues(event, before)]
        if not fitting:
            return
        event = max(fitting, key=_is_readable)
        yield event
        before = event.chain


def _last(seen: Salvage, sound: int, others: Sequence[Event]) -> int:
    """The newest event that the log is known to have had. A seq far beyond what there is was
    damaged itself, unless a neighbour confirms it; what is broken at the end was an event, or
    several."""
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


def _is_free(event: Event) -> bool:
    """Whether the event can stand in another log: it speaks for itself, and its envelope has
    values that an event can have."""
    try:
        codec.chain_of(codec.ZERO, event)
    except (struct.error, ValueError):
        return False
    return event.kind in SPEAKS_FOR_ITSELF


def _reads_as(store: Store, conversation: str, events: Sequence[Event]) -> bool:
    """Whether the store itself reads these events."""
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


# --- mending ---


def _parting(store: Store, conversation: str, seen: Salvage, damage: _Damage) -> int:
    """After which event the repaired log holds its own: where it leaves its parent, or 0 if it has
    to go without one, because the parent's log is cut before. Conflict if the parent has to be
    repaired instead, or a fork first."""
    if damage.is_cut:
        _check_forks(store, conversation, len(damage.sound))
    if len(damage.sound) < seen.parent_seq:
        return 0
    if damage.first <= seen.parent_seq:
        said = f"the damage is in {seen.parent!r}, the parent of {conversation!r}"
        raise Conflict(said, head=len(damage.sound), hint=f"refold verify {seen.parent} --repair")
    return seen.parent_seq


def _check_forks(store: Store, conversation: str, head: int) -> None:
    """Conflict if a fork reads what has to be cut off."""
    for other in conversations(store):
        if other.parent == conversation and other.parent_seq > head:
            said = f"{conversation!r} has to be cut, and its fork {other.id!r} reads it"
            hint = f"refold verify {other.id} --repair makes it a log of its own: do that first"
            raise Conflict(said, head=head, hint=hint)


def _mended(event: Event) -> Event:
    return event if _is_readable(event) else replace(event, body=b"", salt=b"")


def _keep_rest(store: Store, conversation: str, events: Sequence[Event]) -> str:
    """Writes the rest as a conversation of its own, each event sealed at its new place; gives the
    id of that."""
    if not events:
        return ""
    id, before, moved = _free_id(store, conversation), codec.ZERO, list[Event]()
    for seq, event in enumerate(events, 1):
        moved.append(codec.resealed(event, before, seq))
        before = moved[-1].chain
    for at in range(0, len(moved), APPEND_EVENTS):
        store.append(id, moved[at : at + APPEND_EVENTS], expect=at)
    return id


def _free_id(store: Store, id: str) -> str:
    names = [f"{id[:ID_CHARS_MAX]}-rest{number}" for number in ("", *(f"-{n}" for n in range(999)))]
    return next(name for name in names if not is_taken(store, name))
