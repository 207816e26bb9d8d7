"""The first pass over a log: which of its events are switched off, and which pins are active.

It goes from the newest event to the oldest, because a later one decides about an earlier one: a
live revert switches its target off, a live restore everything between its target and itself.
`Controls` keeps the events that this needs, without their texts, so that the pass need not read
the log. Neighbours: `fold` applies the rest, `log` reads the events for both passes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct, field

from refold import decoding
from refold.core.codec import body_of, decode, encode, kind_of
from refold.core.model import (
    Body,
    Erase,
    Event,
    Hide,
    Meta,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
)

REACHING = frozenset({"revert", "restore", "erase"})  # such an event always reaches back
CONTROLS = frozenset({"revert", "restore", "pin", "erase", "edit"})
Controls = Sequence[tuple[int, Body]]  # control events, by seq


class Off(Struct, frozen=True):
    """The events that are off, as sorted spans that do not touch."""

    spans: tuple[Span, ...] = ()

    def __contains__(self, seq: int) -> bool:
        return is_in(self.spans, seq)

    def upto(self, seq: int) -> tuple[Span, ...]:
        """The spans up to a seq."""
        end = bisect_left(self.spans, seq + 1, key=lambda span: span.first)
        if end and self.spans[end - 1].last > seq:
            return (*self.spans[: end - 1], Span(self.spans[end - 1].first, seq))
        return self.spans[:end]


class Switches(Struct, frozen=True):
    """Events that are off, active pins, erased bodies, the newest replace of each block, and the
    messages with a block that is replaced more than once."""

    off: Off = Off()
    pins: frozenset[int] = frozenset()
    erased: dict[int, Erase] = field(default_factory=dict)
    winners: dict[tuple[int, int], int] = field(default_factory=dict)
    again: frozenset[int] = frozenset()


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
    spans: list[Span] = []
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
                spans.append(Span(target + 1, seq - 1))
            case Pin():
                pins.setdefault(body.seq, body.on)
            case Replace() | Hide() | Summarize() if body.batch in batches_off:
                off.add(seq)
            case Replace(seq=target, block=block):
                if winners.setdefault((target, block), seq) != seq:
                    again.add(target)
            case _:
                continue
    all_off = Off(_joined([*spans, *(Span(seq, seq) for seq in off)]))
    # A reverted message cannot be pinned.
    pinned = frozenset(seq for seq, on in pins.items() if on and seq not in all_off)
    return Switches(all_off, pinned, erased, winners, frozenset(again))


def is_in(spans: Sequence[Span], seq: int) -> bool:
    """Whether sorted spans contain a seq."""
    at = bisect_left(spans, seq, key=lambda span: span.last)
    return at < len(spans) and seq in spans[at]


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.first):
        if span.last < span.first:
            continue
        if joined and span.first <= joined[-1].last + 1:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return tuple(joined)


# --- the control events of a log, packed ---

_FRONT, _BESIDE = Meta(system_seq=0), Meta()
_ROWS = decoding.packed_decoder(list[tuple[int, str, bytes]])


class ControlLog:
    """The control events of a log without their texts. All but the newest are packed, and unpacked
    only for a switch: most conversations never go back."""

    def __init__(self, packed: bytes = b"", count: int = 0) -> None:
        self._packed, self._count = packed, count
        self._unpacked: list[tuple[int, Body]] | None = None if packed else []
        self._new: list[tuple[int, Body]] = []

    def add(self, seq: int, body: Body) -> None:
        self._new.append((seq, without_texts(body)))

    def all(self) -> list[tuple[int, Body]]:
        if self._unpacked is None:
            rows = _ROWS.decode(b"\xdd" + self._count.to_bytes(4, "big") + self._packed)
            self._unpacked = [(seq, body_of(kind, body)) for seq, kind, body in rows]
        return [*self._unpacked, *self._new]

    def upto(self, seq: int) -> ControlLog:
        """The control events up to a seq."""
        found = ControlLog()
        controls = self.all()
        found._new = controls[: bisect_left(controls, seq + 1, key=lambda control: control[0])]
        return found

    def packed(self) -> tuple[bytes, int]:
        """The control events as bytes, and their number."""
        rows = [(seq, kind_of(body), encode(body)) for seq, body in self._new]
        self._packed += b"".join(map(msgspec.msgpack.encode, rows))
        self._count += len(self._new)
        if self._unpacked is not None:
            self._unpacked = [*self._unpacked, *self._new]
        self._new = []
        return self._packed, self._count

    def copy(self) -> ControlLog:
        twin = ControlLog(self._packed, self._count)
        twin._unpacked, twin._new = self._unpacked, [*self._new]
        return twin


def without_texts(body: Body) -> Body:
    """What the first pass, the eras and the history of a log need of a control event."""
    match body:
        case Replace():
            return Replace(batch=body.batch, seq=body.seq, block=body.block, purpose=body.purpose)
        case Hide():
            return Hide(batch=body.batch, span=body.span, purpose=body.purpose)
        case Summarize():
            return Summarize(batch=body.batch, span=body.span, text="", purpose=body.purpose)
        case Meta():
            return _FRONT if is_front(body) else _BESIDE
        case _:
            return body


def is_front(meta: Meta) -> bool:
    """Whether the metadata sets the system prompt or the tools, which come before all messages."""
    fields = (meta.system, meta.tools, meta.system_seq, meta.tools_seq)
    return any(value is not None for value in fields)
