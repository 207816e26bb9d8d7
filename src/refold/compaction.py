"""A page that is too full gets a plan: which edits, why, what they cost. The engine applies it.

The fixed part (system, tools, pins, the latest request) is what no compaction can touch. The ladder climbs towards the
target; if the page is still above the hard limit then, `fit` cuts the largest blocks, so that there is no dead end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
from refold.core.budget import Budget, current_tokens, page_tokens
from refold.core.fold import Fold
from refold.core.model import Hide, Replace, Span, View
from refold.core.plan import Item, Plan, Price, Proposal, Receipt, Step, price_of
from refold.strategies.brief import Brief, Count, Originals
from refold.strategies.ladder import Climb, climb
from refold.strategies.registry import rungs

LAST_RUNG = "fit"
GROWTH_RATIO = 0.05  # of the window: what must have come since the last batch before another is made by itself
SLEEP_RATIO = 0.10  # of the window: what must have come since an undo before anything is compacted by itself


class Job(Struct, frozen=True, kw_only=True):
    """Everything a plan is drawn up from, besides the fold."""

    budget: Budget
    config: Config
    count: Count
    originals: Originals
    batch: str
    ladder: Sequence[str]
    task: str = ""
    target: int | None = None
    settings: dict[str, Any] = {}
    per_token: float | None = None
    scratch: dict[str, Any] = {}


def drawn_up(state: Fold, job: Job) -> tuple[Plan, View]:
    """The plan, and the page that it would leave."""
    before = state.view()
    current = current_tokens(before, job.budget.factor)
    target = aim(before, current, job)
    full = min(current, job.budget.compact_at)
    sizes = (target, target + max(0, full - target) * 9 // 10, full)
    goal, enough, limit = (page_tokens(before, job.budget.factor, size) for size in sizes)
    brief = Brief(
        view=before, budget=job.budget, config=job.config, count=job.count, batch=job.batch, originals=job.originals,
        target=goal, enough=enough, full=limit, task=job.task, settings=job.settings,
        scratch=job.scratch,
    )  # fmt: skip
    done = climb(state, brief, rungs(job.ladder))
    hard = page_tokens(before, job.budget.factor, job.budget.input_max)
    if done.state.tokens > hard:
        done = _forced(done, replace(brief, target=hard, settings={}))
    return _plan(before, done, job, current, target), done.state.view()


def aim(view: View, current: int, job: Job) -> int:
    """The size to reach: well below the trigger, or below what there is if the page is smaller than that."""
    if job.target is not None:
        return job.target
    fixed = round(fixed_tokens(view) * job.budget.factor)
    full = min(current, job.budget.compact_at)
    return fixed + int(max(0, full - fixed) * job.budget.target_ratio)


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
        current=current,
        after=current_tokens(after, job.budget.factor),
        target=target,
        reason="" if done.proposals else why_nothing(done.steps),
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


def why_nothing(steps: Sequence[Step]) -> str:
    """Why a plan is empty, in words."""
    refused = [step.note for step in steps if step.note]
    if refused:
        return refused[0]
    return "nothing can be shortened" if steps else "the page is below its target already"


def receipt_of(plan: Plan, before: View, after: View, batch: str) -> Receipt:
    """What the applied plan did."""
    return Receipt(
        batch=batch,
        items=plan.items,
        steps=plan.steps,
        price=plan.price,
        tokens_before=plan.current,
        tokens_after=plan.after,
        messages_before=len(before.slots),
        messages_after=len(after.slots),
    )


# --- when ---------------------------------------------------------------------------------------------------------


def due(state: Fold, budget: Budget) -> str:
    """Whether the page should be compacted by itself now: 'yes', 'no', or why not although it is full."""
    current = current_tokens(state, budget.factor)
    if current < budget.compact_at:
        return "no"
    if current > budget.input_max or not state.undoable:
        return "yes"
    last, batch = state.undoable[-1]
    grown = sum(slot.tokens for slot in reversed(state.slots) if slot.seq > last)
    if not batch and grown < SLEEP_RATIO * budget.window:
        return "asleep after an undo"
    if batch and grown < GROWTH_RATIO * budget.window:
        return "compacted recently"
    return "yes"
