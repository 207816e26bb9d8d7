"""The text of a plan's summaries: questions to the writer, and redaction.

Every draft in a plan is complete without a writer. A writer is asked for prose to go with the
drafts where there is room, and an accepted answer replaces the draft. Neighbours: `planning`
draws up plans, `writer.asker` asks, `compactor` applies them.
"""

from __future__ import annotations

from collections import Counter as Tally

from msgspec.structs import replace

from refold.compaction.planning import Job
from refold.config import Config
from refold.core.model import Quote, Replace, Summarize, View
from refold.core.plan import Ask, Plan, Proposal
from refold.core.shortened import summary_text
from refold.strategies.brief import PROSE_TOKENS_MIN, Count, text_tokens
from refold.strategies.summarize import FRAME_TOKENS
from refold.writer.asker import Question, room_for
from refold.writer.quoted_history import Redact, use_lines

PROSE_WORTH_TOKENS = 400  # a smaller span needs neither prose nor a notice


def asks_of(plan: Plan, config: Config) -> list[Ask]:
    """The strategies' asks, plus one for prose with every gist, except asks whose draft a later
    rung of the same plan hides."""
    instructions = str(config.strategy.get("gist", {}).get("instructions", ""))
    drafts = {id(ask.draft) for ask in plan.asks}
    edits = [proposal.edit for proposal in plan.proposals]
    gists = [
        edit
        for edit in edits
        if isinstance(edit, Summarize) and edit.gist is not None and id(edit) not in drafts
    ]

    def survives(draft: Summarize) -> bool:
        at = next((index for index, edit in enumerate(edits) if edit is draft), len(edits))
        later = [edit.span for edit in edits[at + 1 :] if not isinstance(edit, Replace)]
        first, last = draft.span.first, draft.span.last
        return not any(span.first <= first and last <= span.last for span in later)

    asks = (Ask(span=edit.span, draft=edit, instructions=instructions) for edit in gists)
    return [ask for ask in (*plan.asks, *asks) if survives(ask.draft)]


def questions_of(plan: Plan, before: View, job: Job) -> list[Question]:
    """Questions to a writer for this plan. All prose combined keeps the page below the trigger:
    a page that just fits without a writer must fit with one."""
    left = round((job.budget.compact_at - plan.tokens_after) / job.budget.factor)
    questions: list[Question] = []
    for ask in asks_of(plan, job.config):
        question = _question(ask, before, job, left)
        if question is not None:
            questions.append(question)
            left -= question.tokens_max + FRAME_TOKENS
    return questions


def _question(ask: Ask, before: View, job: Job, left: int) -> Question | None:
    """The ask with its messages and facts. Without room for prose next to the draft, returns
    None, or, if the span is worth prose, a question that is never sent. New prose replaces what
    the draft carries over."""
    inside = [
        slot for slot in before.slots if ask.span.first <= slot.seq and slot.last <= ask.span.last
    ]
    slots = tuple(slot for slot in inside if slot.seq not in before.pins)
    covered = sum(slot.tokens for slot in slots)
    without_prose = text_tokens(job.count, summary_text(replace(ask.draft, prose=None)))
    left += text_tokens(job.count, summary_text(ask.draft)) - without_prose
    beside_gist = ask.draft.gist is not None
    room = room_for(without_prose, covered, job.budget.window, beside_gist=beside_gist)
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
    """The plan with redacted summaries: they go into the log, feed the next summary, and are read
    by other agents and the writer."""
    edits = (proposal.edit for proposal in plan.proposals)
    drafts = [edit for edit in edits if isinstance(edit, Summarize)]
    drafts += [ask.draft for ask in plan.asks]
    clean = {id(draft): new for draft in drafts if (new := _redacted(draft, redact)) is not draft}
    if not clean:
        return plan
    asks = tuple(replace(ask, draft=clean.get(id(ask.draft), ask.draft)) for ask in plan.asks)
    return replace(reworded(plan, clean, count), asks=asks)


def _redacted(draft: Summarize, redact: Redact) -> Summarize:
    """The redacted summary, or the draft itself if one cheap search of the joined text finds no
    secrets. Notes on tool uses are cut to short lines here, because secrets must be removed before
    the cut."""
    if draft.counted and draft.counted.tools:
        named = {tool: redact(tool) for tool in draft.counted.tools}
        tools = Tally[str]()
        for tool, times in draft.counted.tools.items():
            tools[named[tool]] += times
        short = {named[tool]: use_lines(uses, redact) for tool, uses in draft.counted.uses.items()}
        draft = replace(draft, counted=replace(draft.counted, tools=dict(tools), uses=short))
    joined = "\n".join([summary_text(draft), draft.line, *(fact.text for fact in draft.facts)])
    clean = redact(joined)
    if clean == joined:
        return draft
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
    quoted = {name: counts for name, counts in draft.gist.names.items() if name in shown}
    return replace(new, gist=replace(draft.gist, names=quoted))


def _quote_redacted(quote: Quote, redact: Redact) -> Quote:
    text = "\n".join(quote.lines)
    clean = redact(text)
    lines = quote.lines if clean == text else tuple(clean.split("\n"))
    return replace(quote, lines=lines, source=redact(quote.source))


def reworded(plan: Plan, edits: dict[int, Summarize], count: Count) -> Plan:
    """The plan with some summaries replaced; `edits` maps the identity of a draft to its new
    version."""
    proposals = tuple(
        Proposal(new, text_tokens(count, summary_text(new)))
        if (new := edits.get(id(old.edit))) is not None
        else old
        for old in plan.proposals
    )
    return replace(plan, proposals=proposals)
