"""The fold at any place of a log, from a bookmark near it instead of the first event.

A bookmark is kept along the log once it has grown by enough events, and by a multiple of the
bookmark's own size. Events that reach back (`switched_on`) begin at the newest place before which
the same events are on and off as afterwards: from there, only events that are on are folded again,
and the sums of all events go on. Without such a place, the fold begins at the first event.
Neighbours: `core.bookmark` has the bytes, `core.active_events` what is off; `log` calls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct

from refold.core import bookmark
from refold.core.active_events import Controls, Switches, switched, switches, without_texts
from refold.core.codec import decode
from refold.core.fold import CHANGING, FactPlace, Fold, folded
from refold.core.model import (
    Erase,
    Event,
    Fact,
    Hide,
    Message,
    Meta,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
)
from refold.core.thinking_validity import named_by
from refold.errors import RefoldError

if TYPE_CHECKING:
    from refold.log.log import Log

ALONG_EVENTS = 256
ALONG_SHARE = 32  # a bookmark is at most this part of the events since the one before
SLOT_BYTES = 4  # at least, in a bookmark
RECENT, UNSTORED = 8, 256  # folds, and bookmarks that the store did not keep, in memory
FACTS = 20_000  # of summaries, in memory
SWITCHES_MAX = 16  # on the way to a place; with more, one fold from the first event is shorter
# Sums of all events, on or off.
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
        self._unstored: dict[int, bytes] = {}
        self._facts: dict[FactPlace, Fact] = {}
        self._growth = Growth()
        self._erased = 0  # the number of erases that `_recent` knows

    def note(self, events: Sequence[Event], state: Fold) -> None:
        """Keeps a bookmark of the state after newly appended events, if one is due."""
        self._growth.size_bytes += sum(len(event.body) for event in events)
        self.keep_due(state, self._growth)

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

    # --- the fold at a place ---

    def at(self, seq: int) -> Fold:
        """The fold of the log up to a seq, not after its head. It is shared: copy it to add to
        it."""
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
            self._recent, self._unstored, self._facts = {}, {}, {}
            self._erased = len(now.erased)
        if now.head <= upto:
            return now
        recent = max((head for head in self._recent if head <= upto), default=0)
        if not recent or upto - recent >= ALONG_EVENTS:
            state = self._kept(upto, recent, now)
            if state is not None:
                return state
        if not recent:
            return Fold()
        state = self._recent[recent] = self._recent.pop(recent)
        return state

    def _kept(self, upto: int, after: int, now: Fold) -> Fold | None:
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
        # Erased messages are the same only if both knew of it.
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
        return state

    # --- events that reach back ---

    def switched_on(self, now: Fold, events: Sequence[Event]) -> Fold:
        """The fold `now` with further events, the first of which reaches back."""
        if any(event.kind == "erase" for event in events):
            return self._whole(now.head, events)
        controls = now.controls.all()
        for event in events:
            if event.kind in CHANGING and (body := decode(event)) is not None:
                controls.append((event.seq, without_texts(body)))
        found = switched(controls)
        state = self._base(now, controls, found).copy()
        self._add_originals(state, controls, found)
        state.begin_walk(found)
        for event in self._on(state.head, now.head, found):
            self._step(state, event, found)
        for name in _SUMS:
            setattr(state, name, getattr(now, name))
        # The current page may need contents that the later state no longer has.
        state.systems = now.systems | state.systems
        state.toolsets = now.toolsets | state.toolsets
        state = state.copy()
        for event in events:
            self._step(state, event, found)
        erases = [seq for seq, body in controls if isinstance(body, Erase)]
        state.reached_at = max([state.reached_at, *erases])
        state.end_walk()
        state.forget_contents()
        return state

    def _base(self, now: Fold, controls: Controls, found: Switches) -> Fold:
        """The newest known fold of events that are on or off as they are now."""
        upto = now.head
        while True:
            state = self._nearest(upto, now)
            differing = _first_differing(state.head, controls, found)
            if differing is None:
                return state
            upto = differing - 1

    def _on(self, after: int, last: int, found: Switches) -> Iterator[Event]:
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

    def _add_originals(self, state: Fold, controls: Controls, found: Switches) -> None:
        """Adds the originals of messages on the page whose blocks are replaced again."""
        for seq, body in controls:
            if seq <= state.head or not isinstance(body, Replace) or body.seq not in found.again:
                continue
            slot = state.slot_at(body.seq)
            if slot is None or slot.standin or body.seq in state.originals:
                continue
            for event in self._log.read(body.seq - 1, body.seq):
                message = None if body.seq in found.erased else decode(event)
                if isinstance(message, Message):
                    state.originals[body.seq] = message


def _first_differing(head: int, controls: Controls, found: Switches) -> int | None:
    """A place up to `head` such that no fold from there up to `head` fits the switches; None if
    the fold at `head` fits."""
    if head == 0:
        return None
    for span in found.off.upto(head)[-1:]:
        if span.last == head:
            return span.first
    own = controls[: bisect_right(controls, head, key=lambda control: control[0])]
    then = switched(own)
    off = _first_difference(then.off.spans, found.off.upto(head))
    if off is not None:
        # Before an event that reaches back, others may have been on.
        reaching = (s for s, body in reversed(own) if isinstance(body, Revert | Restore | Erase))
        return max(off, next(reaching, 0))
    erased = [seq for seq in found.erased if seq <= head and seq not in then.erased]
    pins = found.pins ^ then.pins
    edits = [
        seq
        for seq, body in own
        if isinstance(body, Replace | Hide | Summarize) and any(p in named_by(body) for p in pins)
    ]
    return min([*erased, *edits], default=None)


def _first_difference(one: Sequence[Span], other: Sequence[Span]) -> int | None:
    """The first seq in only one of two lists of sorted spans."""
    for mine, theirs in zip_longest(one, other):
        if mine is None or theirs is None:
            return int((mine or theirs).first)
        if mine.first != theirs.first:
            return int(min(mine.first, theirs.first))
        if mine.last != theirs.last:
            return int(min(mine.last, theirs.last)) + 1
    return None
