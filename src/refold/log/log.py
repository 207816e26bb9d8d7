"""One conversation's log, open for appending, with its fold at the head.

Opening reads a bookmark, the events after it and the visible bodies, not the whole log. An append
writes first, then folds; if another writer was faster, its events are folded first, and ours follow
them under the same ids. Neighbours: a store below, `open_log` above, which holds the lock.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise, zip_longest

from refold.core import bookmark
from refold.core.active_events import CONTROLS, REACHING, switches
from refold.core.codec import REPAIR, SALT_BYTES, ZERO, continues, kind_of, resealed, seal
from refold.core.fold import Fold, folded
from refold.core.ids import uuid7
from refold.core.laws import calls_of, results_of
from refold.core.model import ENCRYPTED, Body, Erase, Event, Message, Role, Slot, Span, ToolCall
from refold.errors import Conflict, Corrupt, NotFound, RefoldError, sentence
from refold.log.draft import Draft
from refold.log.past import Past
from refold.stores import refuse_encrypted, synced_of
from refold.stores.protocol import Store
from refold.system.disk import HAPPENED_MS_MAX

TRIES_MAX = 20
APPEND_EVENTS_MAX = 10_000  # in one write, accepted by every store
PAGE_EVENTS = 500
BOOKMARK_EVENTS = 256
NEAR_EVENTS = 8
_RANDOM_BYTES = 10 + SALT_BYTES  # per event: for its id and its salt
KEPT_SLOTS = 100  # newest slots that keep their messages in `drop_blocks`

Clock = Callable[[], int]
Fresh = Callable[[Fold], bool]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Log:
    """`state` is the fold at the head. `append` is the only way to write."""

    def __init__(self, store: Store, conversation: str, *, clock: Clock | None = None) -> None:
        self.store = store
        self.clock = clock or now_ms
        self._synced = synced_of(store)
        self.redacts = self._synced is not None and self._synced.redact == "append"
        self.openings = 0  # number of times a log was opened
        self.expect: int | None = None  # the head at which the next append must begin, if any
        self.open(conversation)

    def open(self, conversation: str) -> None:
        """Switches to the log of this conversation."""
        self.conversation = conversation
        self.openings += 1
        self.marked = 0  # the head at the last bookmark
        self.bookmark_fault = ""  # why the last bookmark failed
        self.ended_at = 0  # the head of a bookmark, if the log no longer reached it when opened
        self._tried = 0  # the head at the last attempt to keep a bookmark
        self.hollow = 0  # up to this seq, messages on the page may lack their blocks
        self.past = Past(self)
        self.state = self._opened()

    # --- reading ---

    def _opened(self) -> Fold:
        try:
            mark = bookmark.read(self.store.bookmark(self.conversation))
            if mark is not None and mark.head > 0:
                return self._resumed(mark) or self._refolded()
            return self._refolded()
        except NotFound:
            return Fold()

    def _resumed(self, mark: bookmark.Bookmark) -> Fold | None:
        """The fold from the bookmark and the tail, if the bookmark still fits the log."""
        tail = self.store.read(self.conversation, after=mark.head - 1, limit=PAGE_EVENTS)
        self.ended_at = 0 if tail else mark.head
        if not tail or tail[0].seq != mark.head or tail[0].chain != mark.chain:
            return None
        events = self.events(bookmark.needed(mark))
        if events is None:
            return None
        state = bookmark.resumed(mark, events)
        self.marked = self._tried = mark.head
        while tail:
            for event in tail:
                if event.seq <= mark.head:
                    continue
                self._check_next(event, state.head, state.chain)
                if not state.add(event):
                    state = self.past.switched_on(state, [event])
            tail = self.store.read(self.conversation, after=state.head, limit=PAGE_EVENTS)
        return state

    def events(self, seqs: Sequence[int]) -> dict[int, Event] | None:
        """Events by seq, with one read per gapless run; None if one is missing."""
        events: dict[int, Event] = {}
        for span in runs(seqs):
            events.update((event.seq, event) for event in self.read(span.first - 1, span.last))
        return events if len(events) >= len(seqs) else None

    def _refolded(self) -> Fold:
        """The full fold. Both passes read up to the same head: events that another writer appends
        in between are folded afterwards, even if they reach back."""
        last = self.store.conversation(self.conversation).head
        return folded(self.read(last=last), switches(self.read(last=last)))

    def read(self, after: int = 0, last: int | None = None) -> Iterator[Event]:
        """The log, or a run of it, page by page. Raises Corrupt if an event does not continue the
        chain."""
        before = None if after else ZERO
        while last is None or after < last:
            limit = PAGE_EVENTS if last is None else min(PAGE_EVENTS, last - after)
            events = self.store.read(self.conversation, after=after, last=last, limit=limit)
            for event in events:
                self._check_chain(event, before)
                yield event
                before = event.chain
            if len(events) < limit:
                return
            after = events[-1].seq

    def _check_chain(self, event: Event, before: bytes | None) -> None:
        """Raises Corrupt if the event was not sealed to follow `before`, Denied if its body is
        encrypted: no plain text may follow it."""
        if event.by == ENCRYPTED:
            refuse_encrypted(self.store, self.conversation, event)
        if before is not None and not continues(event, before):
            what = f"{self.conversation}: the chain is broken at event {event.seq}"
            raise Corrupt(what, hint=REPAIR)

    def _check_next(self, event: Event, head: int, chain: bytes) -> None:
        """Raises Corrupt if the event is not the successor of the last one folded."""
        if event.seq != head + 1:
            what = f"{self.conversation}: event {event.seq} follows event {head}"
            raise Corrupt(what, hint=REPAIR)
        self._check_chain(event, chain)

    def catch_up(self) -> bool:
        """Folds events of other writers. Returns True if there were any, or if the log continues in
        another conversation: a sync may have replaced this log."""
        if self._synced is not None:
            fork = self._synced.goes_on(self.conversation, self.state.head, self.state.chain)
            if fork:
                self.open(fork)
                return True
        before = self.state.head
        if before == 0:
            self.state = self._opened()
            return self.state.head > 0
        while events := self.store.read(
            self.conversation, after=self.state.head, limit=PAGE_EVENTS
        ):
            self._fold(events)
        return self.state.head > before

    def _fold(self, events: Sequence[Event], bodies: Sequence[Body | None] = ()) -> None:
        """Folds events, each with its body if already decoded. A body is always decoded from the
        event's own bytes, so the page can never differ from the log."""
        for at, (event, body) in enumerate(zip_longest(events, bodies)):
            if body is None:
                self._check_next(event, self.state.head, self.state.chain)
            if not self.state.add(event, body):
                for before, later in pairwise(events[at:]):
                    self._check_next(later, before.seq, before.chain)
                self.restore_blocks()
                self.state = self.past.switched_on(self.state, events[at:])
                return

    def drop_blocks(self) -> None:
        """Frees the blocks of all messages on the page except the newest, and except calls without
        results. Roles, sizes and the rest stay; `fill` must be called before messages are read.
        For callers that append a lot and send nothing."""
        slots = self.state.slots
        first = bisect_left(slots, self.hollow + 1, key=lambda slot: slot.seq)
        end = len(slots) - KEPT_SLOTS
        if first >= end:
            return
        answered = {id for slot in slots[first:] for id in results_of(slot.message)}
        self.hollow = slots[end - 1].last
        for index in range(first, end):
            slot = slots[index]
            if not slot.edits and answered.issuperset(calls_of(slot.message)):
                message = _hollow(slot.message.role, slot.message.dialect)
                slots[index] = Slot(slot.seq, slot.last, message, slot.tokens)

    def restore_blocks(self) -> None:
        """Reads the blocks again that `drop_blocks` freed."""
        mark = bookmark.read(bookmark.kept(self.state)) if self.hollow else None
        if mark is not None:
            events = self.events(bookmark.needed(mark))
            self.state = self._refolded() if events is None else bookmark.resumed(mark, events)
        self.hollow = 0

    def originals(self, span: Span) -> list[Slot]:
        """The original messages of a span."""
        return self.originals_in(self.read(span.first - 1, span.last))

    def originals_in(self, events: Iterable[Event]) -> list[Slot]:
        """The original messages in events of this log."""
        state = Fold()
        for event in events:
            if event.kind == "message":
                state.erased = self.state.erased
                state.step(event)
        return state.slots

    def ages(self, seqs: Sequence[int]) -> dict[int, int]:
        """The ages of these events in milliseconds, by seq."""
        now = self.clock()
        return {seq: now - event.at_ms for seq, event in (self.events(seqs) or {}).items()}

    def call(self, id: str, ahead: Sequence[Message] = ()) -> ToolCall | None:
        """The newest tool call with that id, among messages about to be appended (`ahead`) and on
        the page."""
        for message in self._newest_first(ahead):
            for block in message.blocks:
                if isinstance(block, ToolCall) and block.id == id:
                    return block
        return None

    def calling(self, ahead: Sequence[Message] = ()) -> Message | None:
        """The newest message that calls tools, among messages about to be appended (`ahead`) and on
        the page."""
        return next(filter(calls_of, self._newest_first(ahead)), None)

    def _newest_first(self, ahead: Sequence[Message]) -> Iterator[Message]:
        yield from reversed(ahead)
        for slot in reversed(self.state.slots):
            yield slot.message

    # --- writing ---

    def append(
        self, drafts: Sequence[Draft], *, fresh: Fresh | None = None, at_ms: int | None = None
    ) -> list[Event]:
        """Appends the drafts, all or nothing, with their own time, else `at_ms` or now. After
        events of other writers, `fresh` decides whether the drafts still fit; if not, nothing is
        written, and Conflict is raised if they were meant for one head only. More events than a
        store takes at once are written in parts."""
        expect, self.expect = self.expect, None
        if self.redacts:
            from refold.log.notes import draft_redacted

            drafts = [draft_redacted(draft) for draft in drafts]
        events = self._sealed(drafts, self.clock() if at_ms is None else at_ms)
        done: list[Event] = []
        for _ in range(TRIES_MAX):
            if not CONTROLS.isdisjoint([event.kind for event in events]):
                self.past.keep_near(self.state)
            ahead, head, at = self._folded_ahead(events), self.state.head, 0
            try:
                for at in range(0, len(events), APPEND_EVENTS_MAX):
                    part = events[at : at + APPEND_EVENTS_MAX]
                    self.store.append(self.conversation, part, expect=head + at)
                break
            except Conflict:
                self.catch_up()
                check_expected(self.conversation, self.state.head, expect)
                if fresh is not None and not fresh(self.state):
                    return []
                done += events[:at]
                events = self._rebased(events[at:])
        else:
            message = f"{self.conversation}: other writers got in first {TRIES_MAX} times"
            raise Conflict(message, head=self.state.head, hint="try again")
        if ahead is not None:
            self.state = ahead
        else:
            self._fold(events, [draft.body for draft in drafts[len(done) :]])
        self.past.note(events, self.state)
        # A bookmark lists every slot, so a long page gets one less often.
        if self.state.head - self._tried >= max(BOOKMARK_EVENTS, len(self.state.slots) // 4):
            self.keep_bookmark()
        return done + events

    def _folded_ahead(self, events: Sequence[Event]) -> Fold | None:
        """The fold with events that reach back, before they are written: a log that cannot be
        folded is never written. None if no event reaches back."""
        if REACHING.isdisjoint([event.kind for event in events]):
            return None
        self.restore_blocks()
        return self.past.switched_on(self.state, events)

    def _sealed(self, drafts: Sequence[Draft], at_ms: int) -> list[Event]:
        before, seq = self.state.chain, self.state.head
        events = []
        random = os.urandom(len(drafts) * _RANDOM_BYTES)
        for at, draft in enumerate(drafts):
            seq += 1
            randomness = random[at * _RANDOM_BYTES : (at + 1) * _RANDOM_BYTES]
            happened_ms = at_ms if draft.at_ms is None else draft.at_ms
            if isinstance(draft.body, Erase) and seq > 1:
                # This is not work on the conversation, so it keeps its place among the others.
                happened_ms = self.state.updated_ms
            # A clock may be wrong: an id can only hold times in this range.
            happened_ms = min(max(0, happened_ms), HAPPENED_MS_MAX)
            event = seal(
                before,
                seq,
                id=uuid7(happened_ms, randomness),
                at_ms=happened_ms,
                by=draft.by,
                kind=kind_of(draft.body),
                body=draft.encoded,
                salt=randomness[10:],
                tokens=draft.tokens,
                counter=draft.counter,
            )
            before = event.chain
            events.append(event)
        return events

    def _rebased(self, events: Sequence[Event]) -> list[Event]:
        """The same events, ids and bodies, on top of the current head."""
        before, seq = self.state.chain, self.state.head
        moved = []
        for event in events:
            seq += 1
            moved.append(resealed(event, before, seq))
            before = moved[-1].chain
        return moved

    def keep_bookmark(self) -> None:
        """Stores the fold, so that the next open need not read the whole log. The log never depends
        on it: after a failure, the next open takes longer, and `bookmark_fault` has the reason."""
        if self.state.head <= self.marked:
            return
        self._tried, self.bookmark_fault = self.state.head, ""
        try:
            self.store.keep_bookmark(self.conversation, bookmark.kept(self.state))
            self.marked = self.state.head
        except (RefoldError, OverflowError, ValueError) as error:
            self.bookmark_fault = sentence(error)

    def keep_bookmark_of_fork(self, fork: str, at: int) -> None:
        """Stores the fold at a position as the bookmark of a fork that leaves there."""
        with suppress(RefoldError, OverflowError, ValueError):
            self.store.keep_bookmark(fork, bookmark.kept(self.past.at(at)))


def check_expected(id: str, head: int, expect: int | None) -> None:
    """Raises Conflict if the log has moved on from the head at which something was decided."""
    if expect is not None and head != expect:
        what = f"{id}: the log is at #{head}, and this was decided at #{expect}"
        hint = f"read the page again, then decide with expect={head}; nothing was changed"
        raise Conflict(what, head=head, hint=hint)


@cache
def _hollow(role: Role, dialect: str) -> Message:
    return Message(role=role, dialect=dialect)


def runs(seqs: Iterable[int]) -> list[Span]:
    """Sorted seqs as spans without gaps."""
    out: list[Span] = []
    for seq in sorted(seqs):
        if out and seq <= out[-1].last + 1:
            out[-1] = Span(out[-1].first, seq)
        else:
            out.append(Span(seq, seq))
    return out


def near_runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """Runs that cover these seqs, with small gaps included, so that each is one read."""
    out: list[tuple[int, int]] = []
    for seq in sorted(set(seqs)):
        if out and seq - out[-1][1] <= NEAR_EVENTS:
            out[-1] = out[-1][0], seq
        else:
            out.append((seq, seq))
    return out


def message_of(event: Event, state: Fold) -> Message | None:
    """The original message of an event."""
    twin = Fold()
    twin.erased = state.erased
    twin.step(event)
    return twin.slots[0].message if twin.slots else None
