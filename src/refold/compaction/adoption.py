"""A compaction that was made elsewhere, as a plan of ours: a text that stands for a span.

Another agent's own summary, or a framework's, may cover the latest request, which no plan of
refold's may; nothing is asked then until somebody asks again. The ledger reads the span, so its
facts go on. Neighbours: the compactor applies the plan like any other, `core.fold` shows it.
"""

from __future__ import annotations

from refold.compaction.planning import Job
from refold.core.fold import Fold
from refold.core.laws import seams
from refold.core.model import Message, Slot, Span, Summarize, Text
from refold.core.plan import Plan, Proposal, Step
from refold.errors import Invalid
from refold.ledger.facts import Cutter
from refold.ledger.ledger import facts_of

LINE_CHARS_MAX = 160


def adopted(state: Fold, job: Job, span: Span, text: str, by: str) -> Plan:
    """The plan by which the text stands for the span. Invalid if it would part a call from its
    result, or there is nothing to stand for."""
    _check_words(text, by)
    covered = _covered(state, span)
    tokens = job.count(Message(role="user", blocks=(Text(text),)))
    edit = Summarize(
        batch=job.batch,
        span=Span(covered[0].seq, covered[-1].last),
        text=text,
        line=text.strip().splitlines()[0][:LINE_CHARS_MAX],
        facts=facts_of(covered, job.config, tuple(state.facts.values()), Cutter(job.redact)),
        reason=f"adopted from {by}",
    )
    size = sum(slot.tokens for slot in covered)
    step = Step(strategy=by, edits=1, tokens_before=size, tokens_after=tokens)
    return Plan(head=state.head, proposals=(Proposal(edit, tokens),), steps=(step,))


def _check_words(text: str, by: str) -> None:
    if not text.strip():
        raise Invalid("text is empty", hint="clear takes messages off the page without a text")
    if not by:
        raise Invalid("by is empty", hint="say who made the compaction: by='claude-code'")


def _covered(state: Fold, span: Span) -> list[Slot]:
    """The slots that the text is to stand for: whole pairs of calls and results."""
    slots = state.slots
    inside = [index for index, slot in enumerate(slots) if slot.seq in span]
    if not inside or slots[inside[-1]].last > span.last:
        shown = f"#{slots[0].seq} to #{slots[-1].last}" if slots else "nothing"
        hint = f"give the first and the last seq of whole messages; the page shows {shown}"
        raise Invalid(f"the page has no messages from #{span.first} to #{span.last}", hint=hint)
    legal = seams(slots)
    first = max(place for place in legal if place <= inside[0])
    last = min(place for place in legal if place > inside[-1])
    if (first, last) != (inside[0], inside[-1] + 1):
        whole = f"({slots[first].seq}, {slots[last - 1].last})"
        hint = f"a call and its result go together: give the span {whole}"
        raise Invalid(
            f"#{span.first} to #{span.last} separates a tool call from its result", hint=hint
        )
    return slots[first:last]
