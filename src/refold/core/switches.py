"""The first pass over a log: which of its events are switched off, and which pins are active.

It goes from the newest event to the oldest, because a later one decides about an earlier one: a
live revert switches its target off, a live restore everything between its target and itself.
Neighbours: `fold` applies the rest, `log` reads the events for both passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from refold.core.codec import decode
from refold.core.model import Body, Erase, Event, Hide, Pin, Replace, Restore, Revert, Summarize


class Switches(Struct, frozen=True):
    """Events that are off, active pins, erased bodies, the newest replace of each block, and the
    messages with a block that is replaced more than once."""

    off: frozenset[int] = frozenset()
    pins: frozenset[int] = frozenset()
    erased: dict[int, Erase] = field(default_factory=dict)
    winners: dict[tuple[int, int], int] = field(default_factory=dict)
    again: frozenset[int] = frozenset()


REACHING = frozenset({"revert", "restore", "erase"})  # such an event always reaches back
CONTROLS = frozenset({"revert", "restore", "pin", "erase", "edit"})


def switches(events: Iterable[Event]) -> Switches:
    """The first pass. Decodes control events only."""
    return switched([(event.seq, decode(event)) for event in events if event.kind in CONTROLS])


def switched(controls: Sequence[tuple[int, Body | None]]) -> Switches:
    """The same for decoded events."""
    off: set[int] = set()
    batches_off: set[str] = set()
    pins: dict[int, bool] = {}
    erased: dict[int, Erase] = {}
    winners: dict[tuple[int, int], int] = {}
    again: set[int] = set()
    # The span switched off by the newest live restore so far, open at both ends.
    off_from = off_to = 0
    spans: list[tuple[int, int]] = []
    for seq, body in reversed(controls):
        if isinstance(body, Erase):
            erased[body.seq] = body
        if seq in erased:
            continue
        if seq in off or off_from < seq < off_to:
            off.add(seq)
            continue
        match body:
            case Revert(batch=batch) if batch:
                batches_off.add(batch)
            case Revert(seq=target) if target < seq:
                off.add(target)
            case Restore(seq=target):
                off_from, off_to = target, seq
                spans.append((target, seq))
            case Pin():
                pins.setdefault(body.seq, body.on)
            case Replace() | Hide() | Summarize() if body.batch in batches_off:
                off.add(seq)
            case Replace(seq=target, block=block):
                if winners.setdefault((target, block), seq) != seq:
                    again.add(target)
            case _:
                continue
    off.update(seq for first, last in spans for seq in range(first + 1, last))
    return Switches(
        off=frozenset(off),
        # A reverted message cannot be pinned.
        pins=frozenset(seq for seq, on in pins.items() if on and seq not in off),
        erased=erased,
        winners=winners,
        again=frozenset(again),
    )
