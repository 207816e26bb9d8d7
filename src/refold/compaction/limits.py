"""The budget of a page: what the model, the settings, a window given by hand and refusals of the
provider leave, as one function of the folded log.

Light enough for a status line: nothing that compacts is imported here. Neighbours: `active_model`
follows a log with it, `edges/statusline` looks once.
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
    """The budget of a model, with a window given by hand if there is one, within what a refusal
    taught."""
    size = info.window if window is None else window
    if lesson is not None and lesson.limit < size:
        limit = max(LIMIT_MIN, lesson.limit)
        return budget_for(_with_room(config, limit), window=limit, output=info.output)
    input_max = None if window else info.input_max
    return budget_for(config, window=size, output=info.output, input_max=input_max)


def factor(state: Fold, info: Model, lesson: Lesson | None) -> float:
    """Tokens per estimated token. The provider's own report, once it comes, is better than a
    lesson."""
    if lesson is None or lesson.factor is None:
        return factor_of(state, info.name)
    reported = state.anchor is not None and state.anchor.upto > lesson.upto
    return factor_of(state, info.name) if reported else lesson.factor


def budget_of(state: Fold, config: Config, info: Model) -> Budget:
    """The budget that holds for a log as it is."""
    window = (state.meta.windows or {}).get(info.name)
    lesson = state.lessons.get(info.name)
    found = limits(config, info, window, lesson)
    return paced(replace(found, factor=factor(state, info, lesson)), config, state)


def paced(budget: Budget, config: Config, state: Fold) -> Budget:
    """The budget for as much as was said so far: of a short conversation, a small page has
    everything that is needed, and costs less at every call."""
    if not config.compact_share:
        return budget
    return budget.paced(config.compact_share, round(state.said_tokens * budget.factor))


def _with_room(config: Config, limit: int) -> Config:
    """The configuration without a reserve that would leave too little of a smaller window."""
    reserve = config.reserve_tokens or 0
    return replace(config, reserve_tokens=None) if reserve > limit // 2 else config
