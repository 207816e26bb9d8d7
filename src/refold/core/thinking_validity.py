"""Validity of thinking: every earlier page, compared with the current one.

A change is an event that alters an earlier part of the page: an edit, a restore, an erase, a pin on
an edited message. Nothing before its first seq is altered. The heads between two changes are an
era. Its thinking is valid up to the first seq of all changes that were live then and are not now,
or the reverse. So an undo makes thinking valid again, and an edit in the middle does not affect
thinking before it. The system prompt and the tools come before all messages: another one begins an
era, whose thinking is valid whenever that one is set. Neighbours: `fold` keeps the eras,
`active_events` finds live events, `laws` removes invalid thinking.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.core.active_events import Controls, Off, Switches, switched
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

Front = tuple[int, int]  # the seqs of a system prompt and of tools


class Change(Struct, frozen=True):
    """An event that altered the page from `first` on; an edit, up to `last`. With a native summary
    (`is_native`), later thinking stays valid as long as that summary is sent."""

    seq: int
    first: int = 0
    last: int = 0
    batch: str = ""
    is_native: bool = False


def change_of(seq: int, body: Body) -> Change | None:
    """The change made by an event itself; None if it alters no earlier part of the page."""
    match body:
        case Replace() | Hide() | Summarize():
            span = named_by(body)
            return Change(seq, span.first, span.last, body.batch, body.purpose == NATIVE)
        case Restore():
            return Change(seq, 0 if is_idle(seq, body) else body.seq + 1)
        case Revert() if body.seq:
            return Change(seq, body.seq)
        case _:
            return None


def named_by(edit: Replace | Hide | Summarize) -> Span:
    """The messages that an edit may change."""
    return Span(edit.seq, edit.seq) if isinstance(edit, Replace) else edit.span


def is_idle(seq: int, restore: Restore) -> bool:
    """Whether a restore goes back to the current head. It invalidates all earlier thinking: the
    provider was called with another page."""
    return restore.seq >= seq - 1


def era_at(eras: Sequence[Era], head: int) -> Era:
    """The era of a head."""
    return eras[bisect_right(eras, head, key=lambda era: era.since) - 1]


def unchanged_since(eras: Sequence[Era], *, native: bool = False) -> int:
    """The head since which every page has begun like the current one."""
    since = eras[-1].since
    for era in reversed(eras):
        until = era.until_native if native else era.until
        if until != ENDLESS or era.front != eras[-1].front:
            break
        since = era.since
    return since


# --- spans of edits ---


def with_span(spans: Sequence[Span], more: Span) -> list[Span]:
    """Sorted spans with one more; spans that touch are joined."""
    start = bisect_left(spans, more.first - 1, key=lambda span: span.last)
    stop = bisect_right(spans, more.last + 1, key=lambda span: span.first)
    touched = (*spans[start:stop], more)
    joined = Span(min(span.first for span in touched), max(span.last for span in touched))
    return [*spans[:start], joined, *spans[stop:]]


def overlaps(spans: Sequence[Span], span: Span) -> bool:
    """Whether a span shares a message with one of several sorted spans."""
    at = bisect_left(spans, span.first, key=lambda other: other.last)
    return at < len(spans) and spans[at].first <= span.last


# --- one more change ---


def goes_on(newest: Change | None, change: Change) -> bool:
    """Whether a change belongs to the same append as the one before: no page existed in
    between."""
    if newest is None or not change.batch:
        return False
    return (newest.seq + 1, newest.batch) == (change.seq, change.batch)


def eras_after(
    eras: list[Era], newest: Change | None, seq: int, body: Body
) -> tuple[list[Era], Change | None]:
    """The eras after one more live event, and the newest change."""
    last = eras[-1]
    if isinstance(body, Meta):
        front = _front(last.front, body)
        return (eras if front == last.front else [*eras, Era(since=seq, front=front)]), newest
    if (change := change_of(seq, body)) is None:
        return eras, newest
    is_more = goes_on(newest, change)
    begun = eras if is_more else [*eras, Era(since=change.seq, front=last.front)]
    return _merged([*(_cut(era, change) for era in begun[:-1]), begun[-1]]), change


def _front(front: Front, meta: Meta) -> Front:
    system, tools = meta.system_seq, meta.tools_seq
    return (front[0] if system is None else system, front[1] if tools is None else tools)


def _cut(era: Era, change: Change) -> Era:
    """The era, limited by a change that was live either then or now, but not both."""
    native = era.until_native if change.is_native else min(era.until_native, change.first)
    if era.until <= change.first and era.until_native == native:
        return era
    return replace(era, until=min(era.until, change.first), until_native=native)


def _merged(eras: Iterable[Era]) -> list[Era]:
    """The eras, without those equal to the one before."""
    merged: list[Era] = []
    for era in eras:
        if not merged or era != replace(merged[-1], since=era.since):
            merged.append(era)
    return merged


# --- the whole log ---


def eras_of(
    controls: Controls,
    eras_before: Sequence[Era] = (),
    newest: Change | None = None,
    pins: Collection[int] = (),
) -> tuple[list[Era], Change | None]:
    """The eras of a log, and the newest change; or the same from the control events after a
    `ControlLog.cut`, with what was known there."""
    front = eras_before[-1].front if eras_before else (0, 0)
    walk = _Walk({seq for seq, _ in controls}, newest, pins, front)
    for at, (seq, body) in enumerate(controls):
        match body:
            case Revert() | Restore() if walk.is_plain(seq, body):
                walk.go_back(seq, body)
            case Revert() | Restore():
                walk.switch(seq, body, switched(controls[: at + 1], pins))
            case Pin():
                walk.pin(seq, body)
            case Erase():
                walk.erases.add(seq)
                walk.change(Change(seq))
            case Meta():
                walk.set_front(seq, body)
            case _:
                walk.change(change_of(seq, body))
    first, *later = walk.eras()
    # All that differed before the cut is the same now: only the newer changes limit those eras.
    earlier = [
        replace(
            era,
            until=min(era.until, first.until),
            until_native=min(era.until_native, first.until_native),
        )
        for era in eras_before or [Era(since=0)]
    ]
    return _merged([*earlier, *later]), walk.newest


class _Step(Struct):
    """Changes that were switched on or off together, and the front before that."""

    seq: int
    toggled: set[int]
    front: Front


class _Walk:
    """A pass over a log that tracks which changes are live at each head."""

    def __init__(
        self, controls: Collection[int], newest: Change | None, pins: Collection[int], front: Front
    ) -> None:
        self.controls = controls
        self.first_front = self.front = front
        self.fronts: list[tuple[int, Meta]] = []
        self.steps: list[_Step] = []
        self.changes: dict[int, Change] = {}
        self.newest = newest
        # And the pinned messages, by their negative seqs.
        self.live: set[int] = {-pin for pin in pins if pin > 0}
        self.erases: set[int] = set()  # never switched off
        self.off, self.reverted = Off(), set[int]()  # `reverted`: since `off` was found

    def change(self, change: Change | None) -> None:
        """Adds a live change."""
        if change is None:
            return
        self.changes[change.seq] = change
        self.live.add(change.seq)
        if goes_on(self.newest, change):
            self.steps[-1].toggled.add(change.seq)
        else:
            self.steps.append(_Step(change.seq, {change.seq}, self.front))
        self.newest = change

    def set_front(self, seq: int, meta: Meta) -> None:
        """Sets the system prompt or the tools."""
        self.fronts.append((seq, meta))
        if (front := _front(self.front, meta)) != self.front:
            self.steps.append(_Step(seq, set(), self.front))
            self.front = front

    def pin(self, seq: int, pin: Pin) -> None:
        """Sets or removes a pin. `eras` finds what that changes, because only edits use pins."""
        if pin.seq in self.off or pin.seq in self.reverted or pin.seq <= 0:
            return
        if (-pin.seq in self.live) != pin.on:
            self.live ^= {-pin.seq}
            self.steps.append(_Step(seq, {-pin.seq}, self.front))

    def is_plain(self, seq: int, body: Revert | Restore) -> bool:
        """Whether only the named batch or message is switched: some owners do so at every call."""
        if isinstance(body, Restore):
            return is_idle(seq, body)
        return bool(body.batch) or body.seq not in self.controls

    def go_back(self, seq: int, body: Revert | Restore) -> None:
        """Applies a plain revert or restore."""
        if isinstance(body, Revert) and body.batch:
            edits = {at for at in self.live if at > 0 and self.changes[at].batch == body.batch}
            self.live -= edits
            self.steps.append(_Step(seq, edits, self.front))
            self.newest = None
            return
        self.change(change_of(seq, body))
        if isinstance(body, Revert) and 0 < body.seq < seq:
            self.reverted.add(body.seq)
            self.steps[-1].toggled |= self.live & {-body.seq}
            self.live.discard(-body.seq)

    def switch(self, seq: int, body: Revert | Restore, found: Switches) -> None:
        """Applies a revert or restore that may change the whole set of live events."""
        change = change_of(seq, body)
        target = self.changes.get(body.seq) if isinstance(body, Revert) else None
        if target is not None and not target.first:
            change = Change(seq)  # reverting the end of all thinking does not revalidate it
        if change is not None:
            self.changes[seq] = change
        self.off, self.reverted = found.off, set()
        # Erased messages do not come back.
        live = {at for at in self.changes if at not in found.off or at in self.erases}
        live |= {-pin for pin in found.pins if pin > 0}
        self.steps.append(_Step(seq, self.live ^ live, self.front))
        self.live, self.newest = live, None
        self.front = self.first_front
        for at, meta in self.fronts:
            if at not in found.off:
                self.front = _front(self.front, meta)

    def eras(self) -> list[Era]:
        """The eras between the steps, computed from the newest back."""
        edits = [self.changes[at] for at in self.live if at > 0]
        for pin in {-at for step in self.steps for at in step.toggled if at < 0}:
            firsts = (edit.first for edit in edits if edit.first <= pin <= edit.last)
            self.changes[-pin] = Change(pin, min(firsts, default=ENDLESS))
        different: set[int] = set()  # changes live either then or now, but not both
        era = Era(since=0, front=self.front)
        eras: list[Era] = []
        for step in reversed(self.steps):
            eras.append(replace(era, since=step.seq))
            # Where changes only join the difference, the limits of the later era still hold.
            new = step.toggled
            is_growing = different.isdisjoint(new)
            different ^= new
            era = replace(era, front=step.front)
            if not is_growing:
                era, new = Era(since=0, front=step.front), different
            for seq in new:
                era = _cut(era, self.changes[seq])
        return [era, *reversed(eras)]
