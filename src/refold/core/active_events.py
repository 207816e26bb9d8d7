"""The first pass over a log: which of its events are switched off, and which pins are active.

It goes from the newest event to the oldest, because a later one decides about an earlier one: a
live revert switches its target off, a live restore everything between its target and itself.
`Controls` keeps the events that this needs, without their texts, so that the pass need not read
the log. Neighbours: `fold` applies the rest, `log` reads the events for both passes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

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

    def after(self, seq: int) -> tuple[Span, ...]:
        """The spans after a seq."""
        start = bisect_left(self.spans, seq + 1, key=lambda span: span.last)
        if start < len(self.spans) and self.spans[start].first <= seq:
            return (Span(seq + 1, self.spans[start].last), *self.spans[start + 1 :])
        return self.spans[start:]

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


def switched(
    controls: Sequence[tuple[int, Body | None]], pins_before: Collection[int] = ()
) -> Switches:
    """The same for decoded events: all of a log, or those after a `cut` and the pins there."""
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
    on = {seq for seq, is_on in pins.items() if is_on} | (set(pins_before) - pins.keys())
    pinned = frozenset(seq for seq in on if seq not in all_off)
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

_ROWS = decoding.packed_decoder(list[tuple[int, str, bytes]])


class _Rows:
    """The rows of one or more logs that began alike. All but the newest are packed, and unpacked
    only for a switch: most conversations never go back."""

    def __init__(self, packed: bytes, count: int) -> None:
        self.packed, self.packed_count = packed, count
        self.first = count  # rows before this one are not in `rows`
        self.rows: list[tuple[int, Body]] = []
        self._batches: dict[str, int] | None = None

    def unpacked(self) -> list[tuple[int, Body]]:
        if self.first:
            head = b"\xdd" + self.first.to_bytes(4, "big")
            old = _ROWS.decode(head + self.packed)
            self.rows = [*((seq, body_of(kind, body)) for seq, kind, body in old), *self.rows]
            self.first = 0
        return self.rows

    def upto(self, count: int) -> _Rows:
        """The first rows, to go on differently."""
        twin = _Rows(b"", 0)
        twin.rows = self.unpacked()[:count]
        if self.packed_count <= count:
            twin.packed, twin.packed_count = self.packed, self.packed_count
        return twin

    def batches(self) -> dict[str, int]:
        """The seq of the first edit of every batch."""
        if self._batches is None:
            self._batches = {}
            for row in self.unpacked():
                self.note(*row)
        return self._batches

    def note(self, seq: int, body: Body) -> None:
        if self._batches is not None and isinstance(body, Replace | Hide | Summarize):
            self._batches.setdefault(body.batch, seq)


class ControlLog:
    """The control events of a log without their texts. A copy shares the rows, as does the log at
    an earlier place: only where two of them go on differently, one gets rows of its own."""

    def __init__(self, packed: bytes = b"", count: int = 0) -> None:
        self._rows, self._count = _Rows(packed, count), count

    def add(self, seq: int, body: Body) -> None:
        row, at = (seq, without_texts(body)), self._count - self._rows.first
        self._count += 1
        if 0 <= at < len(self._rows.rows) and self._rows.rows[at] == row:
            return
        if at != len(self._rows.rows):
            self._rows = self._rows.upto(self._count - 1)
        self._rows.rows.append(row)
        self._rows.note(*row)

    def all(self) -> list[tuple[int, Body]]:
        return self._rows.unpacked()[: self._count]

    def after(self, seq: int) -> list[tuple[int, Body]]:
        """The control events after a seq."""
        return self._rows.unpacked()[self._index(seq) : self._count]

    def upto(self, seq: int) -> ControlLog:
        """The control events up to a seq."""
        found = self.copy()
        found._count = self._index(seq)
        return found

    def _index(self, seq: int) -> int:
        """The number of control events up to a seq."""
        rows = self._rows.unpacked()
        return bisect_left(rows, seq + 1, hi=self._count, key=lambda row: row[0])

    def cut(self, at: int, *, ever: bool = False) -> int:
        """The newest place up to `at` before which no later event switches one on or off; with
        `ever`, no later event ever did."""
        rows, batches = self._rows.unpacked(), self._rows.batches()
        off: set[int] = set()
        off_from = off_to = 0
        for index in range(self._count - 1, -1, -1):
            seq, body = rows[index]
            if seq <= at:
                break
            if not ever and (seq in off or off_from < seq < off_to):
                continue
            match body:
                case Revert(batch=batch) if batch:
                    target = batches.get(batch, seq)
                case Revert() | Erase():
                    target = body.seq if body.seq > 0 else seq
                    off.add(body.seq)
                case Restore():
                    target = max(0, body.seq) + 1
                    off_from, off_to = body.seq, seq
                case _:
                    continue
            at = min(at, target - 1)
        return at

    def first_of(self, batch: str) -> int:
        """The seq of the first edit of a batch; 0 if there is none."""
        return self._rows.batches().get(batch, 0)

    def newest(self, count: int) -> int:
        """The position before the newest `count` control events."""
        at = self._count - count
        return self._rows.unpacked()[at][0] - 1 if at > 0 else 0

    def packed(self) -> tuple[bytes, int]:
        """The control events as bytes, and their number."""
        rows = self._rows
        if self._count < rows.packed_count:
            return _packed(self.all()), self._count
        new = rows.rows[rows.packed_count - rows.first : self._count - rows.first]
        rows.packed += _packed(new)
        if rows.first:
            # What is packed need not stay unpacked.
            rows.rows, rows.first = rows.rows[len(new) :], self._count
        rows.packed_count = self._count
        return rows.packed, self._count

    def copy(self) -> ControlLog:
        twin = ControlLog()
        twin._rows, twin._count = self._rows, self._count
        return twin


def _packed(rows: Iterable[tuple[int, Body]]) -> bytes:
    encoded = ((seq, kind_of(body), encode(body)) for seq, body in rows)
    return b"".join(map(msgspec.msgpack.encode, encoded))


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
            return Meta(system_seq=body.system_seq, tools_seq=body.tools_seq)
        case _:
            return body
