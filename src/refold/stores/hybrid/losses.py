"""What a far store had and has no more: conversations, or their ends.

The record says up to where both sides were the same. A far log that has not all of that has lost
it, however whole the rest is: a check that reads only what lies there cannot see it. What only
says that this device erased something may never have been sent, and is not missed.
Neighbours: `record` keeps what was found, `rounds` sends it again, `tails` compares two logs.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec.structs import replace

from refold.core import codec
from refold.core.model import Conversation
from refold.errors import RefoldError, Unavailable
from refold.stores.hybrid import devices, erasure, tails
from refold.stores.hybrid.exchange import all_conversations, pages
from refold.stores.hybrid.record import Record
from refold.stores.protocol import Losses, Store


def found(near: Store, far: Store, kept: Record, ids: Sequence[str], besides: Set[str]) -> Losses:
    """What the far store has no more of these conversations, or of all, besides some."""
    events: dict[str, int] = {}
    for id in _shared(kept, ids, besides):
        count = _lost(near, far, id, kept.conversations[id].head)
        if count:
            events[id] = count
    return Losses(events=events, is_all=bool(events) and _is_all(far, kept))


def note(kept: Record, losses: Losses, ids: Sequence[str], besides: Set[str]) -> None:
    """Puts what was found into the record, and takes out what is there again."""
    for id in _shared(kept, ids, besides):
        known = kept.conversations[id]
        kept.conversations[id] = replace(known, lost=losses.events.get(id, 0))


def _shared(kept: Record, ids: Sequence[str], besides: Set[str]) -> list[str]:
    """The conversations that both sides had."""
    return [
        id
        for id, known in kept.conversations.items()
        if known.head and id not in besides and (not ids or id in ids)
    ]


def _lost(near: Store, far: Store, id: str, head: int) -> int:
    """How many of the events up to `head` the far store has no more. What is not here, or cannot
    be compared, is not counted: reading it says why."""
    try:
        here = tails.about(near, id)
        if here is None:
            return 0
        there = tails.about(far, id) or Conversation(id=id, head=0, chain=codec.ZERO)
        common, last = tails.last_common(near, here, far, there), min(head, here.head)
        gone = (event for page in pages(near, id, common, last) for event in page)
        return 0 if all(map(erasure.is_confirmation, gone)) else last - common
    except Unavailable:
        raise
    except RefoldError:
        return 0


def _is_all(far: Store, kept: Record) -> bool:
    there = devices.without({about.id: about for about in all_conversations(far)})
    return there.keys().isdisjoint(_shared(kept, (), frozenset()))
