"""What of a plan may be put in words by a writer, and what of its own words must not hold a secret.

A plan comes with drafts that stand by themselves. A writer is asked for prose beside them as far as
there is room; what it gives takes the draft's place. Neighbours: `compaction` draws plans up,
`asking` asks, `compactor` carries them out.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.compaction.planning import Job
from refold.config import Config
from refold.core.model import Replace, Summarize, View
from refold.core.plan import Ask, Plan, Proposal
from refold.ledger.notes import USES, is_gist, uses_of
from refold.strategies.brief import Count, text_tokens
from refold.strategies.prose import FRAME_TOKENS, PROSE_TOKENS_MIN, parted
from refold.strategies.tags import TAG_LINE
from refold.writer.asker import Question, room_for
from refold.writer.quote import Redact, use_lines

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
        if isinstance(edit, Summarize) and is_gist(edit.notes) and id(edit) not in drafts
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
    covered, made = (
        sum(slot.tokens for slot in slots),
        text_tokens(job.count, parted(ask.draft.text)[1]),
    )
    left += text_tokens(job.count, ask.draft.text) - made
    room = room_for(made, covered, job.budget.window, beside_gist=is_gist(ask.draft.notes))
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
    )


def without_secrets(plan: Plan, redact: Redact, count: Count) -> Plan:
    """The plan with secrets taken out of its summaries, as far as they are our own words: they
    stand in the log, go on to the next summary and to other agents, and to a writer. The lines
    of a gist are the page's own and stay."""
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
    if uses := uses_of(draft.notes):
        short = {tool: use_lines(some, redact) for tool, some in uses.items()}
        draft = replace(draft, notes={**draft.notes, USES: short})
    ours, lines = _own_words(draft)
    together = "\n".join([ours, draft.line, *(fact.text for fact in draft.facts)])
    clean = redact(together)
    if clean == together:
        return draft
    facts = tuple(
        fact if fact.text in clean else replace(fact, text=redact(fact.text))
        for fact in draft.facts
    )
    return replace(draft, text=redact(ours) + lines, line=redact(draft.line), facts=facts)


def _own_words(draft: Summarize) -> tuple[str, str]:
    """The text of a summary in two parts: heading, prose and ledger; and the lines of a gist,
    from the first tag on. The newest request stands in the ledger as it came, and may have a
    line that looks like a tag."""
    if not is_gist(draft.notes):
        return draft.text, ""
    requests = [fact for fact in draft.facts if fact.kind == "request"]
    newest = max(requests, key=lambda fact: fact.seq).text if requests else ""
    at = draft.text.find(newest)
    tag = TAG_LINE.search(draft.text, at + len(newest) if at > 0 else 0)
    return (draft.text[: tag.start()], draft.text[tag.start() :]) if tag else (draft.text, "")


def reworded(plan: Plan, edits: dict[int, Summarize], count: Count) -> Plan:
    """The plan with some of its summaries in other words; `edits` are by the identity of the
    draft."""
    proposals = tuple(
        Proposal(new, text_tokens(count, new.text))
        if (new := edits.get(id(old.edit))) is not None
        else old
        for old in plan.proposals
    )
    return replace(plan, proposals=proposals)
