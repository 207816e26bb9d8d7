"""What is erased on one side is erased on the other, before the event that says so arrives.

The content that an erased event names goes where the other side, which knows who else names it, has
dropped it. A device that erased what another asked for says so in a note, the same however often it
is made. Neighbours: `exchange` asks, `conversations.eraser` begins it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from refold.core import codec
from refold.core.model import ERASED_NOTE, Erase, Event, Note
from refold.errors import NotFound
from refold.stores import checks
from refold.stores.hybrid import tails
from refold.stores.protocol import Store

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
    named = tails.contents_of(events)
    learn: Learn = getattr(other, "learn_place", _nothing)
    for artifact in named:
        learn(id, seq, artifact.digest)
    store.erase(id, seq)
    for artifact in named:
        if not holds(other, artifact.digest):
            store.drop(artifact.digest, before_ms=checks.now_ms() + 1)
    return True


def _nothing(id: str, seq: int, digest: str) -> None:
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
