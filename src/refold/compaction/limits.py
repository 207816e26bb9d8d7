"""The budget of a page under the model's limits, the settings, a window given by hand, and limits
learned from the provider's refusals: a function of the folded log.

Light enough for a status line: imports no compaction code. Neighbours: `active_model` follows a log
with it, `edges/statusline` calls it once.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.config import Config
from refold.core.budget import Budget, budget_for, factor_of
from refold.core.fold import Fold
from refold.core.model import Lesson
from refold.dialects.overflow import LIMIT_MIN
from refold.tokens.models import Model


def limits(config: Config, info: Model, window: int | None, lesson: Lesson | None) -> Budget:
    """The budget of a model, with its window given by hand if any, bounded by a learned limit."""
    size = info.window if window is None else window
    if lesson is not None and lesson.limit < size:
        limit = max(LIMIT_MIN, lesson.limit)
        if (config.reserve_tokens or 0) > limit // 2:  # would leave too little room for the page
            config = replace(config, reserve_tokens=None)
        return budget_for(config, window=limit, output=info.output)
    input_max = None if window else info.input_max
    return budget_for(config, window=size, output=info.output, input_max=input_max)


def factor(state: Fold, info: Model, lesson: Lesson | None) -> float:
    """Tokens per estimated token: the lesson's, until the provider reports usage again."""
    if lesson is None or lesson.factor is None:
        return factor_of(state, info.name)
    is_reported = state.anchor is not None and state.anchor.upto > lesson.upto
    return factor_of(state, info.name) if is_reported else lesson.factor


def budget_of(state: Fold, config: Config, info: Model) -> Budget:
    """The budget for the current log."""
    window = (state.meta.windows or {}).get(info.name)
    lesson = state.lessons.get(info.name)
    budget = limits(config, info, window, lesson)
    return paced(replace(budget, factor=factor(state, info, lesson)), config, state)


def paced(budget: Budget, config: Config, state: Fold) -> Budget:
    """The budget for the conversation's length so far: a short conversation needs only a small
    page, which costs less with every call."""
    if not config.compact_share:
        return budget
    return budget.paced(config.compact_share, round(state.said_tokens * budget.factor))
