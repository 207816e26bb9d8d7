"""The log in its order, beside what the page does with it: every message as it came, and where the
page has something else, that too.

A message is on the page whole or shortened; or it is inside a fold, which stands for a run of
messages and may have a text of its own there. Pure: given events, the view and its history, the
items follow. Neighbours: `browser` draws them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Event, Message, Slot, View
from refold.core.shortened import ERASED
from refold.log.trace import Trace
from refold.log.unfold import body_text, span_of

OFF = "not on the page"
_RESTORED = re.compile(r"restored to #(\d+)")


class Entry(Struct, frozen=True, kw_only=True):
    """One message. `shown` is what the page has of it, if that is not what came."""

    seq: int
    at_ms: int
    role: str
    tokens: int
    text: str
    shown: str | None = None
    is_pinned: bool = False


class Written(Struct, frozen=True, kw_only=True):
    """What a provider wrote in the place of messages: `heading` says who and how much, `text` is
    what can be read of it, and `rest` says for whom the text is that comes next."""

    heading: str
    text: str
    rest: str


class Folded(Struct, frozen=True, kw_only=True):
    """A run of messages that are not on the page. `text` is what stands there instead, if
    anything does, `tokens` its size, `why` what took them off. `written` is what their provider
    wrote for models of its own."""

    handle: str
    text: str
    tokens: int
    why: str
    entries: list[Entry]
    written: Written | None = None


Item = Entry | Folded


def timeline(
    events: Iterable[Event],
    view: View,
    history: Sequence[Trace],
    written: Mapping[int, Written] | None = None,
) -> list[Item]:
    """The messages among the events, those off the page gathered in folds. `written` is what
    providers wrote, by the seq of its slot."""
    whole = {slot.seq: slot for slot in view.slots if not slot.standin}
    folds = _Folds(view, history, written or {})
    items: list[Item] = []
    for event in events:
        if event.kind != "message":
            continue
        entry = _entry(event, whole.get(event.seq), view)
        if event.seq in whole:
            items.append(entry)
            continue
        slot, why = folds.covering(event.seq)
        last = items[-1] if items else None
        if isinstance(last, Folded) and folds.goes_on(slot, why):
            last.entries.append(entry)
        else:
            items.append(folds.begun(slot, why, entry))
    return items


def _entry(event: Event, slot: Slot | None, view: View) -> Entry:
    body = decode(event)
    is_message = isinstance(body, Message)
    return Entry(
        seq=event.seq,
        at_ms=event.at_ms,
        role=body.role if isinstance(body, Message) else "erased",
        tokens=slot.tokens if slot else event.tokens,
        text=body_text(body) if isinstance(body, Message) else ERASED,
        shown=body_text(slot.message) if slot and slot.edits and is_message else None,
        is_pinned=event.seq in view.pins,
    )


class _Taking(NamedTuple):
    """What took the messages from `first` to `last` off the page."""

    first: int
    last: int
    told: str


def _takings(trace: Trace) -> Iterator[_Taking]:
    target = _RESTORED.fullmatch(trace.action)
    if target is not None:
        yield _Taking(int(target[1]) + 1, trace.seq, f"taken back: {trace.action}")
    elif trace.handle and trace.block < 0:
        span = span_of(trace.handle)
        yield _Taking(span.first, span.last, _told(trace))


def _told(trace: Trace) -> str:
    reason = f": {trace.reason}" if trace.reason else ""
    return f"{trace.action} by {trace.by}{reason}"


class _Folds:
    """The folds of a page: which one a message is in, and why."""

    def __init__(
        self, view: View, history: Sequence[Trace], written: Mapping[int, Written]
    ) -> None:
        self._written = written
        self._slots = sorted((one for one in view.slots if one.standin), key=lambda one: one.seq)
        self._firsts = [slot.seq for slot in self._slots]
        live = [trace for trace in history if trace.live]
        self._edits = {trace.seq: _told(trace) for trace in live}
        self._takings = [one for trace in reversed(live) for one in _takings(trace)]
        self._told: set[int] = set()
        self._newest: tuple[Slot | None, str] = (None, "")

    def covering(self, seq: int) -> tuple[Slot | None, str]:
        """What stands for a message, if anything does, and what took it off the page."""
        at = bisect_right(self._firsts, seq) - 1
        slot = self._slots[at] if at >= 0 and seq <= self._slots[at].last else None
        if slot is not None:
            return slot, self._edits.get(slot.edits[0].seq, OFF)
        told = (one.told for one in self._takings if one.first <= seq <= one.last)
        return None, next(told, OFF)

    def goes_on(self, slot: Slot | None, why: str) -> bool:
        """Whether a message belongs to the same fold as the one before it."""
        return self._newest == (slot, why)

    def begun(self, slot: Slot | None, why: str, entry: Entry) -> Folded:
        """A fold with its first message; what stands there is shown once, however many pins
        divide it."""
        self._newest = (slot, why)
        is_new = slot is not None and slot.seq not in self._told
        if slot is not None:
            self._told.add(slot.seq)
        return Folded(
            handle=str(slot.span) if slot else "",
            text=body_text(slot.message) if slot and is_new else "",
            tokens=slot.tokens if slot and is_new else 0,
            why=why,
            entries=[entry],
            written=self._written.get(slot.seq) if slot and is_new else None,
        )
