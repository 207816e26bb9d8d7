"""The fold from the log to the page: `fold(events) -> View`, pure, total, replayable.

A first pass, newest to oldest, finds events that are switched off (`switches`): a live revert
switches off its target, a live restore switches off everything between its target and itself. A
second pass, oldest to newest, applies the rest. `Fold` does the second pass one event at a time;
for an event that reaches back (such as a revert) `add` returns False, and the caller folds the log
again. An impossible usage report is neither billed nor used as a size; one that is merely too low
is still billed. Neighbours: `model` has the values, `bookmark` stores a fold without bodies.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, assert_never

from msgspec.structs import replace

from refold.core.active_events import (
    CONTROLS,
    REACHING,
    ControlLog,
    Controls,
    Switches,
    is_in,
    switched,
    switches,
)
from refold.core.codec import decode
from refold.core.model import (
    ADOPTED,
    CLEARED,
    COMPACT_TOOL,
    NATIVE,
    ORIGIN,
    Anchor,
    Applied,
    Artifact,
    Body,
    Checkpoint,
    Edit,
    Era,
    Erase,
    Event,
    Fact,
    Hide,
    Lesson,
    Memory,
    Message,
    Meta,
    Note,
    Pin,
    Replace,
    Restore,
    Revert,
    Slot,
    Span,
    Summarize,
    ToolCall,
    ToolResult,
    Totals,
    Usage,
    View,
    is_shown,
)
from refold.core.shortened import ERASED_TOKENS, edited, skeleton, standin, summary_text
from refold.core.thinking_validity import Change, eras_after, eras_of, named_by, with_span

RESPONSES_KEPT, FACTS_KEPT = 32, 400
FactPlace = tuple[int, int]  # the seq of a summary, and the index in its facts
CONTENTS_KEPT = 16  # system prompts and tool lists that a later event may refer to
SHORT_LIVED = ("command", "error", "artifact")
CHANGING = CONTROLS | {"meta"}  # kinds of events that may change earlier parts of the page
CALIBRATION_STEP = 0.4
CALIBRATION_MIN, CALIBRATION_MAX = 0.5, 2.0
REPLY_RATIO_MAX, REPLY_SLACK_TOKENS = 4, 1_000
# Bounds of a plausible report: multiples of our own count, plus a fixed overhead per request.
USAGE_MIN, USAGE_MAX, USAGE_FRAME_TOKENS = 0.25, 4, 100
TOKENS_MAX = 1 << 24  # more than any model reads or writes in one call


def fold(events: Iterable[Event]) -> View:
    """The page of a whole log."""
    log = list(events)
    return folded(log, switches(log)).view()


def folded(events: Iterable[Event], found: Switches) -> Fold:
    """The state after the second pass over a log; further events can extend it."""
    state = Fold()
    state.begin_walk(found)
    for event in events:
        state.step(event, live=event.seq not in found.off, found=found)
    state.end_walk()
    state.forget_contents()
    return state


class Fold:
    """The state of a fold. `add` applies one more event; `view` is the current page."""

    def __init__(self) -> None:
        self.head, self.chain = 0, bytes(16)
        self.slots: list[Slot] = []
        # Messages with a block that is replaced more than once in the log.
        self.originals: dict[int, Message] = {}
        self.slot_tokens = 0
        self.said_tokens = 0  # of all messages, hidden ones included
        self.system_seq = self.tools_seq = 0
        # System prompts and tool lists by the seq of their event, least recently used first.
        self.systems: dict[int, Any] = {}
        self.toolsets: dict[int, list[Any]] = {}
        self.meta = Meta()
        self.system_tokens = self.tools_tokens = 0
        self.pins: set[int] = set()
        self.request = 0  # the seq of the latest user request
        # The model's request for a compaction: in this turn, and in the one before.
        self.wish = self.wish_before = 0
        self.erased: dict[int, Erase] = {}
        self.anchor: Anchor | None = None
        self.totals = Totals()
        # Ids of the newest recorded responses: a second report of one is not a new call.
        self.responses: list[str] = []
        self.calibration: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        # Packed, because there may be a million.
        self.artifacts = array("q")
        self.checkpoints: dict[str, int] = {}
        self.facts: dict[tuple[str, str], Fact] = {}
        self.fact_places: dict[tuple[str, str], FactPlace] = {}
        self.undoable: list[tuple[int, str]] = []
        self.purposes: dict[str, str] = {}  # by batch; ordinary compactions have none
        self.lessons: dict[str, Lesson] = {}  # limits learned from refusals, by model
        self.reached_at = 0  # the newest erase or pin that changed an earlier part of the page
        self.edited: list[Span] = []  # spans of live edits, in order, joined where they touch
        self.walked: set[int] | None = None  # the pins so far, during the second pass over a log
        self.controls = ControlLog()
        self.eras = [Era(since=0)]
        self.newest: Change | None = None
        self.first_at_ms = self.updated_ms = 0
        self.called_ms = 0  # time of the last model call
        self._view: View | None = None

    def add(self, event: Event, body: Body | None = None) -> bool:
        """Applies one more event. If the event reaches back, changes nothing and returns False: the
        caller must fold the log again."""
        if event.kind in REACHING:
            return False
        if event.kind in ("pin", "edit"):
            body = body or decode(event)
            if isinstance(body, Pin) and not self._pin_is_local(body):
                return False
            if isinstance(body, Replace) and self._needs_original(body):
                return False
        if event.kind == "meta":
            body = body or decode(event)
            if isinstance(body, Meta):
                # Contents that the event refers to, but does not carry, must be in memory.
                if body.system_seq is not None and body.system_seq not in self.systems:
                    return False
                if body.tools_seq is not None and body.tools_seq not in self.toolsets:
                    return False
        self.step(event, body=body)
        if event.kind == "meta":
            self.forget_contents()
        return True

    def forget_contents(self) -> None:
        """Drops the least recently used system prompts and tool lists. A later event that refers to
        a dropped one reaches back."""
        for contents, current in (
            (self.systems, self.meta.system),
            (self.toolsets, self.meta.tools),
        ):
            if len(contents) > CONTENTS_KEPT:
                idle = [seq for seq, content in contents.items() if content is not current]
                for seq in idle[:-CONTENTS_KEPT]:
                    del contents[seq]

    def step(
        self,
        event: Event,
        *,
        live: bool = True,
        found: Switches | None = None,
        body: Body | None = None,
    ) -> None:
        """Applies one event of the second pass."""
        self._view = None
        self.head, self.chain = event.seq, event.chain
        self.first_at_ms = min(self.first_at_ms or event.at_ms, event.at_ms)
        self.updated_ms = event.at_ms
        # An erase takes effect at once, even if the bytes are deleted later.
        is_erased = event.erased or event.seq in self.erased
        body = None if is_erased else body or decode(event)
        self._begin_era(event, body)
        match body:
            case None:
                if is_erased and event.kind == "message" and live:
                    shape = skeleton(self.erased.get(event.seq))
                    self._show(event, shape, min(event.tokens, ERASED_TOKENS * len(shape.blocks)))
            case Message():
                if body.role == "assistant":
                    self.called_ms = event.at_ms
                if ORIGIN in body.metadata:
                    self.artifacts.append(event.seq)
                if live:
                    self._show(event, body, event.tokens)
                    if found is not None and event.seq in found.again:
                        self.originals[event.seq] = body
            case Usage():
                self.called_ms = event.at_ms
                self._bill(body)
                if live and not body.estimated:
                    self._anchor(event, body)
            case Note() | Memory():
                pass
            case Artifact():
                self.artifacts.append(event.seq)
            case Checkpoint():
                self.checkpoints[body.name] = body.seq
            case Meta():
                self._apply_meta(event, body, live=live)
            case Pin():
                if live:
                    self._pin(event, body)
            case Replace() | Hide() | Summarize():
                if live:
                    self._edit(event, body)
            case Revert() | Restore():
                if live:
                    self.undoable.append((event.seq, ""))
            case Erase():
                self.erased[body.seq] = body
                self.reached_at = event.seq
            case _:
                assert_never(body)

    def _begin_era(self, event: Event, body: Body | None) -> None:
        """Begins an era if the event changes an earlier part of the page. In a pass over the log,
        events that are off count too: they were live when later messages were written."""
        if body is None or event.kind not in CHANGING:
            return
        if isinstance(body, Meta):
            body = self._named_contents(event.seq, body)
        self.controls.add(event.seq, body)
        if self.walked is not None:
            return
        # A pin that changes the page reaches back, so it never gets this far.
        if not isinstance(body, Pin):
            self.eras, self.newest = eras_after(self.eras, self.newest, event.seq, body)

    def _named_contents(self, seq: int, meta: Meta) -> Meta:
        """The seqs of the system prompt and tools that it holds or refers to; None if erased."""
        system, tools = meta.system_seq, meta.tools_seq
        if system not in self.systems:
            system = None if meta.system is None else seq
        if tools not in self.toolsets:
            tools = None if meta.tools is None else seq
        return Meta(system_seq=system, tools_seq=tools)

    def begin_walk(self, found: Switches) -> None:
        """Begins a second pass from this state, with the switches of the whole log."""
        self.walked, self.pins, self.erased = self.pins, set(found.pins), dict(found.erased)

    def end_walk(self, base: Fold | None = None) -> None:
        """Ends the second pass over a log, or over the part after `base`, an earlier fold that ends
        at a `ControlLog.cut` and whose eras are still valid."""
        if base is None:
            self.eras, self.newest = eras_of(self.controls.all())
        else:
            later = self.controls.after(base.head)
            self.eras, self.newest = eras_of(later, base.eras, base.newest, base.pins)
        self.walked = None

    def copy(self) -> Fold:
        """An independent copy of the state."""
        copied = Fold()
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, list | dict | set) else value)
        copied.artifacts, copied.controls = self.artifacts[:], self.controls.copy()
        return copied

    # --- messages, usage, meta ---

    def _show(self, event: Event, message: Message, tokens: int) -> None:
        self.slots.append(Slot(event.seq, event.seq, message, tokens))
        self.slot_tokens += tokens
        self.said_tokens += tokens
        self.counts[message.role] = self.counts.get(message.role, 0) + 1
        if (
            message.role == "user"
            and any(not isinstance(block, ToolResult) for block in message.blocks)
            and not is_shown(message)
        ):
            self.request = event.seq
            self.wish, self.wish_before = 0, self.wish
        if message.role == "assistant" and any(
            isinstance(block, ToolCall) and block.name == COMPACT_TOOL for block in message.blocks
        ):
            self.wish = event.seq

    def _bill(self, usage: Usage) -> None:
        """Adds a report to the totals even if it is switched off, so only the report's own numbers
        can rule it out. Another report of the same response adds to the cost, but not to the
        number of calls."""
        is_new = not usage.response or usage.response not in self.responses
        self.responses = [*self.responses[1 - RESPONSES_KEPT :], usage.response]
        if not is_possible(usage, usage.counted):
            return
        t = self.totals
        self.totals = Totals(
            t.calls + is_new,
            t.input + usage.input,
            t.output + usage.output,
            t.cache_read + usage.cache_read,
            t.cache_write + usage.cache_write,
            t.reasoning + usage.reasoning,
            t.cost + (usage.cost or 0.0),
            t.unpriced + (is_new and usage.cost is None),
            max(t.peak, usage.input),
        )

    def shown_tokens(self, upto: int) -> int:
        """Our own count of a request sent at this head."""
        later = 0
        for slot in reversed(self.slots):
            if slot.seq <= upto:
                break
            later += slot.tokens
        return self.tokens - later

    def _anchor(self, event: Event, usage: Usage) -> None:
        """Relates the provider's count of a request to our own, unless it is zero or implausible,
        or the page changed before the answer arrived. An out-of-bounds ratio has another cause,
        such as tools that the caller added, and is left out of the calibration."""
        if self.changed_at() > usage.upto:
            return
        if not usage.counted and any(seq <= usage.upto for seq in self.erased):
            return  # the request still contained the text erased since
        shown = usage.counted or self.shown_tokens(usage.upto)
        if usage.input <= 0 or shown <= 0 or not is_plausible(usage, shown):
            return
        answer = self.slot_at(event.seq - 1) if usage.replied else None
        reply = answer.tokens if answer is not None and answer.seq > usage.upto else 0
        reported = reported_reply(usage, reply) if reply else 0
        self.anchor = Anchor(usage.input + reported, shown + reply, usage.upto)
        ratio = usage.input / shown
        if CALIBRATION_MIN <= ratio <= CALIBRATION_MAX:
            mean = self.calibration.get(usage.model, ratio)
            self.calibration[usage.model] = mean + CALIBRATION_STEP * (ratio - mean)

    def _apply_meta(self, event: Event, meta: Meta, *, live: bool) -> None:
        """Stores the contents of the event for later references, and applies it if it is live."""
        if meta.system is not None:
            self.systems[event.seq] = meta.system
        if meta.tools is not None:
            self.toolsets[event.seq] = meta.tools
        if not live:
            return
        full = self.resolved(meta)
        self.meta = merged(self.meta, full)
        if full.system is not None:
            self.system_seq, self.system_tokens = event.seq, event.tokens
        if full.tools is not None:
            self.tools_seq, self.tools_tokens = event.seq, event.tokens

    def resolved(self, meta: Meta) -> Meta:
        """The metadata with its references resolved; erased contents stay None."""
        system, tools = meta.system, meta.tools
        if meta.system_seq is not None and meta.system_seq in self.systems:
            system = self.systems[meta.system_seq] = self.systems.pop(meta.system_seq)
        if meta.tools_seq is not None and meta.tools_seq in self.toolsets:
            tools = self.toolsets[meta.tools_seq] = self.toolsets.pop(meta.tools_seq)
        return replace(meta, system=system, tools=tools, system_seq=None, tools_seq=None)

    def _pin(self, event: Event, pin: Pin) -> None:
        """Pins or unpins a message; this changes the page if an edit names the message."""
        pins = self.pins if self.walked is None else self.walked
        if (pin.seq in pins) != pin.on and is_in(self.edited, pin.seq):
            self.reached_at = event.seq
        if pin.on:
            pins.add(pin.seq)
        else:
            pins.discard(pin.seq)

    # --- edits ---

    def _edit(self, event: Event, edit: Edit) -> None:
        if not self.undoable or self.undoable[-1][1] != edit.batch:
            self.undoable.append((event.seq, edit.batch))
        if edit.lesson is not None:
            self.lessons[edit.lesson.model] = edit.lesson
        if edit.purpose:
            self.purposes[edit.batch] = edit.purpose
        self.edited = with_span(self.edited, named_by(edit))
        match edit:
            case Replace():
                self._replace(event, edit)
            case Hide():
                self._cover(event, edit.span, edit.notice)
            case Summarize():
                self._cover(event, edit.span, summary_text(edit), edit)
                new = {(fact.kind, fact.text): fact for fact in edit.facts}
                places = {(f.kind, f.text): (event.seq, at) for at, f in enumerate(edit.facts)}
                self.facts, places = bounded({**self.facts, **new}), self.fact_places | places
                self.fact_places = {key: places[key] for key in self.facts}
            case _:
                assert_never(edit)
        if edit.purpose in (CLEARED, ADOPTED, NATIVE):
            request = self.slot_at(self.request)
            if request is None or request.standin:
                self.request = 0

    def _replace(self, event: Event, edit: Replace) -> None:
        index = self._index(edit.seq)
        if index is None:
            return
        slot = self.slots[index]
        if slot.standin or not 0 <= edit.block < len(slot.message.blocks):
            return
        if edit.seq in self.pins:
            return
        before = next((a.tokens for a in slot.edits if a.block == edit.block), 0)
        others = tuple(a for a in slot.edits if a.block != edit.block)
        self.slots[index] = replace(
            slot,
            message=edited(slot.message, edit, self.originals.get(edit.seq)),
            tokens=slot.tokens - before + event.tokens,
            edits=(*others, Applied(event.seq, edit.block, event.tokens)),
        )
        self.slot_tokens += event.tokens - before

    def _cover(self, event: Event, span: Span, text: str, summary: Summarize | None = None) -> None:
        """Replaces the slots inside the span, except pins, with the text."""
        start, stop = self._range(span)
        inside = self.slots[start:stop]
        covered = [slot for slot in inside if self._goes(slot, span)]
        if not covered:
            return
        stays = [slot for slot in inside if not self._goes(slot, span)]
        if text:
            stays.append(standin(covered[0].seq, covered[-1].last, text, event, summary))
            stays.sort(key=lambda slot: slot.seq)
        self.slots[start:stop] = stays
        self.slot_tokens += sum(s.tokens for s in stays) - sum(s.tokens for s in inside)

    def covered_tokens(self, span: Span) -> int:
        """Tokens that hiding the span would save."""
        return sum(slot.tokens for slot in self.covered(span))

    def covered(self, span: Span) -> list[Slot]:
        """The slots that hiding the span would remove."""
        start, stop = self._range(span)
        return [slot for slot in self.slots[start:stop] if self._goes(slot, span)]

    def _range(self, span: Span) -> tuple[int, int]:
        start = bisect_left(self.slots, span.first, key=lambda slot: slot.seq)
        return start, bisect_left(self.slots, span.last + 1, lo=start, key=lambda slot: slot.seq)

    def _goes(self, slot: Slot, span: Span) -> bool:
        return slot.last <= span.last and slot.seq not in self.pins

    # --- events that reach back ---

    def _pin_is_local(self, pin: Pin) -> bool:
        """Whether the pin can be applied without the log: it changes nothing, or no edit names its
        message."""
        if not pin.on and pin.seq not in self.pins:
            return True
        is_on_page = not pin.on or self.slot_at(pin.seq) is not None
        return is_on_page and not is_in(self.edited, pin.seq)

    def _needs_original(self, edit: Replace) -> bool:
        """Whether the edit keeps lines of a block that is already replaced."""
        slot = self.slot_at(edit.seq) if edit.keep is not None else None
        return slot is not None and any(a.block == edit.block for a in slot.edits)

    def slot_at(self, seq: int) -> Slot | None:
        """The slot of one message, if it is on the page."""
        index = self._index(seq)
        return self.slots[index] if index is not None else None

    def _index(self, seq: int) -> int | None:
        index = bisect_left(self.slots, seq, key=lambda slot: slot.seq)
        return index if index < len(self.slots) and self.slots[index].seq == seq else None

    # --- reading ---

    @property
    def tokens(self) -> int:
        """The estimated size of the page: system prompt, tools and all slots."""
        return self.system_tokens + self.tools_tokens + self.slot_tokens

    def changed_at(self) -> int:
        """The seq of the newest event that changed an earlier part of the page."""
        edited_at = self.undoable[-1][0] if self.undoable else 0
        return max(edited_at, self.system_seq, self.tools_seq, self.reached_at)

    def view(self) -> View:
        """The page as a value; computed once per state."""
        if self._view is None:
            self._view = View(
                head=self.head,
                chain=self.chain,
                slots=tuple(self.slots),
                system=self.meta.system,
                tools=self.meta.tools,
                system_tokens=self.system_tokens,
                tools_tokens=self.tools_tokens,
                slot_tokens=self.slot_tokens,
                title=self.meta.title or "",
                tags=self.meta.tags or (),
                metadata=self.meta.metadata or {},
                names=self.meta.names or (),
                model=self.meta.model or "",
                pins=frozenset(self.pins),
                request=self.request,
                anchor=self.anchor,
                totals=self.totals,
                calibration=dict(self.calibration),
                counts=dict(self.counts),
                checkpoints=dict(self.checkpoints),
                facts=tuple(self.facts.values()),
                undoable=tuple(self.undoable),
                lessons=dict(self.lessons),
                changed_at=self.changed_at(),
                eras=tuple(self.eras),
                first_at_ms=self.first_at_ms,
                updated_ms=self.updated_ms,
            )
        return self._view


def undoable_of(controls: Controls) -> list[tuple[int, str]]:
    """The `undoable` field of a fold with these control events."""
    found, undoable = switched(controls), list[tuple[int, str]]()
    for seq, body in controls:
        if seq in found.off or seq in found.erased:
            continue
        match body:
            case Revert() | Restore():
                undoable.append((seq, ""))
            case Replace() | Hide() | Summarize():
                if not undoable or undoable[-1][1] != body.batch:
                    undoable.append((seq, body.batch))
    return undoable


def merged(meta: Meta, change: Meta) -> Meta:
    """The metadata of the conversation after a change."""
    fields = {name: getattr(change, name) for name in change.__struct_fields__}
    if change.windows is not None:
        fields["windows"] = {**(meta.windows or {}), **change.windows}
    return replace(meta, **{name: value for name, value in fields.items() if value is not None})


def bounded(facts: dict[tuple[str, str], Fact]) -> dict[tuple[str, str], Fact]:
    """The facts. If there are too many, the oldest short-lived ones are dropped first: commands,
    errors, artifacts, files that were only read."""
    excess = len(facts) - FACTS_KEPT
    brief = [key for key, fact in facts.items() if fact.kind in SHORT_LIVED or fact.state == "read"]
    gone = set(brief[: max(0, excess)]) | set(list(facts)[: max(0, excess - FACTS_KEPT)])
    return {key: fact for key, fact in facts.items() if key not in gone} if gone else facts


def is_plausible(usage: Usage, shown: int) -> bool:
    """Whether a reported size is plausible for a request that we counted as `shown` (0: unknown).
    A report of zero tokens is plausible but says nothing about the size."""
    is_enough = usage.input == 0 or usage.input >= shown * USAGE_MIN
    return is_enough and is_possible(usage, shown)


def is_possible(usage: Usage, shown: int) -> bool:
    """Whether a request that we counted as `shown` (0: unknown) could have been billed so."""
    read = (usage.input, usage.cache_read, usage.cache_write, usage.cache_write_1h)
    written = (usage.output, usage.reasoning)
    most = shown * USAGE_MAX + USAGE_FRAME_TOKENS if shown else TOKENS_MAX
    return min(*read, *written) >= 0 and max(read) <= most and max(written) <= TOKENS_MAX


def reported_reply(usage: Usage, reply: int) -> int:
    """Tokens that the reply adds to the next request: the provider's count without the reasoning,
    which is not sent back, or our own count if the provider's is implausible."""
    reported = usage.output - usage.reasoning
    return reported if 0 < reported <= REPLY_RATIO_MAX * reply + REPLY_SLACK_TOKENS else reply
