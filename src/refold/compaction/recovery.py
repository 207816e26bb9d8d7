"""After a provider refused a request as too long: learn its real limit, make the page much shorter,
and retry.

One try per page, without a model: about a quarter of what can go is kept, and the rest leads back
by its handles. What was learnt holds for that model from now on: the limit bounds its window, and a
stated size corrects our estimate until the provider reports usage again. The limit stands in the
name of the reduction's batch, so whoever opens the conversation later knows it without reading the
log; reverting that batch forgets it. Neighbours: `overflow` reads errors, `compactor` carries the
reduction out.
"""

from __future__ import annotations

import re
import secrets

from msgspec import Struct
from msgspec.structs import replace

from refold.compaction import planning as compaction
from refold.compaction.compactor import Compactor
from refold.config import Config
from refold.core.budget import Budget, budget_for, current_tokens, factor_of
from refold.core.fold import Fold
from refold.core.plan import Receipt
from refold.dialects.overflow import LIMIT_MIN, Overflow
from refold.errors import OverBudget
from refold.tokens.models import Model

LADDER = ("dedup", "gist", "hide")
KEPT_SHARE = 4  # one part in so many of what can go is kept
FACTOR_MIN, FACTOR_MAX = 0.5, 4.0
LIMIT_ASSUMED_MIN = 4_096  # no smaller limit is taken from a refusal that names none
BATCH = re.compile(
    r"overflow:(\d{1,9}):(.*):[0-9a-f]{16}", re.DOTALL
)  # the limit learnt, and whose it is
ADVICE = (
    "ask for fewer output tokens, shorten the system prompt, the tools or the pins, "
    "or use a model with a larger window"
)


class Lesson(Struct, frozen=True, kw_only=True):
    """What a model's refusals taught: its limit, and tokens per estimated token of the page
    shown at `upto`."""

    limit: int
    factor: float | None = None
    upto: int = 0


class Recovery:
    """What was learnt, by model, and the page that was reduced last: (its newest message, the
    model)."""

    def __init__(self, config: Config, state: Fold | None = None) -> None:
        self.config = config
        self.lessons = remembered(state) if state is not None else {}
        self.tried: tuple[int, str] | None = None
        self.margin = 0  # tokens by which the refused page was larger than we still believe

    # --- what holds now ---

    def budget(self, model: Model, window: int | None) -> Budget:
        """The budget of a model, or of a window given by hand, within what was learnt."""
        lesson, own = self.lessons.get(model.name), model.window if window is None else window
        if lesson is None or lesson.limit >= own:
            return budget_for(
                self.config,
                window=own,
                output=model.output,
                input_max=None if window else model.input_max,
            )
        config = self.config
        if (config.reserve_tokens or 0) > lesson.limit // 2:
            # A reserve that was meant for the larger window would leave nothing of this one.
            config = replace(config, reserve_tokens=None)
        return budget_for(config, window=lesson.limit, output=model.output)

    def factor(self, state: Fold, model: str) -> float:
        """Tokens per estimated token; the provider's own report, once it comes, is better than a
        lesson."""
        lesson = self.lessons.get(model)
        reported = (
            state.anchor is not None and lesson is not None and state.anchor.upto > lesson.upto
        )
        if lesson is None or lesson.factor is None or reported:
            return factor_of(state, model)
        return lesson.factor

    # --- learning ---

    def learn(
        self, overflow: Overflow, state: Fold, budget: Budget, model: str, *, shown: int
    ) -> None:
        """Takes in a refusal of the page that was shown at a head. A second one of the same page
        is the end."""
        page = (state.slots[-1].last if state.slots else 0, model)
        if self.tried == page:
            raise OverBudget(
                f"the page was refused again after it was reduced: {overflow.text}", hint=ADVICE
            )
        self.tried = page
        known = self.lessons.get(model)
        limits = [_limit(overflow, state, budget), *([known.limit] if known else [])]
        factor, self.margin = known.factor if known else None, 0
        if overflow.tokens and state.tokens and shown == state.head:
            factor = min(max(overflow.tokens / state.tokens, FACTOR_MIN), FACTOR_MAX)
            self.margin = max(0, overflow.tokens - current_tokens(state, factor))
        self.lessons[model] = Lesson(limit=min(limits), factor=factor, upto=shown)

    # --- the reduction ---

    def reduce(self, compactor: Compactor, overflow: Overflow) -> None:
        """Makes the page as short as it must be, as one batch, and says so."""
        with compactor.guard:
            budget = compactor.budget()
            strong = self._strong(compactor.log.state, budget, overflow)
            job = replace(
                compactor.job(LADDER, target=strong.compact_at), budget=strong, batch=self._batch()
            )
        receipt = compactor.compact_now(job)
        if not receipt.batch:
            raise OverBudget(
                f"the page was refused, and {receipt.reason}: {overflow.text}", hint=ADVICE
            )
        with compactor.guard:
            self._tell(compactor, receipt, overflow, budget)

    def _batch(self) -> str:
        """The name of the reduction: what was learnt last."""
        model = self.tried[1] if self.tried else ""
        return f"overflow:{self.lessons[model].limit}:{model}:{secrets.token_hex(8)}"

    def _strong(self, state: Fold, budget: Budget, overflow: Overflow) -> Budget:
        """The budget of the reduction. Its trigger is its target, so that no rung is spared. Its
        hard limit is the one learnt; where by our own estimate the page would have fitted, the
        estimate is wrong, and a quarter is dared."""
        current = current_tokens(state, budget.factor)
        explained = overflow.limit is not None and current > budget.input_max
        full = max(1, min(current, budget.input_max) - self.margin)
        hard = full if explained else max(1, min(full, current // KEPT_SHARE - self.margin))
        fixed = min(hard, round(compaction.fixed_tokens(state.view()) * budget.factor))
        target = min(hard, fixed + (full - fixed) // KEPT_SHARE)
        return replace(budget, reserve=budget.window - hard, compact_at=target)

    def _tell(
        self, compactor: Compactor, receipt: Receipt, overflow: Overflow, budget: Budget
    ) -> None:
        compactor.notices.add(
            "overflow-recovered",
            receipt=receipt,
            strategy=receipt.strategy,
            before=receipt.tokens_before,
            after=receipt.tokens_after,
            max=budget.window,
            reason=overflow.text,
            details={"limit": overflow.limit, "tokens": overflow.tokens},
        )


def remembered(state: Fold) -> dict[str, Lesson]:
    """What the reductions that stand in a log have taught. The smallest limit of each model
    holds."""
    lessons: dict[str, Lesson] = {}
    for _, batch in state.undoable:
        if found := BATCH.fullmatch(batch):
            limit, model = max(LIMIT_MIN, int(found[1])), found[2]
            known = lessons.get(model)
            lessons[model] = Lesson(limit=min(limit, known.limit) if known else limit)
    return lessons


def _limit(overflow: Overflow, state: Fold, budget: Budget) -> int:
    """The limit that a refusal tells. One without a number still says: below what we took the
    page for."""
    assumed = min(current_tokens(state, budget.factor), budget.window)
    return overflow.limit or max(LIMIT_ASSUMED_MIN, assumed)
