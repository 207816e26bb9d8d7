"""The token budget of a page: window, reserve and thresholds.

All thresholds follow from the window in exact arithmetic, and none lies above the input budget
(window − reserve) or the cap. A compaction aims at `target`, well below the trigger, so that the
next one is far away. Neighbours: `config` holds the ratios, `fold` the calibration that turns our
estimate into the provider's tokens.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
from refold.core.fold import Fold
from refold.core.model import View
from refold.errors import Invalid

Level = Literal["ok", "warn", "compact", "critical"]
Sized = View | Fold

OUTPUT_DEFAULT = 4_096
RESERVE_MAX = 32_000
OFFLOAD_MAX = 8_000


class Budget(Struct, frozen=True, kw_only=True):
    """Window, reserve and thresholds in tokens; `factor` is reported tokens per estimated token."""

    window: int
    reserve: int
    warn_at: int
    compact_at: int
    critical_at: int
    target_ratio: float = 0.5
    factor: float = 1.0

    @property
    def input_max(self) -> int:
        return self.window - self.reserve

    def level(self, current: int) -> Level:
        if current >= self.critical_at:
            return "critical"
        if current >= self.compact_at:
            return "compact"
        return "warn" if current >= self.warn_at else "ok"

    def target(self, fixed: int) -> int:
        """The size that a compaction aims at; `fixed` is the part it cannot touch."""
        return fixed + int(max(0, self.compact_at - fixed) * self.target_ratio)

    def paced(self, share: float, total: int) -> Budget:
        """The budget with its trigger at this share of the conversation's `total` tokens, between
        half of the usual trigger and all of it."""
        compact_at = max(self.compact_at // 2, min(self.compact_at, int(total * share)))
        warn_at = self.warn_at * compact_at // max(1, self.compact_at)
        return replace(self, compact_at=compact_at, warn_at=warn_at)

    def percent(self, current: int) -> float:
        """The used share of the window, rounded down to tenths: a page is full only at 100."""
        return 1_000 * current // self.window / 10


class Load(NamedTuple):
    """A page's budget, and the tokens it uses."""

    budget: Budget
    tokens: int


def budget_for(
    config: Config, *, window: int, output: int | None, input_max: int | None = None
) -> Budget:
    """The budget of a model under a configuration."""
    if window <= 0:
        raise Invalid(
            f"invalid window: {window} tokens", hint="pass a positive window, or a known model"
        )
    reserve = config.reserve_tokens
    if reserve is None:
        reserve = min(output or OUTPUT_DEFAULT, RESERVE_MAX)
        # A small window with a large output limit must still leave room for the page.
        reserve = reserve if reserve <= window // 2 else window // 4
    limit = min(window - reserve, input_max or window)
    if limit <= 0:
        raise Invalid(
            f"a reserve of {reserve} tokens leaves no room in a window of {window}",
            hint="lower reserve_tokens",
        )
    ratios = (config.warn_ratio, config.compact_ratio, config.critical_ratio)
    warn, compact, critical = (Fraction(str(ratio)) for ratio in ratios)
    compact_at = min(int(window * compact), limit, config.tokens_cap)
    return Budget(
        window=window,
        reserve=window - limit,
        warn_at=min(int(window * warn), int(compact_at * warn / compact)),
        compact_at=compact_at,
        critical_at=max(compact_at, min(int(window * critical), limit)),
        target_ratio=config.target_ratio,
    )


def offload_tokens(config: Config, window: int) -> int:
    """The size from which a tool result becomes an artifact."""
    limit = config.offload_tokens
    return min(OFFLOAD_MAX, window // 8) if limit is None else limit


def factor_of(view: Sized, model: str) -> float:
    """Reported tokens per estimated token for a model; without a report, the newest ratio of
    another model."""
    if not view.calibration:
        return 1.0
    own = view.calibration.get(model)
    return list(view.calibration.values())[-1] if own is None else own


def current_tokens(view: Sized, factor: float) -> int:
    """Tokens of the next request: the last reported size, plus growth since, minus the effect of
    edits. A page shorter than the reported one is scaled down: an error in our estimate must
    shrink with the page."""
    anchor, tokens = view.anchor, view.tokens
    if anchor is None:
        return round(tokens * factor)
    if tokens < anchor.page:
        return round(anchor.tokens * tokens / anchor.page)
    return anchor.tokens + round((tokens - anchor.page) * factor)


def page_tokens(view: Sized, factor: float, current: int) -> int:
    """Our estimate for a page that the provider would count as `current` tokens."""
    anchor = view.anchor
    if anchor is None:
        return round(current / factor)
    if current < anchor.tokens:
        return round(anchor.page * current / anchor.tokens)
    return anchor.page + round((current - anchor.tokens) / factor)
