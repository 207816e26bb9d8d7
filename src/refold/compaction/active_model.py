"""The model that reads the page: its window, budget, wire format and price, and what its refusals
taught.

The log names the model, so another writer may change it and a restore takes it back; `follow` looks
whenever the log has changed. A window given by hand overrides the model's own. A limit that a
refusal taught (`Lesson`, part of the edits that answered it) bounds both for as long as those edits
stand. Neighbours: `core.budget` has the thresholds, `recovery` makes lessons.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from refold.config import Config
from refold.core.budget import Budget, budget_for, current_tokens, factor_of
from refold.core.model import Lesson, Meta, Usage
from refold.dialects import DIALECTS
from refold.dialects.overflow import LIMIT_MIN
from refold.log.open_log import OpenLog
from refold.tokens.models import cost, input_price, model_info

DIALECT_DEFAULT = "openai_chat"


class ActiveModel:
    """`info` is what the model table knows of it. `changed` are called when its limits change."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        self.window: int | None = None  # given by hand
        self.changed: list[Callable[[], None]] = []
        self._name: str | None = None
        self.info = model_info(None)
        self._lesson: Lesson | None = None
        self._watched: tuple[int, Budget] | None = None
        self._budget = self.budget_under(None)

    # --- which model ---

    def take(self, name: str | None, window: int | None = None) -> None:
        """Reads on with this model, and with this window if one is given."""
        self._name = name
        self.info = model_info(name or None)
        if window is not None:
            self.window = window
        self._resize()

    def follow(self) -> None:
        """Takes the model that the log names now, and the limits that it teaches; warns if the
        page is getting full."""
        name = self._log.state.meta.model
        if name != self._name and not self._is_pending():
            self.take(name)
        elif self._log.state.lessons.get(self.info.name) != self._lesson:
            self._resize()
        self.watch()

    def _is_pending(self) -> bool:
        """Whether another model was chosen and is not in the log yet."""
        bodies = (draft.body for draft in self._log.pending)
        return any(isinstance(body, Meta) and body.model for body in bodies)

    @property
    def is_unknown(self) -> bool:
        """Whether a model was named that no table knows, so that its window is a guess."""
        return bool(self._name) and not self.info.known and not self.window

    def dialect(self, asked: str | None = None) -> str:
        """The wire format asked for, else the configured one, the model's, or that of the last
        reply."""
        named = asked or self._log.config.dialect or self.info.dialect
        if named:
            return named
        for slot in reversed(self._log.state.slots):
            if slot.message.role == "assistant" and slot.message.dialect in DIALECTS:
                return slot.message.dialect
        return DIALECT_DEFAULT

    # --- limits ---

    @property
    def budget(self) -> Budget:
        """Window, reserve and thresholds that hold now."""
        factor = self._factor()
        if factor != self._budget.factor:
            self._budget = replace(self._budget, factor=factor)
        return self._budget

    @property
    def current(self) -> int:
        """The tokens that the next request will carry."""
        return current_tokens(self._log.state, self.budget.factor)

    def fits(self) -> bool:
        return self.current <= self.budget.window

    def _resize(self) -> None:
        self._lesson = self._log.state.lessons.get(self.info.name)
        self._budget = self.budget_under(self._lesson)
        for call in self.changed:
            call()

    def budget_under(self, lesson: Lesson | None) -> Budget:
        """The budget of this model within what a refusal taught."""
        config, info = self._log.config, self.info
        window = info.window if self.window is None else self.window
        if lesson is not None and lesson.limit < window:
            limit = max(LIMIT_MIN, lesson.limit)
            return budget_for(_with_room(config, limit), window=limit, output=info.output)
        input_max = None if self.window else info.input_max
        return budget_for(config, window=window, output=info.output, input_max=input_max)

    def _factor(self) -> float:
        """Tokens per estimated token. The provider's own report, once it comes, is better than a
        lesson."""
        state, lesson = self._log.state, self._lesson
        if lesson is None or lesson.factor is None:
            return factor_of(state, self.info.name)
        reported = state.anchor is not None and state.anchor.upto > lesson.upto
        return factor_of(state, self.info.name) if reported else lesson.factor

    def watch(self) -> None:
        """Says once that the page is getting full. Cheap where nothing came since the last
        time."""
        budget, head = self.budget, self._log.state.head
        if self._watched != (head, budget):
            self._watched = (head, budget)
            self._log.notices.watch(current_tokens(self._log.state, budget.factor), budget)

    def watch_again(self) -> None:
        """Looks at the page again even if nothing comes: a compaction may have left it full."""
        self._watched = None

    # --- money ---

    @property
    def price(self) -> float | None:
        """What one token of input costs."""
        return input_price(self.info)

    def cost(self, usage: Usage) -> float | None:
        """What a reply cost, by the model that it names, else by this one."""
        priced = model_info(usage.model or self.info.name)
        return cost(priced if priced.known else self.info, usage)


def _with_room(config: Config, limit: int) -> Config:
    """The configuration without a reserve that would leave too little of a smaller window."""
    reserve = config.reserve_tokens or 0
    return replace(config, reserve_tokens=None) if reserve > limit // 2 else config
