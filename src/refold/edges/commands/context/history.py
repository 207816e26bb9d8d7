"""How large the page was over a conversation, from a bounded part of its log.

A short log is folded once more, which is exact. Of a long one some stretches are read, spread
evenly, and what the provider reported in them counts; where nothing was reported, nothing is known.
"""

from __future__ import annotations

from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Event, Usage
from refold.engine.context import Context
from refold.log.batches import sizes_of

FOLDED_MAX = 1_000  # events that are all folded
STRETCHES, STRETCH_EVENTS = 48, 8


class Size(Struct, frozen=True, kw_only=True):
    """The tokens of the page after an event."""

    seq: int
    tokens: int


def sizes(context: Context, current: int) -> tuple[Size, ...]:
    """The sizes that are known, oldest first; the last is that of now."""
    head = context.view.head
    if head <= FOLDED_MAX:
        known = sizes_of(context.log.events(limit=FOLDED_MAX))
    else:
        known = _reported(context, head)
    found = [Size(seq=seq, tokens=tokens) for seq, tokens in known if seq < head]
    return (*found, Size(seq=head, tokens=current)) if head else ()


def _reported(context: Context, head: int) -> list[tuple[int, int]]:
    """What calls were billed for, at so many places of the log."""
    found: dict[int, int] = {}
    for number in range(STRETCHES):
        after = head * number // STRETCHES
        for event in context.log.events(after=after, limit=STRETCH_EVENTS):
            found.update(_size(event))
    return sorted(found.items())


def _size(event: Event) -> dict[int, int]:
    body = decode(event) if event.kind == "usage" else None
    if isinstance(body, Usage) and body.input:
        return {event.seq: body.input + body.output}
    return {}
