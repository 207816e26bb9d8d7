"""Recovery after a provider refused a request as too long: learn the real limit, shorten the page a
lot, and let the caller try again.

One try per page, without a model: about a quarter of the removable part stays, and the rest can be
unfolded by its handles. The lesson is part of the edits that shorten the page, so later readers of
the log know it, and a revert forgets it. Its limit bounds the model's window; a stated size
corrects our estimate until the provider reports usage again. Neighbours: `dialects.overflow` reads
errors, `compactor` applies the edits, `active_model` obeys the lesson.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import Compactor
from refold.core.budget import Budget, current_tokens
from refold.core.fold import Fold
from refold.core.model import Lesson
from refold.dialects.overflow import Overflow, overflow_of
from refold.errors import OverBudget
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.strategies.protected_messages import untouched_tokens

LADDER = ("dedup", "gist", "hide")
KEPT_SHARE = 4  # a quarter of the removable part stays
FACTOR_MIN, FACTOR_MAX = 0.5, 4.0
LIMIT_ASSUMED_MIN = 4_096  # lower bound of the limit assumed after a refusal without a number
ADVICE = (
    "ask for fewer output tokens, shorten the system prompt, the tools or the pins, "
    "or use a model with a larger window"
)


def recovered(
    log: OpenLog, model: ActiveModel, compactor: Compactor, error: Any, *, shown: int
) -> bool:
    """Shortens the page sent at the head `shown`, as one batch, and announces it; False for an
    error that is not a refusal for size. Raises OverBudget at a second refusal of the same page."""
    overflow = overflow_of(error)
    if overflow is None:
        return False
    log.check_writable()
    with log.reading() as state:
        lesson = learn(overflow, state, model, shown=shown)
        budget = model.budget_under(lesson)
        budget = replace(budget, factor=lesson.factor or model.budget.factor)
        strong = _strong_budget(state, budget, overflow, shown=shown)
        job = compactor.jobs.job(LADDER, target=strong.compact_at)
        job = replace(job, budget=strong, lesson=lesson)
    receipt = compactor.compact_at_once(job)
    if not receipt.batch:
        raise OverBudget(
            f"the page was refused, and {receipt.reason}: {overflow.text}", hint=ADVICE
        )
    notice = Notice(
        name="overflow-recovered",
        receipt=receipt,
        strategy=receipt.strategy,
        before=receipt.tokens_before,
        after=receipt.tokens_after,
        max=budget.window,
        reason=overflow.text,
        details={"limit": overflow.limit, "tokens": overflow.tokens},
    )
    with log.guard:
        log.notices.add(notice)
    return True


def learn(overflow: Overflow, state: Fold, model: ActiveModel, *, shown: int) -> Lesson:
    """The model's limit according to a refusal of the page. A refusal without a number still means
    that the limit is below our estimate of the page. A second refusal of the same page raises
    OverBudget."""
    name, page = model.info.name, newest_message(state)
    earlier = state.lessons.get(name)
    if earlier is not None and earlier.page == page:
        raise OverBudget(
            f"the page was refused again after it was reduced: {overflow.text}", hint=ADVICE
        )
    assumed = max(LIMIT_ASSUMED_MIN, min(model.current, model.budget.window))
    limit, factor = overflow.limit or assumed, None
    if overflow.tokens and state.tokens and shown == state.head:  # the size of the current page
        factor = min(max(overflow.tokens / state.tokens, FACTOR_MIN), FACTOR_MAX)
    if earlier is not None:
        limit = min(limit, earlier.limit)
        factor = factor or earlier.factor
    return Lesson(model=name, limit=limit, factor=factor, page=page, upto=shown)


def newest_message(state: Fold) -> int:
    """The seq of the newest message on the page, stand-ins included; 0 if there is none."""
    return state.slots[-1].last if state.slots else 0


def _strong_budget(state: Fold, budget: Budget, overflow: Overflow, *, shown: int) -> Budget:
    """The budget of the reduction. Its trigger is its target, so that no rung is spared. Its hard
    limit is the learned one, in our own tokens; if by our estimate the page would have fitted and
    the refusal states no size, only a quarter is risked."""
    current = current_tokens(state, budget.factor)
    stated = overflow.tokens if shown == state.head and state.tokens > 0 else None
    full = max(1, min(current, as_counted(budget.input_max, current, stated or 0)))
    hard = full
    if overflow.limit is None or (not stated and current <= budget.input_max):
        hard = max(1, min(full, current // KEPT_SHARE))
    fixed = min(hard, round(untouched_tokens(state.view()) * budget.factor))
    target = min(hard, fixed + (full - fixed) // KEPT_SHARE)
    return replace(budget, reserve=budget.window - hard, compact_at=target)


def as_counted(limit: int, current: int, stated: int) -> int:
    """The provider's limit in our own tokens, for a page that we count as `current` and the
    provider as `stated`. Either our estimate is off by a constant share, or something besides the
    page is not counted at all. The smaller result counts, unless the second assumption would leave
    nearly nothing."""
    if stated <= current:
        return limit
    by_share = limit * current // stated
    beside = limit - (stated - current)
    return min(by_share, max(beside, by_share // 2))
