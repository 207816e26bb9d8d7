"""The budget of a page under the model's limits, the settings, a window given by hand, and limits
learned from the provider's refusals: a function of the folded log.

A window smaller than the model's is a wish, not a limit: the page may fill it, and the answer has
room above it. Every call pays for its page, so the page of a short conversation stays small. An
agent that reads much at once would fill it every few calls, and each compaction costs the front:
the next one waits until the page is full, and goes further. A user's own settings override all of
this. Light enough for a status line: imports no compaction code. Neighbours: `active_model` follows
a log with it, `edges/statusline` calls it once; the proxy folds as wished, `replay` forecasts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from refold.config import Config
from refold.core.budget import RESERVE_MAX, Budget, budget_for, factor_of
from refold.core.fold import Fold
from refold.core.model import Lesson
from refold.dialects.overflow import LIMIT_MIN
from refold.errors import Invalid
from refold.settings.sources import has_user_limits, loaded
from refold.tokens.models import Model, model_info


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


def with_room(budget: Budget, *, extra: int, answer: int, whole: int, reserve: int) -> Budget:
    """The budget for a request that has `extra` tokens besides the page, and an answer of this
    length. The model has a window of `whole` tokens, in which the budget's may be a wish; `reserve`
    is room needed inside the budget's."""
    limit = min(budget.window - max(budget.reserve, reserve), whole - answer) - max(0, extra)
    if limit == budget.input_max:
        return budget
    if limit <= 0:
        what = f"{extra:,} tokens beside the page and {answer:,} of the answer"
        hint = "lower max_tokens (output_tokens), or shorten the system prompt and the tools"
        raise Invalid(f"{what} leave no room in a window of {whole:,}", hint=hint)
    compact_at = min(budget.compact_at, limit)
    return replace(
        budget,
        reserve=budget.window - limit,
        warn_at=budget.warn_at * compact_at // max(1, budget.compact_at),
        compact_at=compact_at,
        critical_at=max(compact_at, min(budget.critical_at, limit)),
    )


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


WISH_FROM = 40_000  # tokens: in a smaller window, a gist needs all the room
WISHED: dict[str, Any] = {
    "reserve_tokens": 0,
    "target_ratio": 0.38,
    "compact_every": 28,
    "compact_share": 0.5,
}


def wished(window: int | None, model: str, config: dict[str, Any]) -> dict[str, Any]:
    """The settings for a window that is a wish: the model has room for an answer above it, and the
    user has not set when and how far to compact. Otherwise none."""
    info = model_info(model or None)
    if window is None or not info.known or window < WISH_FROM:
        return {}
    answer = min(info.output or RESERVE_MAX, RESERVE_MAX)
    is_wish = not has_user_limits(*loaded(config)) and window + answer <= info.window
    return WISHED if is_wish else {}


def settings_of(model: str) -> Callable[[int], dict[str, Any]]:
    """A fold's settings by its window, for a replay of calls to this model."""
    return lambda window: wished(window, model, {})
