"""After a provider refused a request as too long: learn its real limit, make the page much shorter,
and let the caller try again.

One try per page, without a model: about a quarter of what can go is kept, and the rest leads back
by its handles. What was learnt is part of the edits that make the page shorter (`Lesson`), so
whoever opens the conversation later knows it, and reverting them forgets it. The limit bounds the
model's window; a stated size corrects our estimate until the provider reports usage again.
Neighbours: `dialects.overflow` reads errors, `compactor` applies the edits, `active_model` obeys
the lesson.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import Compactor
from refold.compaction.planning import Job
from refold.core.budget import Budget, current_tokens
from refold.core.fold import Fold
from refold.core.model import Lesson
from refold.core.plan import Receipt
from refold.dialects.overflow import Overflow
from refold.errors import OverBudget
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.strategies.brief import untouched_tokens

LADDER = ("dedup", "gist", "hide")
KEPT_SHARE = 4  # one part in so many of what can go is kept
FACTOR_MIN, FACTOR_MAX = 0.5, 4.0
LIMIT_ASSUMED_MIN = 4_096  # no smaller limit is taken from a refusal that names none
ADVICE = (
    "ask for fewer output tokens, shorten the system prompt, the tools or the pins, "
    "or use a model with a larger window"
)


def recover(
    log: OpenLog, model: ActiveModel, compactor: Compactor, overflow: Overflow, *, shown: int
) -> None:
    """Makes the page that was shown at the head `shown` as short as it must be, as one batch, and
    says so. A second refusal of the same page raises OverBudget."""
    with log.reading() as state:
        lesson = learn(overflow, state, model, shown=shown)
        budget = _budget_under(lesson, model)
        job = _job(compactor, state, budget, lesson, overflow)
    receipt = compactor.compact_at_once(job)
    if not receipt.batch:
        raise OverBudget(
            f"the page was refused, and {receipt.reason}: {overflow.text}", hint=ADVICE
        )
    with log.guard:
        log.notices.add(_notice(receipt, overflow, budget))


# --- what the refusal tells ---


def learn(overflow: Overflow, state: Fold, model: ActiveModel, *, shown: int) -> Lesson:
    """What a refusal of the page tells of the model. A second one of the same page is the end."""
    name, page = model.info.name, newest_message(state)
    known = state.lessons.get(name)
    if known is not None and known.page == page:
        raise OverBudget(
            f"the page was refused again after it was reduced: {overflow.text}", hint=ADVICE
        )
    limit = _limit(overflow, model)
    factor = _stated_factor(overflow, state, shown=shown)
    if known is not None:
        limit = min(limit, known.limit)
        factor = factor or known.factor
    return Lesson(model=name, limit=limit, factor=factor, page=page, upto=shown)


def newest_message(state: Fold) -> int:
    """The newest message that the page shows or stands for."""
    return state.slots[-1].last if state.slots else 0


def _limit(overflow: Overflow, model: ActiveModel) -> int:
    """The limit that a refusal tells. One without a number still says: below what we took the
    page for."""
    assumed = min(model.current, model.budget.window)
    return overflow.limit or max(LIMIT_ASSUMED_MIN, assumed)


def _stated_factor(overflow: Overflow, state: Fold, *, shown: int) -> float | None:
    """Tokens per estimated token, if the refusal states the size of the page as it is now."""
    if not (overflow.tokens and state.tokens and shown == state.head):
        return None
    return min(max(overflow.tokens / state.tokens, FACTOR_MIN), FACTOR_MAX)


def _budget_under(lesson: Lesson, model: ActiveModel) -> Budget:
    budget = model.budget_under(lesson)
    return replace(budget, factor=lesson.factor or model.budget.factor)


# --- how much shorter ---


def _job(
    compactor: Compactor, state: Fold, budget: Budget, lesson: Lesson, overflow: Overflow
) -> Job:
    strong = _strong_budget(state, budget, overflow, shown=lesson.upto)
    job = compactor.job(LADDER, target=strong.compact_at)
    return replace(job, budget=strong, lesson=lesson)


def _strong_budget(state: Fold, budget: Budget, overflow: Overflow, *, shown: int) -> Budget:
    """The budget of the reduction. Its trigger is its target, so that no rung is spared. Its hard
    limit is the one learnt, in tokens as we count them; where by our own estimate the page would
    have fitted and nobody says how wrong that is, only a quarter is risked."""
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
    """A limit of the provider's in our tokens, for a page that we count as `current` and the
    provider as `stated`. Either each token is too small by the same share, or something beside the
    page is not counted at all: the smaller of the two, unless the latter would leave nearly
    nothing."""
    if stated <= current:
        return limit
    by_share = limit * current // stated
    beside = limit - (stated - current)
    return min(by_share, max(beside, by_share // 2))


def _notice(receipt: Receipt, overflow: Overflow, budget: Budget) -> Notice:
    return Notice(
        name="overflow-recovered",
        receipt=receipt,
        strategy=receipt.strategy,
        before=receipt.tokens_before,
        after=receipt.tokens_after,
        max=budget.window,
        reason=overflow.text,
        details={"limit": overflow.limit, "tokens": overflow.tokens},
    )
