"""Hiding with one notice: the sentence that stands for all that is hidden, and the edits that carry
it.

Slots go in runs, each by its span; one of the runs carries the notice, which takes in the notices
of earlier truncations, so that they do not pile up. Neighbours: `hide`, `window` and `importance`
choose what goes, `fit` asks what is a notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from refold.core.model import Edit, Hide, Slot, Span, Text, View
from refold.core.plan import Ask
from refold.strategies.brief import Brief, text_tokens, tokens_of

SPANS_NAMED = 4
_NOTICE = re.compile(r"\[(\d+) earlier messages? (?:is|are) hidden; ")
_NOTICE_SPAN = re.compile(r"#(\d+)(?:-(\d+))?")


# --- the notice ---


def notice_of(count: int, spans: Sequence[Span]) -> str:
    """One sentence: how many messages are hidden, and the handles that give them back."""
    if len(spans) > SPANS_NAMED:
        spans = [Span(spans[0].first, spans[-1].last)]
    handles = ", ".join(map(str, spans))
    if count == 1:
        return f"[1 earlier message is hidden; unfold {handles} to read it.]"
    return f"[{count} earlier messages are hidden; unfold {handles} to read them.]"


def notice_tokens(brief: Brief, handles: int) -> int:
    """The size of a notice with this many handles, estimated before it is known what goes."""
    head = brief.view.head
    notice = notice_of(len(brief.view.slots), [Span(head, head)] * handles)
    return text_tokens(brief.count, notice)


def is_notice(slot: Slot) -> bool:
    """Whether the slot is the notice of an earlier truncation, not a summary and not something a
    user typed."""
    return slot.standin and _NOTICE.match(_first_text(slot)) is not None


def _first_text(slot: Slot) -> str:
    first = slot.message.blocks[0] if slot.message.blocks else None
    return first.text if isinstance(first, Text) else ""


def _spans_named(notice: Slot) -> list[Span]:
    """The spans whose handles a notice names."""
    found = _NOTICE_SPAN.findall(_first_text(notice))
    return [Span(int(first), int(last or first)) for first, last in found]


def _message_count(brief: Brief, slot: Slot) -> int:
    """How many messages a slot stands for. Only a summary needs the log to know."""
    if not slot.standin:
        return 1
    counted = _NOTICE.match(_first_text(slot))
    if counted:
        return int(counted[1])
    return max(1, len(brief.originals(slot.span)))


# --- the edits ---


def hide_edits(brief: Brief, going: set[int], reason: Callable[[range], str]) -> list[Edit | Ask]:
    """The edits that hide these slots: one per run, each with its reason, one notice for all,
    earlier notices taken in.

    Nothing at all if no run is large enough to carry the notice: hiding would then cost more than
    it frees.
    """
    slots = brief.view.slots
    notices = {index for index, slot in enumerate(slots) if is_notice(slot)}
    if not going - notices:
        return []
    runs = runs_of(brief.view, going | notices)
    notice = _notice_for(brief, runs, [slots[index] for index in notices])
    carrier = _carrier(brief, runs, notice)
    if carrier is None:
        return []
    return [
        Hide(
            batch=brief.batch,
            span=_span_of(brief.view, run),
            notice=notice if run is carrier else "",
            reason=reason(run),
        )
        for run in runs
    ]


def _notice_for(brief: Brief, runs: Sequence[range], notices: Iterable[Slot]) -> str:
    """The notice for what is hidden now and by these earlier notices."""
    spans = [_span_of(brief.view, run) for run in runs]
    for notice in notices:
        spans += _spans_named(notice)
    count = 0
    for run in runs:
        for slot in brief.view.slots[run.start : run.stop]:
            count += _message_count(brief, slot)
    return notice_of(count, _united(spans))


def _carrier(brief: Brief, runs: Sequence[range], notice: str) -> range | None:
    """The first run that is larger than the notice."""
    size = text_tokens(brief.count, notice)
    for run in runs:
        if tokens_of(brief.view.slots[run.start : run.stop]) > size:
            return run
    return None


def _span_of(view: View, run: range) -> Span:
    return Span(view.slots[run.start].seq, view.slots[run.stop - 1].last)


def _united(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, those that touch or overlap as one."""
    out: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.first, span.last)):
        if out and span.first <= out[-1].last + 1:
            out[-1] = Span(out[-1].first, max(out[-1].last, span.last))
        else:
            out.append(span)
    return out


# --- runs ---


def runs_of(view: View, going: set[int]) -> list[range]:
    """The going slots as runs of neighbours. A run whose span would reach over a slot that stays
    is left out: a summary can stand for a span in which something was kept."""
    out: list[range] = []
    for index in sorted(going):
        if out and out[-1].stop == index:
            out[-1] = range(out[-1].start, index + 1)
        else:
            out.append(range(index, index + 1))
    return [run for run in out if not reaches_over(view, run)]


def reaches_over(view: View, run: range) -> bool:
    """Whether hiding the run by its span would also take a slot after it."""
    last = view.slots[run.stop - 1].last
    for slot in view.slots[run.stop :]:
        if slot.seq > last:
            return False
        if slot.seq not in view.pins and slot.last <= last:
            return True
    return False
