"""The states of all messages over time, the page's stand-ins and sizes, and the compactions. One
pass over the log finds them all; once the log has grown, it continues where it ended.

A change is the log position from which a message is in another state. Only the parts that an event
can change are compared: the page inside the span of an edit, or, after an event that reaches back,
the whole page and the events that it switched on or off. Erased text counts as erased from the
start. Neighbours: `past` switches, `core.fold` applies the events, `Context.log` asks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from refold.core.active_events import Off, switched
from refold.core.budget import current_tokens, factor_of
from refold.core.codec import decode
from refold.core.fold import Fold
from refold.core.model import (
    ENDLESS,
    Event,
    Hide,
    Message,
    Replace,
    Role,
    Slot,
    Span,
    Summarize,
)
from refold.core.shortened import quoted_seqs, skeleton
from refold.core.thinking_validity import named_by, overlaps, with_span
from refold.errors import Invalid
from refold.log.log import Log
from refold.log.past import Growth

MessageState = Literal["whole", "shortened", "quoted", "hidden", "rewound", "erased"]
EVERYTHING = Span(0, ENDLESS)


class LoggedMessage(Struct, frozen=True, array_like=True):
    """A message of the log: its tokens are those of its original."""

    seq: int
    at_ms: int
    role: Role
    tokens: int


class StateChange(Struct, frozen=True, array_like=True):
    """From the event `at` on, the message `seq` is in this state."""

    at: int
    seq: int
    state: MessageState


class StandIn(Struct, frozen=True, kw_only=True):
    """A notice or summary on the page, by the seq of its edit, from the event `since` until the
    event `until` (0: it is still there). It replaces messages between `first` and `last`."""

    edit: int
    first: int
    last: int
    tokens: int
    since: int
    until: int = 0


class States(Struct, frozen=True, kw_only=True):
    """The state of each message, up to the `head` of the log.

    A message on the page is `whole` or `shortened`. Off the page it is `quoted` by a summary that
    is on it, `hidden`, or `rewound` by a restore or an undo. It is `erased` if its text is deleted
    for good while its place is still on the page. It begins as `whole`; `changes` has the rest,
    oldest first. `sizes` are the tokens of the page after each event (by seq) that changed them.
    With `after`, everything known at that head is left out."""

    head: int
    after: int
    messages: tuple[LoggedMessage, ...]
    changes: tuple[StateChange, ...]
    standins: tuple[StandIn, ...]
    sizes: tuple[tuple[int, int], ...]

    def at(self, seq: int) -> dict[int, MessageState]:
        """The state of every message up to a position in the log, by seq."""
        if self.after or not 0 <= seq <= self.head:
            what = f"these states are from #{self.after} to #{self.head}, not at #{seq}"
            raise Invalid(what, hint="read them without `after`, and choose a place in the log")
        found: dict[int, MessageState] = {}
        for message in self.messages:
            if message.seq > seq:
                break
            found[message.seq] = "whole"
        for change in self.changes:
            if change.at > seq:
                break
            found[change.seq] = change.state
        return found


class Batch(Struct, frozen=True, kw_only=True):
    """One compaction: the `id` to revert it by, and the `seq` of its first edit. It is `live`
    unless an undo or a restore switched it off. `purpose` is empty for an ordinary compaction, else
    a constant of `core.model` such as `MADE_ROOM`. `covered_by` is the next active compaction over
    some of the same messages: they do not come back until it is undone as well."""

    id: str
    seq: int
    at_ms: int
    strategy: str
    edits: int
    tokens_before: int
    tokens_after: int
    live: bool
    purpose: str = ""
    covered_by: str = ""


class StateWalk:
    """The pass over one log. Not locked: its owner has the lock."""

    def __init__(self, log: Log) -> None:
        self._log, self._opening = log, log.openings
        self._state, self._growth = Fold(), Growth()
        self._erased = dict(log.state.erased)
        self._state.erased = self._erased.copy()
        self._off = Off()
        self._messages: list[LoggedMessage] = []
        self._seqs = array("q")  # of the messages
        self._changes: list[StateChange] = []
        self._now: dict[int, MessageState] = {}  # of messages that are not whole
        self._without_text: set[int] = set(self._erased)
        self._quoted: Counter[int] = Counter()  # by seq: the summaries on the page that quote it
        self._standins: list[StandIn] = []
        self._open: dict[tuple[int, int, int], int] = {}  # those on the page, by their index
        self._sizes: list[tuple[int, int]] = []
        self._batches: dict[str, Batch] = {}
        # By batch: the seq of each edit, its span, and whether it only shortens a message.
        self._edits: dict[str, list[tuple[int, Span, bool]]] = {}

    @classmethod
    def continued(cls, walk: StateWalk | None, log: Log) -> StateWalk:
        """A walk that has reached the head: this one, unless the log no longer has the events that
        it saw."""
        is_same = walk is not None and walk._log is log and walk._opening == log.openings
        if walk is None or not is_same or walk._erased.keys() != log.state.erased.keys():
            walk = cls(log)
        for event in log.read(walk._state.head, log.state.head):
            walk._add(event)
        return walk

    def states(self, after: int = 0) -> States:
        """Everything that changed after a position."""
        return States(
            head=self._state.head,
            after=after,
            messages=tuple(self._messages[bisect_right(self._seqs, after) :]),
            changes=tuple(
                self._changes[bisect_right(self._changes, after, key=lambda change: change.at) :]
            ),
            standins=tuple(s for s in self._standins if max(s.since, s.until) > after),
            sizes=tuple(self._sizes[bisect_right(self._sizes, after, key=lambda size: size[0]) :]),
        )

    def batches(self) -> list[Batch]:
        """Every compaction, oldest first."""
        listed: list[Batch] = []
        later: list[tuple[str, list[Span]]] = []  # active ones, the newest first
        for batch in reversed(self._batches.values()):
            edits = [edit for edit in self._edits[batch.id] if edit[0] not in self._off]
            own: list[Span] = []
            covers: list[Span] = []
            for _, span, is_replace in edits:
                own = with_span(own, span)
                covers = covers if is_replace else with_span(covers, span)
            next_over = next((id for id, spans in reversed(later) if _meet(spans, own)), "")
            listed.append(replace(batch, live=bool(edits), covered_by=next_over))
            if covers:
                later.append((batch.id, covers))
        return listed[::-1]

    def _add(self, event: Event) -> None:
        """Applies one event, and notes what it changed."""
        state = self._state
        body = None
        if event.kind == "edit" and event.seq not in self._erased:
            body = decode(event)
        edit = body if isinstance(body, Replace | Hide | Summarize) else None
        span = named_by(edit) if edit else Span(1, 0)
        candidates: set[int] = set()
        if event.kind == "message":
            self._note_message(event)
            candidates.add(event.seq)
        before = self._slots(span)
        if event.kind == "erase":
            # Its text was erased from the start.
            state.step(event)
        elif not state.add(event, edit):
            span, before = EVERYTHING, state.slots
            self._state = state = self._log.past.switched_on(state, [event])
            state.erased = self._erased.copy()
            cut = state.controls.cut(event.seq - 1, ever=True)
            off = switched(state.controls.after(cut)).off
            for changed in _in_one_only(self._off.after(cut), off.spans):
                start, end = changed.first, changed.last + 1
                candidates.update(
                    self._seqs[bisect_left(self._seqs, start) : bisect_left(self._seqs, end)]
                )
            self._off = Off((*self._off.upto(cut), *off.spans))
        if span.first <= span.last:
            candidates |= self._note_slots(event.seq, before, self._slots(span))
        for seq in sorted(candidates):
            self._note_state(event.seq, seq)
        tokens_before = self._sizes[-1][1] if self._sizes else 0
        tokens = current_tokens(state, factor_of(state, state.meta.model or ""))
        if tokens != tokens_before or not self._sizes:
            self._sizes.append((event.seq, tokens))
        if edit is not None and edit.batch:
            self._note_edit(event, edit, tokens_before, tokens)
        self._growth.size_bytes += len(event.body)
        self._log.past.keep_due(state, self._growth)

    def _slots(self, span: Span) -> list[Slot]:
        """The slots of the page that begin inside a span."""
        slots = self._state.slots
        start = bisect_left(slots, span.first, key=lambda slot: slot.seq)
        return slots[start : bisect_right(slots, span.last, key=lambda slot: slot.seq)]

    def _note_message(self, event: Event) -> None:
        message = None if event.seq in self._erased else decode(event)
        if not isinstance(message, Message):
            self._without_text.add(event.seq)
            message = skeleton(self._erased.get(event.seq))
        self._messages.append(LoggedMessage(event.seq, event.at_ms, message.role, event.tokens))
        self._seqs.append(event.seq)

    def _note_slots(self, at: int, before: Sequence[Slot], after: Sequence[Slot]) -> set[int]:
        """Notes stand-ins that came or went, and returns the messages whose state may differ."""
        old = {(slot.seq, slot.last, slot.edits): slot for slot in before}
        new = {(slot.seq, slot.last, slot.edits): slot for slot in after}
        candidates: set[int] = set()
        for slots, others, is_new in ((old, new, False), (new, old, True)):
            for key in slots.keys() - others.keys():
                slot = slots[key]
                if not slot.standin:
                    candidates.add(slot.seq)
                    continue
                if slot.summary is not None:
                    quoted = quoted_seqs(slot.summary)
                    candidates |= quoted
                    (self._quoted.update if is_new else self._quoted.subtract)(quoted)
                self._note_standin(at, slot, is_new=is_new)
        return candidates

    def _note_standin(self, at: int, slot: Slot, *, is_new: bool) -> None:
        key = (slot.edits[0].seq, slot.seq, slot.last)
        if is_new:
            self._open[key] = len(self._standins)
            edit, first, last = key
            self._standins.append(
                StandIn(edit=edit, first=first, last=last, tokens=slot.tokens, since=at)
            )
        elif (index := self._open.pop(key, None)) is not None:
            self._standins[index] = replace(self._standins[index], until=at)

    def _note_state(self, at: int, seq: int) -> None:
        index = bisect_left(self._seqs, seq)
        if index == len(self._seqs) or self._seqs[index] != seq:
            return  # a summary may quote numbers that do not belong to a message
        state = self._state_of(seq)
        if state == self._now.get(seq, "whole"):
            return
        self._changes.append(StateChange(at, seq, state))
        if state == "whole":
            del self._now[seq]
        else:
            self._now[seq] = state

    def _state_of(self, seq: int) -> MessageState:
        if seq in self._off:
            return "rewound"
        slot = self._state.slot_at(seq)
        if slot is None or slot.standin:
            return "quoted" if self._quoted[seq] > 0 else "hidden"
        if seq in self._without_text:
            return "erased"
        return "shortened" if slot.edits else "whole"

    def _note_edit(
        self, event: Event, edit: Replace | Hide | Summarize, before: int, after: int
    ) -> None:
        batch = self._batches.get(edit.batch) or Batch(
            id=edit.batch,
            seq=event.seq,
            at_ms=event.at_ms,
            strategy=event.by,
            edits=0,
            tokens_before=before,
            tokens_after=before,
            live=False,
            purpose=edit.purpose,
        )
        self._batches[edit.batch] = replace(batch, edits=batch.edits + 1, tokens_after=after)
        noted = (event.seq, named_by(edit), isinstance(edit, Replace))
        self._edits.setdefault(edit.batch, []).append(noted)


def _meet(some: Sequence[Span], others: Sequence[Span]) -> bool:
    """Whether two lists of sorted spans share a message."""
    if len(some) > len(others):
        some, others = others, some
    return any(overlaps(others, span) for span in some)


def _in_one_only(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """The seqs in only one of two lists of spans that do not touch."""
    # Each edge is the start or the end of a span in one of the lists: between two edges, the lists
    # differ.
    edges = sorted(edge for span in (*one, *other) for edge in (span.first, span.last + 1))
    pairs = zip(edges[::2], edges[1::2])
    return [Span(first, end - 1) for first, end in pairs if first < end]
