"""Carries plans out: draws one up, appends its edits as one batch, and decides when to do so by itself.

Automatic compaction runs in `request` only, never in `append`. It acts at the trigger, aims well below it, does not
act twice without enough new tokens, sleeps after an undo, and says so once when the page cannot be made to fit.
Neighbours: `compaction` has the arithmetic, `log` takes the edits, `notices` tells.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from refold import compaction
from refold.core.budget import Budget, current_tokens
from refold.core.fold import Fold
from refold.core.model import Message, Text
from refold.core.plan import Plan, Receipt
from refold.drafting import Desk
from refold.log import Log
from refold.notices import Guard, Notices
from refold.tokens.counter import count_message

PLAN_TRIES_MAX = 3
TASK_CHARS_MAX = 4_000
UNREACHABLE = "system, tools, pins and the latest request alone are over the trigger"


class Compactor:
    """`budget` and `per_token` are asked anew for every plan: the model may have changed."""

    def __init__(
        self, log: Log, desk: Desk, notices: Notices, guard: Guard, *, budget: Callable[[], Budget],
        per_token: Callable[[], float | None],
    ) -> None:  # fmt: skip
        self.log, self.desk, self.notices, self.guard = log, desk, notices, guard
        self.config = desk.config
        self.budget, self.per_token = budget, per_token
        self.scratch: dict[str, Any] = {}
        self.settled_at = -1  # the head at which there was nothing more to do

    def job(
        self,
        ladder: Sequence[str] = (),
        *,
        target: int | None = None,
        task: str = "",
        settings: dict[str, Any] | None = None,
    ) -> compaction.Job:
        """What a plan is to be drawn up from. Without names, the configured ladder."""
        return compaction.Job(
            budget=self.budget(),
            config=self.config,
            count=self._count,
            originals=self.log.originals,
            batch=secrets.token_hex(8),
            ladder=ladder or self.config.ladder,
            task=task or self._task(),
            target=target,
            settings=settings or {},
            per_token=self.per_token(),
            scratch=self.scratch,
        )

    def plan(self, job: compaction.Job) -> Plan:
        with self.guard:
            return compaction.drawn_up(self.log.state, job)[0]

    def compact(self, job: compaction.Job) -> Receipt:
        """Applies a plan as one batch; planned again if another writer edited the page meanwhile."""
        with self.guard:
            for _ in range(PLAN_TRIES_MAX):
                receipt = self._applied(job)
                if receipt is not None:
                    return receipt
            return Receipt(reason="the page was edited by another writer meanwhile; try again")

    def _applied(self, job: compaction.Job) -> Receipt | None:
        state = self.log.state
        before, fresh = state.view(), partial(_untouched, list(state.undoable), set(state.pins))
        plan, after = compaction.drawn_up(state, job)
        sizes = {"before": plan.current, "after": plan.after}
        if not plan.proposals:
            self.notices.add("compaction-skipped", reason=plan.reason, **sizes)
            return Receipt(reason=plan.reason, steps=plan.steps, tokens_before=plan.current, tokens_after=plan.after)
        drafts = [self.desk.draft(p.edit, p.tokens, by=plan.strategy) for p in plan.proposals]
        if not self.log.append(drafts, fresh=fresh):
            return None
        self.log.keep_bookmark()
        receipt = compaction.receipt_of(plan, before, after, job.batch)
        self.notices.rearm()
        self.notices.add("compaction-complete", receipt=receipt, strategy=receipt.strategy, **sizes)
        return receipt

    def relieve(self) -> None:
        """Compacts by itself if that is due."""
        with self.guard:
            state, budget = self.log.state, self.budget()
            due = compaction.due(state, budget)
            if due == "no" or not self.config.auto or self.settled_at == state.head:
                return
            if due != "yes":
                self.notices.once(due, "compaction-skipped", reason=due)
            elif self._reachable(state, budget):
                current = current_tokens(state, budget.factor)
                self.notices.add("auto-compacting", percent=budget.percent(current), tokens=current, max=budget.window)
                self.compact(self.job())
            self.settled_at = self.log.state.head

    def _reachable(self, state: Fold, budget: Budget) -> bool:
        """Whether a compaction can help. Where the fixed part alone is over the trigger it is said once, and only a
        page over the hard limit is still cut."""
        fixed = round(compaction.fixed_tokens(state.view()) * budget.factor)
        if fixed < budget.compact_at:
            return True
        self.notices.once("unreachable", "budget-unreachable", tokens=fixed, max=budget.compact_at, reason=UNREACHABLE)
        return current_tokens(state, budget.factor) > budget.input_max

    def watch(self) -> None:
        """Says once that the page is getting full."""
        budget = self.budget()
        self.notices.watch(current_tokens(self.log.state, budget.factor), budget)

    def _task(self) -> str:
        slot = self.log.state.slot_at(self.log.state.request)
        texts = [block.text for block in slot.message.blocks if isinstance(block, Text)] if slot else []
        return "\n".join(texts)[:TASK_CHARS_MAX]

    def _count(self, message: Message) -> int:
        return count_message(message, self.desk.counter)


def _untouched(undoable: list[tuple[int, str]], pins: set[int], state: Fold) -> bool:
    """Whether a plan still fits: what other writers appended did not edit the page."""
    return state.undoable == undoable and state.pins == pins
