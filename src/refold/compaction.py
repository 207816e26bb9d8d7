"""A page that is too full gets a plan: which edits, why, what they cost. The engine applies it.

The fixed part (system, tools, pins, the latest request) is what no compaction can touch. The ladder climbs towards the
target; if the page is still above the hard limit then, `fit` cuts the largest blocks, so that there is no dead end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.asking import Question, room_for
from refold.config import Config
from refold.core.budget import Budget, current_tokens, page_tokens
from refold.core.fold import Fold
from refold.core.laws import calls_of, results_of
from refold.core.model import Hide, Replace, Span, Summarize, View
from refold.core.plan import Ask, Item, Plan, Price, Proposal, Receipt, Step, price_of
from refold.quoting import Redact, use_lines
from refold.strategies.brief import Ages, Brief, Count, Originals, text_tokens
from refold.strategies.ladder import Climb, climb
from refold.strategies.prose import FRAME_TOKENS, PROSE_TOKENS_MIN, parted
from refold.strategies.registry import rungs

_TAG = re.compile(r"^#\d+ (?:user|agent|tool|system)$", re.MULTILINE)  # see `strategies.passages`
LAST_RUNG = "fit"
SUMMARIZE = "summarize"
GROWTH_RATIO = 0.05  # of the window: what must have come since the last batch before another is made by itself
CROWD_RATIO = 0.10  # of `messages_cap`: the same, counted in messages
PROSE_WORTH_TOKENS = 400  # a span smaller than this may go without prose, and nobody needs to hear of it
SLEEP_RATIO = 0.10  # of the window: what must have come since an undo before anything is compacted by itself


class Job(Struct, frozen=True, kw_only=True):
    """Everything a plan is drawn up from, besides the fold."""

    budget: Budget
    config: Config
    count: Count
    originals: Originals
    ages: Ages
    batch: str
    ladder: Sequence[str]
    task: str = ""
    target: int | None = None
    settings: dict[str, Any] = {}
    per_token: float | None = None
    scratch: dict[str, Any] = {}
    instructions: str = ""


def drawn_up(state: Fold, job: Job) -> tuple[Plan, View]:
    """The plan, and the page that it would leave."""
    before = state.view()
    current = current_tokens(before, job.budget.factor)
    target = aim(before, current, job)
    full = min(current, job.budget.compact_at)
    enough = target if _asked(job) else target + max(0, full - target) * 9 // 10
    sizes = (target, enough, full)
    goal, enough, limit = (page_tokens(before, job.budget.factor, size) for size in sizes)
    brief = Brief(
        view=before, budget=job.budget, config=job.config, count=job.count, batch=job.batch, originals=job.originals,
        ages=job.ages, target=goal, enough=enough, full=limit, task=job.task, settings=job.settings,
        scratch=job.scratch,
    )  # fmt: skip
    done = climb(state, brief, rungs(job.ladder))
    hard = page_tokens(before, job.budget.factor, job.budget.input_max)
    if done.state.tokens > hard:
        # Rungs that freed less than half of what was wanted would have to run again at the next turn.
        weak = 2 * (before.tokens - done.state.tokens) < before.tokens - goal
        done = _forced(done, replace(brief, target=min(goal, hard) if weak else hard, settings={}))
    return _plan(before, done, job, current, target), done.state.view()


def aim(view: View, current: int, job: Job) -> int:
    """The size to reach: well below the trigger, or below what there is if the page is smaller than that."""
    if job.target is not None:
        return job.target
    most: int | None = job.settings.get("max_tokens")  # of the messages, beside system and tools
    if most is not None:
        return round((most + view.system_tokens + view.tools_tokens) * job.budget.factor)
    fixed = round(fixed_tokens(view) * job.budget.factor)
    full = min(current, job.budget.compact_at)
    return fixed + int(max(0, full - fixed) * job.budget.target_ratio)


def _asked(job: Job) -> bool:
    """Whether the caller named a size: then it is meant as it is."""
    return job.target is not None or "max_tokens" in job.settings


def fixed_tokens(view: View) -> int:
    """System, tools, pins and the latest request: what no compaction can touch."""
    held = {*view.pins, view.request}
    slots = sum(slot.tokens for slot in view.slots if slot.seq in held and not slot.standin)
    return view.system_tokens + view.tools_tokens + slots


def _forced(done: Climb, brief: Brief) -> Climb:
    further = climb(done.state, brief, rungs([LAST_RUNG]))
    return Climb(
        state=further.state,
        proposals=(*done.proposals, *further.proposals),
        asks=done.asks,
        steps=(*done.steps, *further.steps),
    )


def _plan(before: View, done: Climb, job: Job, current: int, target: int) -> Plan:
    after = done.state.view()
    return Plan(
        head=before.head,
        proposals=done.proposals,
        asks=done.asks,
        items=items_of(done.proposals, before),
        steps=done.steps,
        price=price_of(before, after, per_token=job.per_token) if done.proposals else Price(),
        tokens_before=current,
        tokens_after=current_tokens(after, job.budget.factor),
        target=target,
        reason="" if done.proposals else why_nothing(done.steps, before),
    )


def items_of(proposals: Sequence[Proposal], before: View) -> tuple[Item, ...]:
    """What each edit does to the page, for people."""
    return tuple(_item(proposal, before) for proposal in proposals)


def _item(proposal: Proposal, before: View) -> Item:
    edit = proposal.edit
    if isinstance(edit, Replace):
        size = next((slot.tokens for slot in before.slots if slot.seq == edit.seq), 0)
        after, handle, action = size + proposal.tokens, str(Span(edit.seq, edit.seq)), "shortened"
    else:
        covered = [slot for slot in before.slots if edit.span.first <= slot.seq and slot.last <= edit.span.last]
        size = sum(slot.tokens for slot in covered if slot.seq not in before.pins)
        after, handle = proposal.tokens, str(edit.span)
        action = "hidden" if isinstance(edit, Hide) else "summarized"
    return Item(handle=handle, action=action, tokens_before=size, tokens_after=after, reason=edit.reason)


def why_nothing(steps: Sequence[Step], before: View) -> str:
    """Why a plan is empty, in words."""
    refused = [step.note for step in steps if step.note]
    if refused:
        return refused[0]
    if steps and all(step.strategy == SUMMARIZE for step in steps):
        summarized = any("summary" in (slot.notes or {}) for slot in before.slots)
        return "compacted-recently" if summarized else "not-enough-messages"
    return "nothing can be shortened" if steps else "the page is below its target already"


def receipt_of(plan: Plan, before: View, after: View, batch: str) -> Receipt:
    """What the applied plan did."""
    return Receipt(
        batch=batch,
        target=plan.target,
        items=plan.items,
        steps=plan.steps,
        price=plan.price,
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        messages_before=len(before.slots),
        messages_after=len(after.slots),
        messages_hidden=_messages(before) - _messages(after),
    )


def _messages(view: View) -> int:
    """How many messages the page shows as themselves, whole or cut."""
    return sum(not slot.standin for slot in view.slots)


# --- asking a writer ----------------------------------------------------------------------------------------------


def asks_of(plan: Plan, config: Config) -> list[Ask]:
    """What a writer may put in words: what strategies asked for, and prose beside every gist."""
    wanted = str(config.strategy.get("gist", {}).get("instructions", ""))
    drafts = {id(ask.draft) for ask in plan.asks}
    edits = [proposal.edit for proposal in plan.proposals]
    gists = [edit for edit in edits if isinstance(edit, Summarize) and "gist" in edit.notes and id(edit) not in drafts]
    asks = [*plan.asks, *(Ask(span=edit.span, draft=edit, instructions=wanted) for edit in gists)]
    return [ask for ask in asks if _survives(ask.draft, plan)]


def _survives(draft: Summarize, plan: Plan) -> bool:
    """Whether no later rung of the same plan takes the draft off the page again."""
    edits = [proposal.edit for proposal in plan.proposals]
    at = next((index for index, edit in enumerate(edits) if edit is draft), len(edits))
    later = [edit.span for edit in edits[at + 1 :] if not isinstance(edit, Replace)]
    return not any(span.first <= draft.span.first and draft.span.last <= span.last for span in later)


def questions_of(plan: Plan, before: View, job: Job) -> list[Question]:
    """What a writer is asked for this plan. All prose together leaves the page below the trigger: a page that just
    fits without a writer must fit with one."""
    left = round((job.budget.compact_at - plan.tokens_after) / job.budget.factor)
    found: list[Question] = []
    for ask in asks_of(plan, job.config):
        question = _question(ask, before, job, left)
        if question is not None:
            found.append(question)
            left -= question.tokens_max + FRAME_TOKENS
    return found


def _question(ask: Ask, before: View, job: Job, left: int) -> Question | None:
    """The ask with what it needs from the page. Without room for prose beside the draft it is None, or, where prose is
    missed, a question that nobody is asked. New prose takes the place of what the draft carries on."""
    inside = [slot for slot in before.slots if ask.span.first <= slot.seq and slot.last <= ask.span.last]
    slots = tuple(slot for slot in inside if slot.seq not in before.pins)
    covered, made = sum(slot.tokens for slot in slots), text_tokens(job.count, parted(ask.draft.text)[1])
    left += text_tokens(job.count, ask.draft.text) - made
    room = room_for(made, covered, job.budget.window, beside_gist="gist" in ask.draft.notes)
    room = min(room, left - FRAME_TOKENS)
    if room < PROSE_TOKENS_MIN:
        if covered < PROSE_WORTH_TOKENS:
            return None
        room = 0
    facts = {(fact.kind, fact.text): fact for fact in (*before.facts, *ask.draft.facts) if fact.seq in ask.span}
    return Question(
        ask=ask, slots=slots, facts=tuple(facts.values()), covered=covered, tokens_max=room,
        instructions=job.instructions,
    )  # fmt: skip


def without_secrets(plan: Plan, redact: Redact, count: Count) -> Plan:
    """The plan with secrets taken out of its summaries, as far as they are our own words: they stand in the log, go on
    to the next summary and to other agents, and to a writer. The lines of a gist are the page's own and stay."""
    drafts = [one.edit for one in plan.proposals if isinstance(one.edit, Summarize)] + [ask.draft for ask in plan.asks]
    clean = {id(draft): new for draft in drafts if (new := _redacted(draft, redact)) is not draft}
    if not clean:
        return plan
    asks = tuple(replace(ask, draft=clean.get(id(ask.draft), ask.draft)) for ask in plan.asks)
    return replace(reworded(plan, clean, count), asks=asks)


def _redacted(draft: Summarize, redact: Redact) -> Summarize:
    """The summary itself where it has no secret. One look at all of it together tells, which is cheap. The uses of
    tools that it notes are cut to short lines here, because secrets must go first."""
    if uses := draft.notes.get("uses"):
        short = {tool: use_lines(some, redact) for tool, some in uses.items()}
        draft = replace(draft, notes={**draft.notes, "uses": short})
    ours, lines = _own_words(draft)
    together = "\n".join([ours, draft.line, *(fact.text for fact in draft.facts)])
    clean = redact(together)
    if clean == together:
        return draft
    facts = tuple(fact if fact.text in clean else replace(fact, text=redact(fact.text)) for fact in draft.facts)
    return replace(draft, text=redact(ours) + lines, line=redact(draft.line), facts=facts)


def _own_words(draft: Summarize) -> tuple[str, str]:
    """The text of a summary in two parts: heading, prose and ledger; and the lines of a gist, from the first tag on.
    The newest request stands in the ledger as it came, and may have a line that looks like a tag."""
    if "gist" not in draft.notes:
        return draft.text, ""
    requests = [fact for fact in draft.facts if fact.kind == "request"]
    newest = max(requests, key=lambda fact: fact.seq).text if requests else ""
    at = draft.text.find(newest)
    tag = _TAG.search(draft.text, at + len(newest) if at > 0 else 0)
    return (draft.text[: tag.start()], draft.text[tag.start() :]) if tag else (draft.text, "")


def reworded(plan: Plan, edits: dict[int, Summarize], count: Count) -> Plan:
    """The plan with some of its summaries in other words; `edits` are by the identity of the draft."""
    proposals = tuple(
        Proposal(new, text_tokens(count, new.text)) if (new := edits.get(id(old.edit))) is not None else old
        for old in plan.proposals
    )
    return replace(plan, proposals=proposals)


def measured(plan: Plan, before: View, after: View, job: Job) -> Plan:
    """The plan with its numbers taken from the pages before and after it was carried out."""
    return replace(
        plan,
        items=items_of(plan.proposals, before),
        price=price_of(before, after, per_token=job.per_token),
        tokens_before=current_tokens(before, job.budget.factor),
        tokens_after=current_tokens(after, job.budget.factor),
    )


def still_fits(plan: Plan, state: Fold) -> bool:
    """Whether messages that came since leave the plan lawful: no result came whose call it would take away."""
    came = {id for slot in reversed(state.slots) if slot.seq > plan.head for id in results_of(slot.message)}
    spans = [proposal.edit.span for proposal in plan.proposals if not isinstance(proposal.edit, Replace)]
    if not came or not spans:
        return True
    taken = [slot for slot in state.slots if any(slot.seq in span for span in spans)]
    return not any(came.intersection(calls_of(slot.message)) for slot in taken)


# --- when ---------------------------------------------------------------------------------------------------------


class Decision(Struct, frozen=True, kw_only=True):
    """What the next `request` would do about the size of the page. `strategy`: none, prune (below the trigger) or
    compact; `reason` says why nothing is done although the page is full."""

    needed: bool
    strategy: str
    percent: float
    should_warn: bool
    reason: str = ""


def decided(state: Fold, budget: Budget, config: Config) -> Decision:
    current = current_tokens(state, budget.factor)
    said = due(state, budget, config) if config.auto else "automatic compaction is off"
    strategy = "none" if said != "yes" else "compact" if current >= budget.compact_at else "prune"
    return Decision(
        needed=said == "yes", strategy=strategy, percent=budget.percent(current),
        should_warn=current >= budget.warn_at, reason="" if said in ("yes", "no") else said,
    )  # fmt: skip


def due(state: Fold, budget: Budget, config: Config) -> str:
    """Whether the page should be compacted by itself now: 'yes', 'no', or why not although it is full."""
    current = current_tokens(state, budget.factor)
    if current < budget.compact_at and not early(state, budget, config):
        return "yes" if _many(state, config) else "no"
    if current > budget.input_max or not state.undoable:
        return "yes"
    last, batch = state.undoable[-1]
    grown = sum(slot.tokens for slot in reversed(state.slots) if slot.seq > last)
    if not batch and grown < SLEEP_RATIO * budget.window:
        return "asleep after an undo"
    if batch and grown < GROWTH_RATIO * budget.window:
        return "compacted recently"
    return "yes"


def early(state: Fold, budget: Budget, config: Config) -> list[str]:
    """The strategies of the ladder that are configured to act by themselves below the trigger, at a size or a number
    of tool uses of their own, and are past it."""
    current = current_tokens(state, budget.factor)
    return [name for name in config.ladder if _triggered(config.strategy.get(name, {}), current, state)]


def _triggered(settings: dict[str, Any], current: int, state: Fold) -> bool:
    if tokens := settings.get("trigger_tokens"):
        return bool(current > tokens)
    uses: int = settings.get("trigger_uses") or 0
    return 0 < uses < sum(len(results_of(slot.message)) for slot in state.slots)


def nothing_new(state: Fold) -> bool:
    """Whether the page is as the last compaction left it."""
    last, batch = state.undoable[-1] if state.undoable else (0, "")
    return bool(batch) and not any(slot.seq > last for slot in state.slots if not slot.standin)


def _many(state: Fold, config: Config) -> bool:
    """Whether the page has more messages than it may, and enough of them came since the last batch. What stays whole
    and the summary are on the page anyway: a cap below that would never be met."""
    cap = max(config.messages_cap, config.keep_recent + 2)
    if config.messages_cap <= 0 or len(state.slots) <= cap:
        return False
    last, batch = state.undoable[-1] if state.undoable else (0, "")
    fresh = sum(slot.seq > last for slot in state.slots)
    return not last or (bool(batch) and fresh >= cap * CROWD_RATIO)
