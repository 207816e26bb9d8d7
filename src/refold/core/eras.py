"""Which thinking still stands: the page at every head there was, held against the page now.

A change is an event that alters what stood before it: an edit, a restore, another system prompt, an
erase, a pin on a message that an edit names. Nothing before its first seq is altered. The heads
between two changes are an era. What was thought in it stands up to the first seq of all changes
that were live then and are not now, or the other way round. So an undo brings thinking back as
well, and an edit in the middle leaves alone what was thought before it. Neighbours: `fold` keeps
the eras, `switches` says what is live, `laws` leaves thinking out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import (
    ENDLESS,
    NATIVE,
    Body,
    Era,
    Erase,
    Hide,
    Meta,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
)
from refold.core.switches import Switches, switched

Controls = Sequence[tuple[int, Body]]  # what changes or switches something, by seq


class Change(Struct, frozen=True):
    """An event that altered what stood from `first` on: an edit up to `last`. `is_native` is what
    the provider wrote itself: where that is sent, thinking stands behind it."""

    seq: int
    first: int = 0
    last: int = 0
    batch: str = ""
    is_native: bool = False


def change_of(seq: int, body: Body) -> Change | None:
    """What an event changes by itself; None if nothing that stood before it."""
    match body:
        case Replace() | Hide() | Summarize():
            span = named_by(body)
            return Change(seq, span.first, span.last, body.batch, body.purpose == NATIVE)
        case Restore():
            return Change(seq, 0 if is_idle(seq, body) else body.seq + 1)
        case Revert() if body.seq:
            return Change(seq, body.seq)
        case Meta() if is_front(body):
            return Change(seq)
        case _:
            return None


def named_by(edit: Replace | Hide | Summarize) -> Span:
    """The messages that an edit may change."""
    return Span(edit.seq, edit.seq) if isinstance(edit, Replace) else edit.span


def is_idle(seq: int, restore: Restore) -> bool:
    """Whether a restore goes back to where the log is. It says that nothing stands that was thought
    before: somebody asked the provider with another page."""
    return restore.seq >= seq - 1


def is_front(meta: Meta) -> bool:
    """Whether it says what stands before every message."""
    said = (meta.system, meta.tools, meta.system_seq, meta.tools_seq)
    return any(one is not None for one in said)


def era_at(eras: Sequence[Era], head: int) -> Era:
    """The era of a head."""
    return eras[bisect_right(eras, head, key=lambda era: era.since) - 1]


def unchanged_since(eras: Sequence[Era], *, native: bool = False) -> int:
    """The head from which on every page began as the page now."""
    since = eras[-1].since
    for era in reversed(eras):
        if (era.until_native if native else era.until) != ENDLESS:
            break
        since = era.since
    return since


# --- what edits name ---


def with_span(spans: Sequence[Span], more: Span) -> list[Span]:
    """Spans in order with one more; those that touch become one."""
    start = bisect_left(spans, more.first - 1, key=lambda span: span.last)
    stop = bisect_right(spans, more.last + 1, key=lambda span: span.first)
    touched = (*spans[start:stop], more)
    joined = Span(min(span.first for span in touched), max(span.last for span in touched))
    return [*spans[:start], joined, *spans[stop:]]


def is_in(spans: Sequence[Span], seq: int) -> bool:
    at = bisect_left(spans, seq, key=lambda span: span.last)
    return at < len(spans) and seq in spans[at]


# --- going on ---


def goes_on(newest: Change | None, change: Change) -> bool:
    """Whether a change was written with the one before: nobody saw a page between them."""
    if newest is None or not change.batch:
        return False
    return (newest.seq + 1, newest.batch) == (change.seq, change.batch)


def after(eras: Sequence[Era], newest: Change | None, change: Change) -> list[Era]:
    """The eras after one more change that is live."""
    begun = [*eras] if goes_on(newest, change) else [*eras, Era(since=change.seq)]
    return _merged([*(_cut(era, change) for era in begun[:-1]), begun[-1]])


def _cut(era: Era, change: Change) -> Era:
    """An era that was without this change, or with it, where it is not so now."""
    native = era.until_native if change.is_native else min(era.until_native, change.first)
    if era.until <= change.first and era.until_native == native:
        return era
    return Era(since=era.since, until=min(era.until, change.first), until_native=native)


def _merged(eras: Iterable[Era]) -> list[Era]:
    """The eras without those that are as the one before."""
    merged: list[Era] = []
    last = (-1, -1)
    for era in eras:
        until = (era.until, era.until_native)
        if until != last:
            merged.append(era)
        last = until
    return merged


# --- the whole log ---


def eras_of(controls: Controls) -> tuple[list[Era], Change | None]:
    """The eras of a log, and the newest change."""
    walk = _Walk({seq for seq, _ in controls})
    for at, (seq, body) in enumerate(controls):
        match body:
            case Revert() | Restore() if walk.is_plain(seq, body):
                walk.go_back(seq, body)
            case Revert() | Restore():
                walk.switch(seq, body, switched(controls[: at + 1]))
            case Pin():
                walk.pin(seq, body)
            case Erase():
                walk.erases.add(seq)
                walk.change(Change(seq))
            case _:
                walk.change(change_of(seq, body))
    return _merged(walk.eras()), walk.newest


class _Step(Struct):
    """Changes that were switched on or off at once."""

    seq: int
    turned: set[int]


class _Walk:
    """A walk over a log, as it was at each head."""

    def __init__(self, controls: Collection[int]) -> None:
        self.controls = controls
        self.steps: list[_Step] = []
        self.known: dict[int, Change] = {}
        self.newest: Change | None = None
        self.live: set[int] = set()
        self.erases: set[int] = set()  # never off again
        self.off: set[int] = set()
        self.pins: set[int] = set()

    def change(self, change: Change | None) -> None:
        """A change that is live from now on."""
        if change is None:
            return
        self.known[change.seq] = change
        self.live.add(change.seq)
        if goes_on(self.newest, change):
            self.steps[-1].turned.add(change.seq)
        else:
            self.steps.append(_Step(change.seq, {change.seq}))
        self.newest = change

    def pin(self, seq: int, pin: Pin) -> None:
        """A pin changes the page where an edit names its message."""
        if pin.seq in self.off or (pin.seq in self.pins) == pin.on:
            return
        self.pins ^= {pin.seq}
        edits = (self.known[at] for at in self.live)
        firsts = [one.first for one in edits if one.first <= pin.seq <= one.last]
        if firsts:
            self.change(Change(seq, min(firsts)))

    def is_plain(self, seq: int, body: Revert | Restore) -> bool:
        """Whether nothing else goes on or off with what this names: a batch, or a message. Owners
        of lists take messages back at every call, so these must cost little."""
        if isinstance(body, Restore):
            return is_idle(seq, body)
        return bool(body.batch) or body.seq not in self.controls

    def go_back(self, seq: int, body: Revert | Restore) -> None:
        """What a plain revert or restore switches off."""
        if isinstance(body, Revert) and body.batch:
            edits = {at for at in self.live if self.known[at].batch == body.batch}
            self.live -= edits
            self.steps.append(_Step(seq, edits))
            self.newest = None
            return
        if isinstance(body, Revert) and body.seq < seq:
            self.off.add(body.seq)
            self.pins.discard(body.seq)
        self.change(change_of(seq, body))

    def switch(self, seq: int, body: Revert | Restore, found: Switches) -> None:
        """One after which quite another set may be live."""
        change = change_of(seq, body)
        target = self.known.get(body.seq) if isinstance(body, Revert) else None
        if target is not None and not target.first:
            change = Change(seq)  # what ended all thinking does not bring it back by going
        if change is not None:
            self.known[seq] = change
        self.off, self.pins = set(found.off), set(found.pins)
        # What was erased does not come back.
        live = {at for at in self.known if at not in found.off or at in self.erases}
        self.steps.append(_Step(seq, self.live ^ live))
        self.live, self.newest = live, None

    def eras(self) -> list[Era]:
        """The eras between the steps, found from the newest back."""
        other: set[int] = set()  # live at one of the two times, then and now, not at the other
        found = Era(since=0)
        eras: list[Era] = []
        for step in reversed(self.steps):
            eras.append(replace(found, since=step.seq))
            is_more = other.isdisjoint(step.turned)
            other ^= step.turned
            found = self._cut(found, step.turned) if is_more else self._cut(Era(since=0), other)
        return [found, *reversed(eras)]

    def _cut(self, era: Era, seqs: Iterable[int]) -> Era:
        for seq in seqs:
            era = _cut(era, self.known[seq])
        return era
