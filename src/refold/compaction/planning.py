"""The plan for a page that is too full: which edits, why, and at what price.

A `Job` holds the budget, settings and prices that a plan depends on; `Jobs` makes one by hand, from
the cause that is due, or to make room. The fixed part (system, tools, pins, the latest request) is
beyond any compaction. The ladder climbs towards the target; if the page is still above the hard
limit then, `fit` cuts the largest blocks, so that there is no dead end. An external summary
(`adopted`) becomes a plan too. Neighbours: `compactor` applies plans, `trigger` knows why one is
due.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from refold.compaction import trigger
from refold.compaction.active_model import ActiveModel
from refold.compaction.trigger import instructions_of
from refold.config import Config, recent_messages
from refold.core.budget import Budget, Load, current_tokens, page_tokens
from refold.core.fold import Fold
from refold.core.laws import calls_of, results_of, seams
from refold.core.model import (
    MADE_ROOM,
    NATIVE,
    Hide,
    Lesson,
    Message,
    Replace,
    Slot,
    Span,
    Summarize,
    Text,
    View,
)
from refold.core.plan import Item, Plan, Price, Proposal, Receipt, Step, price_of
from refold.core.shortened import text_of
from refold.display import number
from refold.errors import Invalid
from refold.ledger.facts import Cutter
from refold.ledger.ledger import facts_of
from refold.log.open_log import OpenLog
from refold.redaction import Redact
from refold.strategies.brief import (
    KEEP_RECENT,
    Ages,
    Brief,
    Count,
    Originals,
    Strategy,
    check_needed,
)
from refold.strategies.gist.layout import newest_unit, task_of
from refold.strategies.hide import hide, hide_span
from refold.strategies.ladder import LAST_RUNG, Climb, brief_for, climb, is_lossless_enough
from refold.strategies.protected_messages import (
    STANDIN_SHARE,
    protected,
    request_excess,
    untouched_tokens,
    with_kept,
    with_tail,
)
from refold.strategies.registry import check_ladder, check_settings, rungs
from refold.tokens.counter import count_message

if TYPE_CHECKING:
    from refold.strategies.importance import Score

SUMMARIZE, GIST = "summarize", "gist"
UNUSED_SHARE = 0.1  # of a gist's room: what it leaves unused without a reason in the receipt
# Minimum to summarize on a page far from full, in tokens and as a share of the window; the smaller
# of the two counts.
LITTLE_TOKENS, LITTLE_RATIO = 1_000, 0.01
MAKE_ROOM = "make-room"  # hides as few of the oldest messages as possible, with no other strategy
LOSSLESS_RATIO = 0.75  # of the trigger: a page reduced to this without a loss needs nothing more
ROOM_RATIO = 0.10  # distance from the limit after making room, as a share of the window
TASK_CHARS_MAX = 4_000
LINE_CHARS_MAX = 160


class Job(Struct, frozen=True, kw_only=True):
    """Everything a plan depends on, besides the fold."""

    budget: Budget
    config: Config
    count: Count
    originals: Originals
    ages: Ages
    batch: str
    ladder: Sequence[str]
    task: str = ""
    target: int | None = None
    messages_max: int = 0
    has_writer: bool = False
    settings: dict[str, Any] = {}
    per_token: float | None = None
    expired: bool = False  # whether the provider's cache of the page is gone
    scratch: dict[str, Any] = {}
    instructions: str = ""
    redact: Callable[[str], str] = str
    purpose: str = ""  # empty for an ordinary compaction
    lesson: Lesson | None = None  # from the refusal that made this necessary, if any
    span: Span | None = None  # chosen by a person to be hidden; then there is no target size
    expect: int | None = None  # the head at which a person decided on it
    tail: int = 0  # messages at the end that a call or the configuration keeps whole


def drawn_up(state: Fold, job: Job) -> tuple[Plan, View]:
    """The plan, and the page it would leave."""
    before = state.view()
    current = current_tokens(before, job.budget.factor)
    target = aim(before, current, job)
    brief = _brief_of(before, current, target, job)
    reason = _too_little(before, current, job)
    done = climb(state, brief, [] if reason else _rungs_of(job))
    if job.span is None and job.purpose != NATIVE:
        done = _within_limit(done, brief)
    after = done.state.view()
    if job.span is not None or is_lossless_enough(brief, done, after):
        target = max(target, current_tokens(after, job.budget.factor))
    items = items_of(done.proposals, before)
    if done.proposals and not reason:
        reason = why_not_exact(before, after, target, job, items)
    plan = Plan(
        head=before.head,
        proposals=done.proposals,
        asks=done.asks,
        items=items,
        steps=done.steps,
        price=_price(before, after, job) if done.proposals else Price(),
        tokens_before=current,
        tokens_after=current_tokens(after, job.budget.factor),
        target=target,
        reason=reason if reason or done.proposals else why_nothing(done.steps, before, job),
    )
    return plan, after


def scored(state: Fold, job: Job) -> list[Score]:
    """The score of every message on the page, under the job's settings of `importance`."""
    # A strategy is loaded when it is first used.
    from refold.strategies.importance import explain

    before = state.view()
    current = current_tokens(before, job.budget.factor)
    brief = _brief_of(before, current, aim(before, current, job), job)
    return explain(brief_for(brief, "importance", before))


def _too_little(view: View, current: int, job: Job) -> str:
    """Why a page is left alone although a caller asked: it is far from full, and the span of a gist
    would be hardly longer than the gist. Empty otherwise: a named size, span or strategy is always
    obeyed."""
    is_named = _has_size(job) or job.settings or job.messages_max or job.purpose or job.span
    is_usual = GIST in job.ladder and tuple(job.ladder) == job.config.ladder
    if is_named or not is_usual or current >= job.budget.warn_at:
        return ""
    kept = protected(view) | task_of(view, job.budget.window)
    kept |= {slot.seq for slot in newest_unit(view)}
    old = sum(slot.tokens for slot in view.slots if slot.seq not in kept)
    if old >= min(LITTLE_TOKENS, LITTLE_RATIO * job.budget.window):
        return ""
    return f"too little to gain: what may be summarized has {old:,} tokens"


def _brief_of(before: View, current: int, target: int, job: Job) -> Brief:
    """The input of the strategies; its sizes are in our own estimate."""
    budget, has_size = job.budget, _has_size(job)
    full = min(current, budget.compact_at)
    enough = target if has_size else target + max(0, full - target) * 9 // 10
    lossless = 0 if has_size or current < budget.compact_at else int(LOSSLESS_RATIO * full)
    if job.span is not None:
        target, enough, lossless = 0, 0, 0
    sizes = (target, enough, full, lossless)
    goal, enough, limit, lossless = (page_tokens(before, budget.factor, size) for size in sizes)
    return Brief(
        view=before,
        budget=budget,
        config=job.config,
        count=job.count,
        batch=job.batch,
        originals=job.originals,
        ages=job.ages,
        target=goal,
        enough=enough,
        full=limit,
        lossless_enough=lossless,
        messages_max=job.messages_max,
        has_writer=job.has_writer,
        is_chosen=job.span is not None,
        is_asked=has_size,
        task=job.task,
        redact=job.redact,
        settings=job.settings,
        tail=job.tail if job.span is None else 0,
        scratch=job.scratch,
    )


def _within_limit(done: Climb, brief: Brief) -> Climb:
    """The climb, extended by the last rung if the page is still above the hard limit."""
    before, after = brief.view.tokens, done.state.tokens
    hard = page_tokens(brief.view, brief.budget.factor, brief.budget.input_max)
    if after <= hard:
        return done
    # Rungs that freed less than half of the goal would have to run again at the next turn.
    is_weak = 2 * (before - after) < before - brief.target
    target = min(brief.target, hard) if is_weak else hard
    further = climb(
        done.state, replace(brief, target=target, settings={}, tail=0), rungs([LAST_RUNG])
    )
    return Climb(
        state=further.state,
        proposals=(*done.proposals, *further.proposals),
        asks=done.asks,
        steps=(*done.steps, *further.steps),
    )


def _rungs_of(job: Job) -> Sequence[tuple[str, Strategy]]:
    """The strategies of a job. A native compaction runs alone: no later message may be changed."""
    if job.span is not None:
        return [("hide", partial(hide_span, span=job.span))]
    if tuple(job.ladder) == (MAKE_ROOM,):
        return [(MAKE_ROOM, hide)]
    return rungs([name for name in job.ladder if (name == NATIVE) == (job.purpose == NATIVE)])


def room_target(budget: Budget) -> int:
    """The size at which a page has room again."""
    return max(0, budget.input_max - int(budget.window * ROOM_RATIO))


def aim(view: View, current: int, job: Job) -> int:
    """The size to reach: well below the trigger, or below the current size of a smaller page."""
    if job.target is not None:
        return job.target
    most: int | None = job.settings.get("max_tokens")  # of the messages, without system and tools
    if most is not None:
        return round((most + view.system_tokens + view.tools_tokens) * job.budget.factor)
    full = min(current, job.budget.compact_at)
    kept = with_tail(with_kept(view, job.config, job.budget), job.tail)
    fixed = untouched_tokens(kept)
    fixed -= request_excess(view, fixed, page_tokens(view, job.budget.factor, full))
    fixed = round(fixed * job.budget.factor)
    return fixed + int(max(0, full - fixed) * job.budget.target_ratio)


def _has_size(job: Job) -> bool:
    """Whether the caller named a size, which is then obeyed exactly."""
    return job.target is not None or "max_tokens" in job.settings


def uncut_tokens(view: View) -> int:
    """Tokens that not even the last rung cuts: system, tools and pins."""
    slots = sum(slot.tokens for slot in view.slots if slot.seq in view.pins)
    return view.system_tokens + view.tools_tokens + slots


def _price(before: View, after: View, job: Job) -> Price:
    return price_of(before, after, per_token=job.per_token, expired=job.expired)


def items_of(proposals: Sequence[Proposal], before: View) -> tuple[Item, ...]:
    """The effect of each edit on the page, for display."""
    return tuple(_item(proposal, before) for proposal in proposals)


def _item(proposal: Proposal, before: View) -> Item:
    edit = proposal.edit
    if isinstance(edit, Replace):
        span = Span(edit.seq, edit.seq)
        size = sum(slot.tokens for slot in _slots_in(before, span))
        after, action = size + proposal.tokens, "shortened"
    else:
        span = edit.span
        covered = [slot for slot in _slots_in(before, span) if slot.last <= span.last]
        size = sum(slot.tokens for slot in covered if slot.seq not in before.pins)
        after, action = proposal.tokens, "hidden" if isinstance(edit, Hide) else "summarized"
    return Item(
        handle=str(span), action=action, tokens_before=size, tokens_after=after, reason=edit.reason
    )


def _slots_in(view: View, span: Span) -> Sequence[Slot]:
    """The slots that begin inside a span, by bisection: slots are sorted by seq."""
    start = bisect_left(view.slots, span.first, key=attrgetter("seq"))
    return view.slots[start : bisect_right(view.slots, span.last, key=attrgetter("seq"))]


def why_nothing(steps: Sequence[Step], before: View, job: Job) -> str:
    """Why a plan is empty."""
    refusals = [step.note for step in steps if step.note]
    if refusals:
        return refusals[0]
    if not steps or any(step.strategy != SUMMARIZE for step in steps):
        return "nothing can be shortened" if steps else "the page is below its target already"
    configured = job.config.strategy.get(SUMMARIZE, {})
    keep = {"keep": recent_messages(job.config), **configured, **job.settings}["keep"]
    is_summarized = any(slot.summary and slot.summary.counted for slot in before.slots)
    why = "compacted recently" if is_summarized else "not enough messages"
    reason = f"{why}: before the last {number(keep, 'message')} there is too little to summarize"
    fewer = min(keep, len(before.slots)) // 2
    return f"{reason}; keep fewer, such as keep={fewer}" if fewer else reason


def why_not_exact(before: View, after: View, target: int, job: Job, items: Sequence[Item]) -> str:
    """Why the page is above its target, or why its gists leave much of their room unused;
    empty otherwise."""
    factor = job.budget.factor
    missed = current_tokens(after, factor) - target
    if missed <= 0:
        return _why_unused(before, after, -missed, [one for one in items if one.reason == GIST])
    fixed = round(untouched_tokens(with_tail(after, job.tail)) * factor)
    if fixed > target:
        parts = "system, tools, pins and the latest request"
        if job.tail:
            tail = f"the last messages ({KEEP_RECENT} {job.tail})"
            parts = f"system, tools, pins, the latest request and {tail}"
        return f"{missed:,} tokens too many: {parts} alone have {fixed:,}"
    earlier = {(slot.seq, slot.last) for slot in before.slots if slot.standin}
    if not _has_size(job) and any((slot.seq, slot.last) in earlier for slot in after.slots):
        return f"{missed:,} tokens too many: earlier summaries stay, and the cached page with them"
    tried = "+".join(job.ladder)
    if not _has_size(job):
        return f"{missed:,} tokens too many: {tried} stopped here, as no size was named"
    return f"{missed:,} tokens too many: {tried} found nothing else that may go"


def _why_unused(before: View, after: View, left: int, gists: Sequence[Item]) -> str:
    """Why these gists are shorter than what is `left` under the target allows; empty if they have
    used their room up to a small rest."""
    used = sum(one.tokens_after for one in gists)
    spare = min(left, int(STANDIN_SHARE * sum(one.tokens_before for one in gists)) - used)
    if not gists or spare <= UNUSED_SHARE * (used + spare):
        return ""
    unused = f"{spare:,} tokens less than the target allows"
    earlier = {(slot.seq, slot.last) for slot in before.slots if slot.summary}
    if any((slot.seq, slot.last) in earlier for slot in after.slots):
        return f"{unused}: the new gist is kept short, so that the next one fits beside it"
    return f"{unused}: no other line fits, or is worth its price in every later request"


def receipt_of(plan: Plan, before: View, after: View, batch: str) -> Receipt:
    """The receipt of an applied plan, with all summary texts of its batch in the order of the
    page."""
    summaries = [slot for slot in after.slots if slot.summary and slot.summary.batch == batch]
    texts = ("\n".join(map(text_of, slot.message.blocks)) for slot in summaries)
    hidden = sum(not slot.standin for slot in before.slots)
    hidden -= sum(not slot.standin for slot in after.slots)
    return Receipt(
        batch=batch,
        target=plan.target,
        reason=plan.reason,
        items=plan.items,
        steps=plan.steps,
        price=plan.price,
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        messages_before=len(before.slots),
        messages_after=len(after.slots),
        messages_hidden=hidden,
        summary="\n\n".join(texts),
    )


def measured(plan: Plan, before: View, after: View, job: Job) -> Plan:
    """The plan with numbers measured on the pages before and after it was applied."""
    items = items_of(plan.proposals, before)
    return replace(
        plan,
        reason=why_not_exact(before, after, plan.target, job, items),
        items=items,
        price=_price(before, after, job),
        tokens_before=current_tokens(before, job.budget.factor),
        tokens_after=current_tokens(after, job.budget.factor),
    )


def still_fits(plan: Plan, state: Fold) -> bool:
    """Whether the plan is still lawful with the messages appended since: none of them answers a
    call that it would remove."""
    answered = {
        id
        for slot in reversed(state.slots)
        if slot.seq > plan.head
        for id in results_of(slot.message)
    }
    spans = [
        proposal.edit.span for proposal in plan.proposals if not isinstance(proposal.edit, Replace)
    ]
    if not answered or not spans:
        return True
    removed = [slot for slot in state.slots if any(slot.seq in span for span in spans)]
    return not any(answered.intersection(calls_of(slot.message)) for slot in removed)


class Jobs:
    """Creates the jobs of one open log."""

    def __init__(
        self, log: OpenLog, model: ActiveModel, redact: Redact, *, has_writer: Callable[[], bool]
    ) -> None:
        self._log, self._model, self._redact = log, model, redact
        self._has_writer = has_writer
        self._scratch: dict[str, Any] = {}

    def job(
        self,
        ladder: Sequence[str] = (),
        *,
        target: int | None = None,
        task: str = "",
        settings: dict[str, Any] | None = None,
        instructions: str = "",
    ) -> Job:
        """A job with the given ladder, or the configured one."""
        config = self._log.config  # for the current model
        check_ladder(ladder)
        own = settings or {}
        check_settings(own, ladder or config.ladder)
        task = task or self._latest_request()
        if settings is not None:
            for name in ladder:
                check_needed(name, {**config.strategy.get(name, {}), **own}, task)
        tail = own.get(KEEP_RECENT, config.keep_recent) or 0
        config = replace(config, keep_recent=own.get(KEEP_RECENT, recent_messages(config)))
        if instructions and not self._has_writer():
            hint = "pass a writer when opening the conversation, or with --writer"
            raise Invalid("instructions are for a writer, but there is none", hint=hint)
        return Job(
            budget=self._model.budget,
            config=config,
            count=lambda message: count_message(message, self._log.counter),
            originals=self._log.log.originals,
            ages=self._log.log.ages,
            batch=secrets.token_hex(8),
            ladder=ladder or config.ladder,
            task=task,
            target=target,
            has_writer=self._has_writer(),
            settings=own,
            tail=tail,
            per_token=self._model.price,
            expired=self._model.moment().is_expired(self._log.state),
            scratch=self._scratch,
            instructions=instructions,
            redact=cache(self._redact),  # the same lines are searched repeatedly
            purpose=NATIVE if tuple(ladder) == (NATIVE,) else "",
        )

    def _latest_request(self) -> str:
        state = self._log.state
        slot = state.slot_at(state.request)
        blocks = slot.message.blocks if slot else ()
        texts = [block.text for block in blocks if isinstance(block, Text)]
        return "\n".join(texts)[:TASK_CHARS_MAX]

    def due_job(self, budget: Budget) -> Job:
        """The job for the cause that is due: the ladder, except for a strategy past its own trigger
        and for a crowded page."""
        state, config = self._log.state, self._log.config
        load = Load(budget, current_tokens(state, budget.factor))
        why = trigger.cause(state, load, config, self._model.moment())
        if why == "asked" and self._has_writer():
            return self.job(instructions=instructions_of(state))
        if why == "early":
            return self.job(trigger.early_strategies(state, load, config))
        if why != "crowded":
            return self.job()
        most = trigger.messages_left(config)
        job = self.job(target=trigger.crowd_target(state, budget, most))
        return replace(job, messages_max=most)

    def room_job(self, budget: Budget) -> Job:
        """The job that hides the oldest messages of a page that is too large."""
        target = room_target(budget)
        return replace(self.job(), ladder=(MAKE_ROOM,), purpose=MADE_ROOM, target=target)

    def move(self) -> None:
        """Starts over for another log."""
        self._scratch.clear()


def adopted(state: Fold, job: Job, span: Span, text: str, by: str) -> Plan:
    """The plan that replaces the span by an external text. Unlike our own plans, it may cover the
    latest request. Raises Invalid if it would separate a call from its result, or if the page has
    no such messages."""
    if not text.strip():
        raise Invalid(
            "text is empty", hint="clear takes messages off the page without replacement text"
        )
    if not by:
        raise Invalid("by is empty", hint="name the author of the compaction: by='claude-code'")
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


def _covered(state: Fold, span: Span) -> list[Slot]:
    """The slots of a span: complete messages, and complete pairs of calls and results."""
    slots = state.slots
    inside = [index for index, slot in enumerate(slots) if slot.seq in span]
    if not inside or slots[inside[-1]].last > span.last:
        shown = f"#{slots[0].seq} to #{slots[-1].last}" if slots else "nothing"
        hint = f"pass the first and the last seq of whole messages; the page shows {shown}"
        raise Invalid(f"the page has no messages from #{span.first} to #{span.last}", hint=hint)
    legal = seams(slots)
    first = max(seam for seam in legal if seam <= inside[0])
    last = min(seam for seam in legal if seam > inside[-1])
    if (first, last) != (inside[0], inside[-1] + 1):
        complete = f"({slots[first].seq}, {slots[last - 1].last})"
        hint = f"a call and its result go together: pass the span {complete}"
        raise Invalid(
            f"#{span.first} to #{span.last} separates a tool call from its result", hint=hint
        )
    return slots[first:last]
