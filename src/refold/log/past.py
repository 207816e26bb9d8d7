"""The fold at any position in a log, computed from a bookmark near it instead of the first event.

A bookmark is kept whenever the log has grown by enough events, and by a multiple of the bookmark's
own size; the newest folds stay in memory. Events that reach back (`switched_on`) begin at the
newest position before which no later event switches anything (`ControlLog.cut`): from there, only
active events are folded again, with their own switches and eras, while the sums of all events
continue. Without such a position, the fold begins at the first event. Neighbours: `core.bookmark`
has the bytes, `core.active_events` finds events that are off; `log` calls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from refold.core import bookmark
from refold.core.active_events import ControlLog, Controls, Switches, is_in, switched, switches
from refold.core.codec import decode
from refold.core.fold import CHANGING, FactPlace, Fold, folded, undoable_of
from refold.core.model import (
    Erase,
    Event,
    Fact,
    Message,
    Meta,
    Pin,
    Replace,
    Span,
)
from refold.core.thinking_validity import change_of, goes_on
from refold.errors import RefoldError

if TYPE_CHECKING:
    from refold.log.log import Log

ALONG_EVENTS = 256
ALONG_SHARE = 16  # a bookmark is at most this part of the events since the one before
SLOT_BYTES = 4  # at least, in a bookmark
FACTS = 20_000  # of summaries, in memory
RECENT, UNSTORED = 8, 256  # kept in memory: folds, and bookmarks that the store did not keep
NEAR = 16  # kept in memory: folds before the newest changes
SWITCHES_MAX = 16  # on the way to a place; with more, one fold from the first event is shorter
# Sums over all events, active or not.
_SUMS = (
    "head", "chain", "first_at_ms", "updated_ms", "called_ms", "artifacts", "checkpoints",
    "totals", "responses", "controls",
)  # fmt: skip


class Growth(Struct):
    """How far a log has grown since its last bookmark."""

    head: int = 0
    size_bytes: int = 0
    due_bytes: int = 0  # the size at which a bookmark is due, as far as known


class Past:
    """The earlier folds of one open log. Not locked: its owner has the lock."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._recent: dict[int, Fold] = {}  # by head, the last used comes last
        self._facts: dict[FactPlace, Fact] = {}
        self._near: dict[int, Fold] = {}  # by head, the newest comes last
        self._unstored: dict[int, bytes] = {}
        self._growth = Growth()
        self._erased = 0  # the number of erases that `_recent` knows

    def note(self, events: Sequence[Event], state: Fold) -> None:
        """Keeps a bookmark of the state after newly appended events, if one is due."""
        self._growth.size_bytes += sum(len(event.body) for event in events)
        self.keep_due(state, self._growth)

    def keep_near(self, state: Fold) -> None:
        """Keeps the state before a change in memory: undoing the change begins there."""
        if not self._log.hollow and state.head:
            self._near[state.head] = state.copy()
            for head in list(self._near)[:-NEAR]:
                del self._near[head]

    def keep_due(self, state: Fold, growth: Growth) -> None:
        """Keeps a bookmark of the state if one is due after this growth."""
        # A bookmark of a long page is large: it is not even made before it can be due.
        due_bytes = max(growth.due_bytes, ALONG_SHARE * SLOT_BYTES * len(state.slots))
        if state.head - growth.head < ALONG_EVENTS or growth.size_bytes < due_bytes:
            return
        try:
            data = bookmark.kept(state, is_along=True)
        except (OverflowError, ValueError):
            return  # a number that no bookmark can hold
        growth.due_bytes = ALONG_SHARE * len(data)
        if growth.size_bytes < growth.due_bytes:
            return
        growth.head, growth.size_bytes = state.head, 0
        store, id = self._log.store, self._log.conversation
        try:
            store.keep_bookmark(id, data, at=state.head)
            is_stored = store.bookmark(id, at=state.head) is not None
        except RefoldError:
            is_stored = False
        if not is_stored:
            self._unstored[state.head] = data
            for head in list(self._unstored)[:-UNSTORED]:
                del self._unstored[head]

    # --- the fold at a position ---

    def at(self, seq: int) -> Fold:
        """The fold of the log up to a seq, which is not after its head. It is shared: copy it
        before adding to it."""
        now = self._log.state
        if seq == now.head:
            return now
        state = self._nearest(seq, now)
        if state.head < seq:
            state = self._extended(state, seq)
            self._recent[seq] = state
            for head in list(self._recent)[:-RECENT]:
                del self._recent[head]
        return state

    def _extended(self, base: Fold, seq: int) -> Fold:
        state, growth, reached = base.copy(), Growth(base.head), 0
        for event in self._log.read(base.head, seq):
            if not state.add(event):
                reached += 1
                if reached > SWITCHES_MAX:
                    return self._whole(seq)
                state = self.switched_on(state, [event])
            growth.size_bytes += len(event.body)
            self.keep_due(state, growth)
        return state

    def _whole(self, last: int, events: Sequence[Event] = ()) -> Fold:
        """The fold from the first event."""
        read = self._log.read
        found = switches(chain(read(last=last), events))
        return folded(chain(read(last=last), events), found)

    def _nearest(self, upto: int, now: Fold) -> Fold:
        """The fold at the newest known place up to a seq, which `now` is not before."""
        if len(now.erased) != self._erased:
            self._recent, self._near, self._unstored, self._facts = {}, {}, {}, {}
            self._erased = len(now.erased)
        if now.head <= upto:
            return now
        near = max((head for head in self._near if head <= upto), default=0)
        if near:
            return self._near[near]
        recent = max((head for head in self._recent if head <= upto), default=0)
        if not recent or upto - recent >= ALONG_EVENTS:
            state = self._from_bookmark(upto, recent, now)
            if state is not None:
                return state
        if not recent:
            return Fold()
        state = self._recent[recent] = self._recent.pop(recent)
        return state

    def _from_bookmark(self, upto: int, after: int, now: Fold) -> Fold | None:
        """The fold at the newest bookmark up to a seq, if it fits the log and is newer than
        `after`."""
        unstored = max((head for head in self._unstored if after < head <= upto), default=0)
        data = self._unstored.get(unstored) or self._log.store.bookmark(
            self._log.conversation, at=upto
        )
        mark = bookmark.read(data)
        if mark is None or not after < mark.head <= upto:
            return None
        event = next(self._log.read(mark.head - 1, mark.head), None)
        # Erased messages are the same only if both folds had seen the erasure.
        shown = {} if self._log.hollow or mark.erased != now.erased else now.slots
        known = {(slot.seq, slot.last, slot.tokens, slot.edits): slot for slot in shown}
        facts = self._facts if mark.erased == now.erased else {}
        if not facts and facts is self._facts:
            facts.update((place, now.facts[key]) for key, place in now.fact_places.items())
        events = self._log.events(bookmark.needed(mark, known, facts))
        if event is None or event.chain != mark.chain or events is None:
            return None
        state = bookmark.resumed(mark, events, known, facts)
        if len(facts) > FACTS:
            facts.clear()
        facts.update((place, state.facts[key]) for key, place in state.fact_places.items())
        state.artifacts = now.artifacts[: bisect_right(now.artifacts, mark.head)]
        state.controls = now.controls.upto(mark.head)
        if now.controls.cut(mark.head) == mark.head:
            end = bisect_right(now.undoable, mark.head, key=lambda change: change[0])
            state.undoable = now.undoable[:end]
        else:
            state.undoable = undoable_of(state.controls.all())
        return state

    # --- events that reach back ---

    def switched_on(self, now: Fold, events: Sequence[Event]) -> Fold:
        """The fold `now` with further events, the first of which reaches back."""
        if any(event.kind == "erase" for event in events):
            return self._whole(now.head, events)
        controls = now.controls.copy()
        for event in events:
            if event.kind in CHANGING and (body := decode(event)) is not None:
                controls.add(event.seq, body)
        base, found = self._base(now, controls)
        state = base.copy()
        later = controls.after(base.head)
        self._add_originals(state, later, found)
        state.begin_walk(found)
        for event in self._active_events(state.head, now.head, found):
            self._step(state, event, found)
        for name in _SUMS:
            setattr(state, name, getattr(now, name))
        # The current page may need contents that the later state no longer has.
        state.systems = now.systems | state.systems
        state.toolsets = now.toolsets | state.toolsets
        state = state.copy()
        for event in events:
            self._step(state, event, found)
        erases = [seq for seq, body in later if isinstance(body, Erase)]
        state.reached_at = max([state.reached_at, *erases])
        state.end_walk(self._with_eras(base, now, controls))
        state.forget_contents()
        return state

    def _base(self, now: Fold, controls: ControlLog) -> tuple[Fold, Switches]:
        """The newest known fold that no later control event changes, and the switches of the events
        after it."""
        upto, found = controls.cut(now.head), Switches()
        while True:
            base = self._nearest(upto, now)
            upto = controls.cut(base.head)
            if upto < base.head:
                continue
            later = controls.after(base.head)
            found = switched(later, base.pins)
            # An edit of a message that is pinned later does not apply.
            pinned = [seq for seq in found.pins ^ base.pins if is_in(base.edited, seq)]
            if base.head and pinned:
                upto = min([base.head, *pinned]) - 1
                continue
            break
        shortened = {
            seq
            for seq, _ in found.winners
            if seq <= base.head and (slot := base.slot_at(seq)) is not None and slot.edits
        }
        pins = found.pins
        # A pin of an earlier message that is not on the page: it may be off.
        hidden = {
            body.seq
            for _, body in later
            if isinstance(body, Pin) and body.seq <= base.head and base.slot_at(body.seq) is None
        }
        if hidden:
            off = switched(controls.upto(base.head).all()).off
            pins -= {seq for seq in hidden if seq in off}
        found = replace(
            found,
            pins=pins,
            erased={**base.erased, **found.erased},
            again=found.again | shortened,
        )
        return base, found

    def _with_eras(self, base: Fold, now: Fold, controls: ControlLog) -> Fold | None:
        """The newest known fold whose eras are valid for the events up to it; None if it is better
        to fold from the first event."""
        while (upto := controls.cut(base.head, ever=True)) < base.head:
            base = self._nearest(upto, now)
        later = controls.after(base.head)
        first = change_of(*later[0]) if later else None
        is_split = first is not None and goes_on(base.newest, first)
        is_touched = any(
            is_in(base.edited, body.seq)
            or (body.seq <= base.head and base.slot_at(body.seq) is None)
            for _, body in later
            if isinstance(body, Pin)
        )
        return None if is_split or is_touched else base

    def _active_events(self, after: int, last: int, found: Switches) -> Iterator[Event]:
        """The events of a range, without the spans that are off."""
        for span in (*found.off.upto(last), Span(last + 1, last)):
            if span.last >= after or span.first > last:
                if span.first > after + 1:
                    yield from self._log.read(after, span.first - 1)
                after = max(after, span.last)

    def _step(self, state: Fold, event: Event, found: Switches) -> None:
        """Applies one event, with the earlier contents that it refers to."""
        body = decode(event) if event.kind == "meta" else None
        if isinstance(body, Meta):
            for seq, contents in (
                (body.system_seq, state.systems),
                (body.tools_seq, state.toolsets),
            ):
                if seq is None or seq in contents or not 0 < seq < event.seq:
                    continue
                for earlier in self._log.read(seq - 1, seq):
                    meta = decode(earlier) if earlier.kind == "meta" else None
                    if isinstance(meta, Meta) and seq not in state.erased:
                        content = meta.system if contents is state.systems else meta.tools
                        if content is not None:
                            contents[seq] = content
        state.step(event, live=event.seq not in found.off, found=found)

    def _add_originals(self, state: Fold, later: Controls, found: Switches) -> None:
        """Adds the originals of messages on the page whose blocks are replaced again."""
        for _, body in later:
            if not isinstance(body, Replace) or body.seq not in found.again:
                continue
            slot = state.slot_at(body.seq)
            if slot is None or slot.standin or body.seq in state.originals:
                continue
            for event in self._log.read(body.seq - 1, body.seq):
                message = None if body.seq in found.erased else decode(event)
                if isinstance(message, Message):
                    state.originals[body.seq] = message
