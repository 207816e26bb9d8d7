"""Hiding what a person chose: the messages of a span leave the page, and can be unfolded.

Tool pairs go whole, and a summary goes whole, so more may leave than was named; the reason says
what. Pins and the latest request are refused, by name. It is not in the registry, because it is
meant for one span and not for a size. Neighbours: `hide_notice` writes the notice,
`compaction.planning` makes a plan of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.laws import calls_of, results_of, units
from refold.core.model import Edit, Hide, Slot, Span, View
from refold.core.plan import Ask
from refold.errors import Invalid, NotFound
from refold.strategies.brief import Brief, run_tokens
from refold.strategies.hide_notice import notice_of, reaches_over

REASON = "hidden by hand"
PINS_NAMED = 20


def hide_span(brief: Brief, span: Span) -> list[Edit | Ask]:
    """The edit that takes these messages off the page."""
    view = brief.view
    run = _run_of(view, span)
    _check_free(view, run)
    slots = view.slots[run.start : run.stop]
    whole = Span(slots[0].seq, slots[-1].last)
    notice = notice_of(view, _message_count(brief, slots), [whole])
    # A page must not grow because something was taken off it.
    fits = brief.text_tokens(notice) < run_tokens(view.slots, run)
    return [
        Hide(
            batch=brief.batch,
            span=whole,
            notice=notice if fits else "",
            reason=_reason(slots, span),
        )
    ]


def _run_of(view: View, span: Span) -> range:
    """The slots that go: those of the span, with the others of their tool pairs."""
    named = [index for index, slot in enumerate(view.slots) if _overlaps(slot, span)]
    if not named:
        hint = "refold show ID lists what is on the page"
        raise NotFound(f"nothing of {span} is on the page", hint=hint)
    going = [unit for unit in units(view.slots) if _touches(unit, named)]
    run = range(going[0].start, going[-1].stop)
    while reaches_over(view, run):
        run = range(run.start, run.stop + 1)
    return run


def _overlaps(slot: Slot, span: Span) -> bool:
    return slot.seq <= span.last and span.first <= slot.last


def _touches(unit: range, named: Sequence[int]) -> bool:
    return unit.start <= named[-1] and named[0] < unit.stop


def _check_free(view: View, run: range) -> None:
    """Refuses pins and the latest request."""
    slots = view.slots[run.start : run.stop]
    if pinned := [slot.seq for slot in slots if slot.seq in view.pins]:
        seqs = " ".join(map(str, pinned[:PINS_NAMED]))
        raise Invalid(f"#{pinned[0]} is pinned", hint=f"unpin first: refold unpin ID {seqs}")
    for slot in slots:
        if slot.seq == view.request:
            hint = "hide what comes before or after it"
            raise Invalid(f"#{slot.seq} is the latest request, which stays", hint=hint)
    if run.stop == len(view.slots) and _is_waiting(view.slots[run.start :]):
        raise Invalid("a tool call there waits for its result", hint="append the result first")


def _is_waiting(slots: Sequence[Slot]) -> bool:
    """Whether a call has no result yet: it would come without its call."""
    asked = {id for slot in slots for id in calls_of(slot.message)}
    return not asked.issubset(id for slot in slots for id in results_of(slot.message))


def _message_count(brief: Brief, slots: Sequence[Slot]) -> int:
    """How many messages these slots stand for."""
    return sum(len(brief.originals(slot.span)) or 1 if slot.standin else 1 for slot in slots)


def _reason(slots: Sequence[Slot], span: Span) -> str:
    """By whom, and what went beside what was named."""
    added = [slot for slot in slots if slot.seq < span.first or slot.last > span.last]
    if not added:
        return REASON
    names = ", ".join(str(slot.span) for slot in added)
    return f"{REASON}, with what belongs to it: {names}"
