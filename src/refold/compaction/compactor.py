"""Carries plans out: draws one up, appends its edits as one batch, and decides when to do so by
itself.

Automatic compaction runs in `request` only, never in `append`. It acts at the trigger, aims well
below it, does not act twice without enough new tokens, sleeps after an undo, and says so once when
the page cannot be made to fit. With a writer, the lock is let go while it is asked; what was
appended meanwhile stays, and a page that was edited meanwhile is planned again. Neighbours:
`compaction` has the arithmetic, `wording` and `asking` the writer, `log` takes the edits, `notices`
tells.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.intake import Desk
from refold.compaction import planning as compaction
from refold.compaction import prose as wording
from refold.compaction.hooks import Flight, Hooks
from refold.core.budget import Budget, current_tokens
from refold.core.fold import Fold
from refold.core.model import Message, Text, View
from refold.core.plan import Plan, Receipt
from refold.log.log import Log
from refold.log.notices import Guard, Notices
from refold.redaction import redactor
from refold.strategies.registry import check_settings, check_tables
from refold.tokens.counter import count_message
from refold.writer import asker as asking

PLAN_TRIES_MAX = 3
TASK_CHARS_MAX = 4_000
UNREACHABLE = "system, tools, pins and the latest request alone are over the trigger"
IN_FLIGHT = "another compaction is in flight"
RECENTLY = "compacted-recently"
EDITED = "the page was edited by another writer meanwhile; try again"


class _Drawn(Struct, frozen=True, kw_only=True):
    """A plan, the pages before and after it, and what must not have changed when it is carried
    out."""

    plan: Plan
    before: View
    after: View
    fresh: Callable[[Fold], bool]
    redacted: bool = False  # then the page that it leaves is a little smaller


class Compactor:
    """`budget` and `per_token` are asked anew for every plan: the model may have changed."""

    def __init__(
        self,
        log: Log,
        desk: Desk,
        notices: Notices,
        guard: Guard,
        *,
        budget: Callable[[], Budget],
        per_token: Callable[[], float | None],
        writer: asking.Writer | None = None,
    ) -> None:
        self.log, self.desk, self.notices, self.guard = log, desk, notices, guard
        self.config = desk.config
        check_tables(self.config.strategy)
        self.budget, self.per_token = budget, per_token
        self.redact = redactor(self.config.redact, "summaries")
        self.asker = (
            asking.Asker(writer, count=desk.counter, redact=self.redact) if writer else None
        )
        self.hooks, self.flight = Hooks(), Flight()
        self.scratch: dict[str, Any] = {}
        self.settled_at = -1  # the head at which there was nothing more to do
        self.done_at = -1  # the head that the last compaction left
        self.watched: tuple[int, Budget] | None = None

    def job(
        self,
        ladder: Sequence[str] = (),
        *,
        target: int | None = None,
        task: str = "",
        settings: dict[str, Any] | None = None,
        instructions: str = "",
    ) -> compaction.Job:
        """What a plan is to be drawn up from. Without names, the configured ladder."""
        check_settings(settings or {}, ladder or self.config.ladder)
        return compaction.Job(
            budget=self.budget(),
            config=self.config,
            count=self._count,
            originals=self.log.originals,
            ages=self.log.ages,
            batch=secrets.token_hex(8),
            ladder=ladder or self.config.ladder,
            task=task or self._task(),
            target=target,
            settings=settings or {},
            per_token=self.per_token(),
            scratch=self.scratch,
            instructions=instructions,
        )

    def plan(self, job: compaction.Job) -> Plan:
        with self.guard:
            return self._drawn(job).plan

    def compact(self, job: compaction.Job) -> Receipt:
        """Applies a plan as one batch. While another compaction is in flight, that one is waited
        for instead."""
        with self.flight.boarded(self.config.writer_wait_s) as boarded:
            if boarded == "first":
                return self._compacted(job)
        with self.guard:
            self.notices.add("compaction-skipped", reason=IN_FLIGHT)
        return Receipt(reason=IN_FLIGHT)

    def _compacted(self, job: compaction.Job, *, auto: bool = False) -> Receipt:
        if not auto and self._just_done(job):
            return Receipt(reason=RECENTLY)
        instructions, veto = self._asked_hooks(job)
        if veto is not None:
            return veto
        return self._told(self._carried_out(replace(job, instructions=instructions), auto=auto))

    def _just_done(self, job: compaction.Job) -> bool:
        """Whether the usual is asked for a second time with nothing new: that would only lose
        more."""
        with self.guard:
            state = self.log.state
            usual = (
                job.target is None
                and job.ladder == self.config.ladder
                and not (job.settings or job.instructions)
            )
            full = current_tokens(state, job.budget.factor) >= job.budget.compact_at
            if not usual or full or not compaction.nothing_new(state):
                return False
            self.notices.add("compaction-skipped", reason=RECENTLY)
            return True

    def compact_now(self, job: compaction.Job) -> Receipt:
        """Applies a plan without a writer, a veto or waiting, for a page that was refused. A
        compaction in flight finds the page edited, and plans again."""
        with self.guard:
            tries = (self._applied(self._drawn(job), job) for _ in range(PLAN_TRIES_MAX))
            receipt = next(
                (receipt for receipt in tries if receipt is not None), Receipt(reason=EDITED)
            )
        return self._told(receipt)

    def _told(self, receipt: Receipt) -> Receipt:
        """The receipt, after the hooks were given it."""
        failures = self.hooks.after(receipt) if receipt.batch else ()
        with self.guard:
            for failure in failures:
                self.notices.add("hook-failed", reason=failure)
        return receipt

    def _asked_hooks(self, job: compaction.Job) -> tuple[str, Receipt | None]:
        """The instructions with those that hooks add, and the receipt if one of them vetoes.
        Asked only if there is something to do, with no lock held: a hook may append and store."""
        plan = self.plan(job) if self.hooks.befores else None
        if plan is None or not plan.proposals:
            return job.instructions, None
        said = self.hooks.before(plan)
        with self.guard:
            for failure in said.failures:
                self.notices.add("hook-failed", reason=failure)
            if said.veto is not None:
                reason = f"hook: {said.veto.reason}" if said.veto.reason else "hook"
                return "", self._skipped(
                    replace(plan, reason=reason, tokens_after=plan.tokens_before)
                )
        return "\n".join(text for text in (job.instructions, said.instructions) if text), None

    # --- one compaction ---

    def _carried_out(self, job: compaction.Job, *, auto: bool) -> Receipt:
        """Planned again if another writer edited the page meanwhile; all waiting together is
        bounded."""
        deadline = time.monotonic() + self.config.writer_wait_s
        for _ in range(PLAN_TRIES_MAX):
            with self.guard:
                drawn = self._drawn(job)
                questions = self._questions(drawn, job, auto=auto)
                receipt = None if questions else self._applied(drawn, job)
            if questions and self.asker:
                outcomes = self.asker.answers(questions, max(0.0, deadline - time.monotonic()))
                with self.guard:
                    receipt = self._worded(drawn, job, outcomes, questions)
            if receipt is not None:
                return receipt
        return Receipt(reason=EDITED)

    def _drawn(self, job: compaction.Job) -> _Drawn:
        state = self.log.state
        before = state.view()
        plan, after = compaction.drawn_up(state, job)
        clean = wording.without_secrets(plan, self.redact, job.count)
        fresh = partial(_untouched, list(state.undoable), set(state.pins), clean)
        return _Drawn(
            plan=clean, before=before, after=after, fresh=fresh, redacted=clean is not plan
        )

    def _questions(
        self, drawn: _Drawn, job: compaction.Job, *, auto: bool
    ) -> list[asking.Question]:
        """What the writer is asked for this plan; nothing without one, and nothing by itself
        while it rests."""
        if self.asker is None or self.config.writer_wait_s <= 0 or (auto and self.asker.resting):
            return []
        return wording.questions_of(drawn.plan, drawn.before, job)

    def _worded(
        self,
        drawn: _Drawn,
        job: compaction.Job,
        outcomes: Sequence[asking.Outcome],
        questions: Sequence[asking.Question],
    ) -> Receipt | None:
        """Carries the plan out in the writer's words where they were accepted, and says where
        they were not."""
        self.log.catch_up()
        if not drawn.fresh(self.log.state):
            return None
        bill, failed = (
            asking.bill(outcomes),
            [outcome.reason for outcome in outcomes if outcome.reason],
        )
        if failed:
            reason = "; ".join(dict.fromkeys(failed))
            self.notices.add(
                "compaction-failed", reason=reason, strategy=drawn.plan.strategy, details=bill
            )
        edits = {
            id(question.ask.draft): outcome.edit
            for question, outcome in zip(questions, outcomes, strict=True)
        }
        plan = wording.reworded(drawn.plan, edits, job.count)
        return self._applied(replace(drawn, plan=plan, before=self.log.state.view()), job, bill)

    def _applied(
        self, drawn: _Drawn, job: compaction.Job, bill: dict[str, Any] | None = None
    ) -> Receipt | None:
        plan = drawn.plan
        for step in plan.steps:
            if step.note:
                self.notices.add("compaction-failed", reason=step.note, strategy=step.strategy)
        if not plan.proposals:
            return self._skipped(plan)
        drafts = [self.desk.draft(p.edit, p.tokens, by=plan.strategy) for p in plan.proposals]
        if not self.log.append(drafts, fresh=drawn.fresh):
            return None
        self.log.keep_bookmark()
        self.done_at, after = self.log.state.head, drawn.after
        if plan.asks or bill or drawn.redacted:
            after = self.log.state.view()
            plan = compaction.measured(plan, drawn.before, after, job)
        receipt = compaction.receipt_of(plan, drawn.before, after, job.batch)
        self.notices.rearm()
        sizes = {"before": plan.tokens_before, "after": plan.tokens_after}
        self.notices.add(
            "compaction-complete",
            receipt=receipt,
            strategy=receipt.strategy,
            details=bill or {},
            **sizes,
        )
        return receipt

    def _skipped(self, plan: Plan) -> Receipt:
        self.done_at = self.log.state.head
        before, after = plan.tokens_before, plan.tokens_after
        self.notices.add("compaction-skipped", reason=plan.reason, before=before, after=after)
        return Receipt(
            reason=plan.reason,
            steps=plan.steps,
            tokens_before=before,
            tokens_after=after,
            target=plan.target,
        )

    # --- by itself ---

    def relieve(self) -> None:
        """Compacts by itself if that is due. Who comes while another does so waits for it, and
        looks again."""
        with self.flight.boarded(self.config.writer_wait_s) as boarded:
            job = self._begun() if boarded else None
            if job is not None:
                self._compacted(job, auto=True)
                # Not the head as it is now: another thread may have undone the compaction already.
                self.settled_at = self.done_at

    def is_due(self) -> bool:
        """Whether there is something to do, or to say, before the next request."""
        return self._due() != "no"

    def _due(self) -> str:
        state = self.log.state
        if not self.config.auto or self.settled_at == state.head:
            return "no"
        return compaction.due(state, self.budget(), self.config)

    def _begun(self) -> compaction.Job | None:
        """What is to be done now, announced; None, and why, if nothing is."""
        with self.guard:
            state, budget, due = self.log.state, self.budget(), self._due()
            if due == "yes" and self._reachable(state, budget):
                current = current_tokens(state, budget.factor)
                job = self.job(
                    ()
                    if current >= budget.compact_at
                    else compaction.early(state, budget, self.config)
                )
                self.notices.add(
                    "auto-compacting",
                    percent=budget.percent(current),
                    tokens=current,
                    max=budget.window,
                    strategy="+".join(job.ladder),
                )
                return job
            if due not in ("yes", "no"):
                self.notices.once(due, "compaction-skipped", reason=due)
            self.settled_at = state.head
            return None

    def _reachable(self, state: Fold, budget: Budget) -> bool:
        """Whether a compaction can help. Where the fixed part alone is over the trigger it is
        said once, and only a page over the hard limit is still cut; where that part is over the
        limit too, one over the window."""
        fixed = round(compaction.fixed_tokens(state.view()) * budget.factor)
        if fixed < budget.compact_at:
            return True
        self.notices.once(
            "unreachable",
            "budget-unreachable",
            tokens=fixed,
            max=budget.compact_at,
            reason=UNREACHABLE,
        )
        return current_tokens(state, budget.factor) > (
            budget.input_max if fixed < budget.input_max else budget.window
        )

    def watch(self) -> None:
        """Says once that the page is getting full. Cheap where nothing came since the last time."""
        budget, head = self.budget(), self.log.state.head
        if self.watched != (head, budget):
            self.watched = (head, budget)
            self.notices.watch(current_tokens(self.log.state, budget.factor), budget)

    def _task(self) -> str:
        slot = self.log.state.slot_at(self.log.state.request)
        texts = (
            [block.text for block in slot.message.blocks if isinstance(block, Text)] if slot else []
        )
        return "\n".join(texts)[:TASK_CHARS_MAX]

    def _count(self, message: Message) -> int:
        return count_message(message, self.desk.counter)


def _untouched(undoable: list[tuple[int, str]], pins: set[int], plan: Plan, state: Fold) -> bool:
    """Whether a plan still fits: what came since did not edit the page, nor answer a call that
    the plan takes away."""
    return state.undoable == undoable and state.pins == pins and compaction.still_fits(plan, state)
