"""What of a plan may be put in words by a writer, and what of its own words must not hold a secret.

A plan comes with drafts that stand by themselves. A writer is asked for prose beside them as far as
there is room; what it gives takes the draft's place. Neighbours: `compaction` draws plans up,
`asking` asks, `compactor` carries them out.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.compaction.planning import Job
from refold.config import Config
from refold.core.model import Quote, Replace, Summarize, View
from refold.core.plan import Ask, Plan, Proposal
from refold.core.shortened import summary_text
from refold.strategies.brief import PROSE_TOKENS_MIN, Count, text_tokens
from refold.strategies.summarize import FRAME_TOKENS
from refold.writer.accept import Redact, use_lines
from refold.writer.asker import Question, room_for

PROSE_WORTH_TOKENS = (
    400  # a span smaller than this may go without prose, and nobody needs to hear of it
)


# --- asking a writer ---


def asks_of(plan: Plan, config: Config) -> list[Ask]:
    """What a writer may put in words: what strategies asked for, and prose beside every gist."""
    wanted = str(config.strategy.get("gist", {}).get("instructions", ""))
    drafts = {id(ask.draft) for ask in plan.asks}
    edits = [proposal.edit for proposal in plan.proposals]
    gists = [
        edit
        for edit in edits
        if isinstance(edit, Summarize) and edit.gist is not None and id(edit) not in drafts
    ]
    asks = [*plan.asks, *(Ask(span=edit.span, draft=edit, instructions=wanted) for edit in gists)]
    return [ask for ask in asks if _survives(ask.draft, plan)]


def _survives(draft: Summarize, plan: Plan) -> bool:
    """Whether no later rung of the same plan takes the draft off the page again."""
    edits = [proposal.edit for proposal in plan.proposals]
    at = next((index for index, edit in enumerate(edits) if edit is draft), len(edits))
    later = [edit.span for edit in edits[at + 1 :] if not isinstance(edit, Replace)]
    return not any(
        span.first <= draft.span.first and draft.span.last <= span.last for span in later
    )


def questions_of(plan: Plan, before: View, job: Job) -> list[Question]:
    """What a writer is asked for this plan. All prose together leaves the page below the
    trigger: a page that just fits without a writer must fit with one."""
    left = round((job.budget.compact_at - plan.tokens_after) / job.budget.factor)
    found: list[Question] = []
    for ask in asks_of(plan, job.config):
        question = _question(ask, before, job, left)
        if question is not None:
            found.append(question)
            left -= question.tokens_max + FRAME_TOKENS
    return found


def _question(ask: Ask, before: View, job: Job, left: int) -> Question | None:
    """The ask with what it needs from the page. Without room for prose beside the draft it is
    None, or, where prose is missed, a question that nobody is asked. New prose takes the place
    of what the draft carries on."""
    inside = [
        slot for slot in before.slots if ask.span.first <= slot.seq and slot.last <= ask.span.last
    ]
    slots = tuple(slot for slot in inside if slot.seq not in before.pins)
    covered = sum(slot.tokens for slot in slots)
    made = text_tokens(job.count, summary_text(replace(ask.draft, prose=None)))
    left += text_tokens(job.count, summary_text(ask.draft)) - made
    room = room_for(made, covered, job.budget.window, beside_gist=ask.draft.gist is not None)
    room = min(room, left - FRAME_TOKENS)
    if room < PROSE_TOKENS_MIN:
        if covered < PROSE_WORTH_TOKENS:
            return None
        room = 0
    facts = {
        (fact.kind, fact.text): fact
        for fact in (*before.facts, *ask.draft.facts)
        if fact.seq in ask.span
    }
    return Question(
        ask=ask,
        slots=slots,
        facts=tuple(facts.values()),
        covered=covered,
        tokens_max=room,
        instructions=job.instructions,
        checks=job.config.writer_checks,
    )


def without_secrets(plan: Plan, redact: Redact, count: Count) -> Plan:
    """The plan with secrets taken out of its summaries: they stand in the log, go on to the next
    summary and to other agents, and to a writer."""
    drafts = [one.edit for one in plan.proposals if isinstance(one.edit, Summarize)] + [
        ask.draft for ask in plan.asks
    ]
    clean = {id(draft): new for draft in drafts if (new := _redacted(draft, redact)) is not draft}
    if not clean:
        return plan
    asks = tuple(replace(ask, draft=clean.get(id(ask.draft), ask.draft)) for ask in plan.asks)
    return replace(reworded(plan, clean, count), asks=asks)


def _redacted(draft: Summarize, redact: Redact) -> Summarize:
    """The summary itself where it has no secret. One look at all of it together tells, which is
    cheap. The uses of tools that it notes are cut to short lines here, because secrets must go
    first."""
    if draft.counted and draft.counted.uses:
        short = {tool: use_lines(some, redact) for tool, some in draft.counted.uses.items()}
        draft = replace(draft, counted=replace(draft.counted, uses=short))
    together = "\n".join([summary_text(draft), draft.line, *(fact.text for fact in draft.facts)])
    clean = redact(together)
    return draft if clean == together else _parts_redacted(draft, redact, clean)


def _parts_redacted(draft: Summarize, redact: Redact, clean: str) -> Summarize:
    """The summary with every part redacted; `clean` is all of it without secrets."""
    facts = tuple(
        fact if fact.text in clean else replace(fact, text=redact(fact.text))
        for fact in draft.facts
    )
    quotes = tuple(_quote_redacted(quote, redact) for quote in draft.quotes)
    prose = draft.prose and replace(draft.prose, words=redact(draft.prose.words))
    new = replace(draft, text=redact(draft.text), line=redact(draft.line), facts=facts)
    new = replace(new, quotes=quotes, prose=prose)
    if draft.gist is None:
        return new
    shown = summary_text(new)
    names = {name: row for name, row in draft.gist.names.items() if name in shown}
    return replace(new, gist=replace(draft.gist, names=names))


def _quote_redacted(quote: Quote, redact: Redact) -> Quote:
    whole = "\n".join(quote.lines)
    clean = redact(whole)
    lines = quote.lines if clean == whole else tuple(clean.split("\n"))
    return replace(quote, lines=lines, source=redact(quote.source))


def reworded(plan: Plan, edits: dict[int, Summarize], count: Count) -> Plan:
    """The plan with some of its summaries in other words; `edits` are by the identity of the
    draft."""
    proposals = tuple(
        Proposal(new, text_tokens(count, summary_text(new)))
        if (new := edits.get(id(old.edit))) is not None
        else old
        for old in plan.proposals
    )
    return replace(plan, proposals=proposals)
