"""A plan between the moment at which it is drawn up and the one at which it is carried out.

Meanwhile a writer works, for seconds, or the caller goes on for turns (`Prepared`). What was
appended since stays on the page; a plan whose page was edited since is of no use. Neighbours:
`planning` draws plans up, `compactor` carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from refold.compaction import planning
from refold.compaction.planning import Job
from refold.core.budget import Budget
from refold.core.fold import Fold
from refold.core.model import View
from refold.core.plan import Plan
from refold.log.draft import Draft
from refold.writer.asker import Outcome, Question


class Drawn(Struct, frozen=True, kw_only=True):
    """A plan, the pages before and after it, and what must not have changed when it is carried
    out. `measured` is False where the page that it leaves is another than `after`; `beside` is
    what is written with it."""

    plan: Plan
    before: View
    after: View
    fresh: Callable[[Fold], bool]
    measured: bool = True
    beside: Sequence[Draft] = ()


class Prepared(Struct, frozen=True, kw_only=True):
    """A plan that was drawn up ahead, and what a writer said to it."""

    drawn: Drawn
    job: Job
    questions: Sequence[Question] = ()
    outcomes: Sequence[Outcome] = ()

    def serves(self, job: Job, state: Fold, current: int) -> bool:
        """Whether it does what the job asks for, for the page as it is now, and is enough."""
        alike = _limits(self.job) == _limits(job)
        left = current - self.drawn.plan.saved_tokens
        return alike and left < job.budget.warn_at and self.drawn.fresh(state)


def _limits(job: Job) -> tuple[Sequence[str], int | None, Budget]:
    """What must be the same of two jobs; the factor of the budget moves with every reply."""
    return job.ladder, job.target, replace(job.budget, factor=1.0)


def unedited(state: Fold, plan: Plan) -> Callable[[Fold], bool]:
    """Whether a plan for this page still fits a later one."""
    return partial(_untouched, list(state.undoable), set(state.pins), plan)


def _untouched(undoable: list[tuple[int, str]], pins: set[int], plan: Plan, state: Fold) -> bool:
    """Whether what came since did not edit the page, nor answer a call that the plan takes
    away."""
    same = state.undoable == undoable and state.pins == pins
    return same and planning.still_fits(plan, state)
