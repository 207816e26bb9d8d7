"""Hiding with one notice: the sentence that stands for all that is hidden, and the edits that carry
it.

Slots go in runs, each by its span; one of the runs carries the notice, which takes in the notices
of earlier truncations, so that they do not pile up. Neighbours: `hide`, `window` and `importance`
choose what goes, `fit` asks what is a notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from refold.core.model import Edit, Hide, Slot, Span, View
from refold.core.plan import Ask
from refold.strategies.brief import Brief, first_text, reach, run_tokens, tokens_of

SPANS_NAMED = 4
_NOTICE = re.compile(r"\[(\d+) earlier messages? (?:is|are) hidden[;:] ")
_NOTICE_SPAN = re.compile(r"#(\d+)(?:-(\d+))?")


# --- the notice ---


def notice_of(view: View, count: int, spans: Sequence[Span]) -> str:
    """One sentence: how many messages are hidden, and the handles that give them back."""
    handles = _handles(spans)
    if count == 1:
        return f"[1 earlier message is hidden{reach(view, handles, 'to read it')}.]"
    return f"[{count} earlier messages are hidden{reach(view, handles, 'to read them')}.]"


def _handles(spans: Sequence[Span]) -> str:
    """The handles of these spans, or one that reaches over all of them."""
    if len(spans) > SPANS_NAMED:
        spans = [Span(spans[0].first, spans[-1].last)]
    return ", ".join(map(str, spans))


def notice_tokens(brief: Brief, handles: int) -> int:
    """The size of a notice with this many handles, estimated before it is known what goes."""
    head = brief.view.head
    notice = notice_of(brief.view, len(brief.slots), [Span(head, head)] * handles)
    return brief.text_tokens(notice)


def shown_notice_tokens(slots: Iterable[Slot]) -> int:
    """What the notices among these slots take: a new one replaces them."""
    return tokens_of([slot for slot in slots if is_notice(slot)])


def is_notice(slot: Slot) -> bool:
    """Whether the slot is the notice of an earlier truncation, not a summary and not something a
    user typed."""
    return slot.standin and _NOTICE.match(first_text(slot)) is not None


def _spans_named(notice: Slot) -> list[Span]:
    """The spans whose handles a notice names."""
    found = _NOTICE_SPAN.findall(first_text(notice))
    return [Span(int(first), int(last or first)) for first, last in found]


def _message_count(brief: Brief, slot: Slot) -> int:
    """How many messages a slot stands for. Only a summary needs the log to know."""
    if not slot.standin:
        return 1
    notice = _NOTICE.match(first_text(slot))
    if notice:
        return int(notice[1])
    return len(brief.originals(slot.span)) or 1


# --- the edits ---


def hide_edits(brief: Brief, going: set[int], reason: Callable[[range], str]) -> list[Edit | Ask]:
    """The edits that hide these slots: one per run, each with its reason, one notice for all,
    earlier notices taken in.

    Nothing at all if no run is large enough to carry the notice: hiding would then cost more than
    it frees.
    """
    slots = brief.slots
    notices = {index for index, slot in enumerate(slots) if is_notice(slot)}
    if not going - notices:
        return []
    runs = runs_of(brief.view, going | notices)
    named = [span for index in notices for span in _spans_named(slots[index])]
    notice = _notice_for(brief, runs, named)
    carrier = _carrier(brief, runs, notice)
    if carrier is None:
        return []
    return [
        Hide(
            batch=brief.batch,
            span=_run_span(brief.view, run),
            notice=notice if run is carrier else "",
            reason=reason(run),
        )
        for run in runs
    ]


def _notice_for(brief: Brief, runs: Sequence[range], named: Sequence[Span]) -> str:
    """The notice for what is hidden now, and for the spans that earlier notices named."""
    spans = [_run_span(brief.view, run) for run in runs]
    return notice_of(brief.view, _hidden_count(brief, runs), _united([*spans, *named]))


def _hidden_count(brief: Brief, runs: Sequence[range]) -> int:
    """How many messages these runs stand for."""
    count = 0
    for run in runs:
        for index in run:
            count += _message_count(brief, brief.slots[index])
    return count


def _carrier(brief: Brief, runs: Sequence[range], notice: str) -> range | None:
    """The first run that is larger than the notice."""
    size = brief.text_tokens(notice)
    for run in runs:
        if run_tokens(brief.slots, run) > size:
            return run
    return None


def _run_span(view: View, run: range) -> Span:
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
    runs = _neighbours(going)
    return [run for run in runs if not reaches_over(view, run)]


def _neighbours(going: set[int]) -> list[range]:
    """The indices as ranges of neighbours, in order."""
    out: list[range] = []
    for index in sorted(going):
        if out and out[-1].stop == index:
            out[-1] = range(out[-1].start, index + 1)
        else:
            out.append(range(index, index + 1))
    return out


def reaches_over(view: View, run: range) -> bool:
    """Whether hiding the run by its span would also take a slot after it."""
    last = view.slots[run.stop - 1].last
    for slot in view.slots[run.stop :]:
        if slot.seq > last:
            return False
        if slot.seq not in view.pins and slot.last <= last:
            return True
    return False
