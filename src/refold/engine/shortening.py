"""What makes the page of a `Context` shorter, and how large it may be: budget, plan, compaction,
hooks, recovery.

`Context` is built on this, as this is on `past`. Neighbours: `compactor` carries plans out,
`recovery` knows what a provider's refusals taught, `core.budget` has the thresholds.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from refold import dialects
from refold.compaction import planning as compaction
from refold.compaction.compactor import Compactor
from refold.compaction.hooks import After, Before
from refold.compaction.recovery import Recovery
from refold.core.budget import Budget, current_tokens
from refold.core.model import Message
from refold.core.plan import Plan, Receipt
from refold.dialects.overflow import overflow_of
from refold.engine.past import Past
from refold.tokens import models
from refold.tokens.counter import count_message


class Shortening(Past):
    """The budget of a conversation that is held open, and everything that keeps its page within
    it."""

    _compactor: Compactor
    _recovery: Recovery
    _window: int | None
    _shown: int

    # --- the budget ---

    @property
    def budget(self) -> Budget:
        """Window, reserve and thresholds that hold now."""
        factor = self._recovery.factor(self._log.state, self._model.name)
        if factor != self._budget.factor:
            self._budget = replace(self._budget, factor=factor)
        return self._budget

    def _resize(self) -> None:
        self._budget = self._recovery.budget(self._model, self._window)
        self._compactor.settled_at = (
            -1
        )  # what was enough for other limits may be too little for these
        self._desk.sized_for(self._budget.window)

    def _fits(self) -> bool:
        budget = self.budget
        return current_tokens(self._log.state, budget.factor) <= budget.window

    def _per_token(self) -> float | None:
        return models.input_price(self._model)

    def decision(self) -> compaction.Decision:
        """Whether the next request compacts, by what, and whether a warning is due. Changes
        nothing."""
        with self._guard:
            self._catch_up()
            return compaction.decided(self._log.state, self.budget, self.config)

    def message_tokens(self, message: Any) -> int:
        """The tokens of a message as it is given, in the provider's count. Nothing is appended."""
        parsed = (
            [message]
            if isinstance(message, Message)
            else dialects.parse(message, self._dialect_name())
        )
        return round(
            sum(count_message(one, self._desk.counter) for one in parsed) * self.budget.factor
        )

    def fits(self, message: Any) -> bool:
        """Whether the next request would still be within the input budget with this message."""
        with self._guard:
            self._catch_up()
            current = current_tokens(self._log.state, self.budget.factor)
            return current + self.message_tokens(message) <= self.budget.input_max

    # --- compaction ---

    def plan(
        self, *strategies: str, target: int | None = None, task: str = "", **settings: Any
    ) -> Plan:
        """What `compact` would do, and its price. Changes nothing."""
        with self._guard:
            self._catch_up()
            return self._compactor.plan(
                self._compactor.job(strategies, target=target, task=task, settings=settings)
            )

    def compact(
        self,
        *strategies: str,
        target: int | None = None,
        task: str = "",
        instructions: str = "",
        **settings: Any,
    ) -> Receipt:
        """Makes the page shorter, as one batch that `undo` and `revert` take back. Without
        names, the ladder. `instructions` are for the writer, if there is one."""
        with self._guard:
            self._catch_up()
            job = self._compactor.job(
                strategies, target=target, task=task, settings=settings, instructions=instructions
            )
        return self._compactor.compact(job)

    def before_compaction(self, hook: Before) -> None:
        """Calls the hook before every compaction. It may return instructions for the writer, or
        a `Veto`."""
        self._compactor.hooks.befores.append(hook)

    def after_compaction(self, hook: After) -> None:
        """Calls the hook with the receipt of every compaction."""
        self._compactor.hooks.afters.append(hook)

    def recover(self, error: Any) -> bool:
        """After a failed call. True if the provider refused the page as too long: its limit is
        learnt, the page is much shorter now, call again. False for any other error. The same
        page refused twice raises OverBudget."""
        overflow = overflow_of(error)
        if overflow is None:
            return False
        with self._guard:
            self._catch_up()
            self._recovery.learn(
                overflow, self._log.state, self.budget, self._model.name, shown=self._shown
            )
            self._resize()
        self._recovery.reduce(self._compactor, overflow)
        return True
