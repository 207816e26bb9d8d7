"""Carries plans out: draws one up, appends its edits as one batch, and decides when to do so
automatically.

Automatic compaction happens in `request` only, never in `append`. It acts at the trigger, aims well
below it, does not act twice without enough new tokens, pauses after an undo, and says so once when
the page cannot be made to fit. With a writer, the lock is released while it is asked; what was
appended meanwhile stays, and a page that was edited meanwhile is planned again. Neighbours: `jobs`
says what is to be done, `planning` and `trigger` have the arithmetic, `prose` and `writer` the
words.

What a caller may do before a compaction: add instructions for the writer, store memories, or
veto.

Hooks are called with no lock held, once per compaction that has something to do. One that raises is
reported by a notice and blocks nothing. What happens after a compaction is told by the notice
`compaction-complete`, which carries the receipt. Neighbours: `compactor` calls them.

What a compaction tells those who listen: that it begins, what failed, what it did.

Notices are queued while the lock of the log is held, and told once it is released. Neighbours:
`compactor` calls these, `log.notices` has the notices.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import shown
from refold.compaction import planning, summary_text, trigger
from refold.compaction.active_model import ActiveModel
from refold.compaction.native import NativeCaller, Prepared, PreparedPlan, Provider, unedited
from refold.compaction.planning import Job, Jobs, adopted
from refold.config import Config
from refold.core.budget import Budget
from refold.core.fold import Fold
from refold.core.model import ADOPTED, BY_HAND, NATIVE, Span
from refold.core.plan import Plan, Proposal, Receipt
from refold.display import failure
from refold.errors import Invalid
from refold.log.draft import Draft
from refold.log.log import Fresh
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.redaction import redactor
from refold.strategies.brief import untouched_tokens
from refold.strategies.registry import check_tables
from refold.writer import asker
from refold.writer.asker import Asker, Outcome, Question, Writer

PLAN_TRIES_MAX = 3
BEFORE_COMPACTION = "before-compaction"  # the name under which hooks are registered
UNREACHABLE = "system, tools, pins and the latest request alone are over the trigger"
IN_FLIGHT = "another compaction is running"
RECENTLY = "compacted recently, and nothing came since; name a target or a strategy to go on"
EDITED = "another writer has edited the page; try again"


class Compactor:
    """Makes the page of one open log shorter. `hooks` are asked before it does."""

    def __init__(
        self,
        log: OpenLog,
        model: ActiveModel,
        writer: Writer | None = None,
        native: NativeCaller | None = None,
    ) -> None:
        check_tables(log.config.strategy)
        self._log, self._model = log, model
        self._redact = redactor(self._config.redact, "summaries")
        self.asker = Asker(writer, count=log.counter, redact=self._redact) if writer else None
        self._jobs = Jobs(log, model, self._redact, has_writer=lambda: self.asker is not None)
        self.job = self._jobs.job
        self._provider = Provider(log, model, native)
        self._single = SingleRun()
        self.hooks: list[Hook] = []
        # Where a plan had nothing to do, the same plan is not drawn up again: head and budget.
        self._settled_at: tuple[int, Budget] | None = None
        self._skipped_at = -1  # the head at which a plan last did nothing
        self._prepared: Prepared | None = None

    def hook(self, hook: Hook) -> Callable[[], None]:
        """Asks the hook before every compaction; gives the function that ends it."""
        if not callable(hook):
            raise Invalid(f"{shown(hook)} cannot be called", hint="give a function of one plan")
        self.hooks.append(hook)

        def off() -> None:
            if hook in self.hooks:
                self.hooks.remove(hook)

        return off

    @property
    def _config(self) -> Config:
        """The settings for the model that reads the page now."""
        return self._log.config

    # --- by hand ---

    def plan(self, job: Job) -> Plan:
        """What the job would do. Changes nothing."""
        with self._log.guard:
            return self._draw_up(job).plan

    def compact(self, job: Job) -> Receipt:
        """Applies a plan as one batch. While another compaction is running, that one is waited
        for instead."""
        with self._single.claim(self._config.writer_wait_s) as claim:
            if claim == "first":
                if self._is_repeat(job):
                    return self._skip_with(RECENTLY)
                return self._run(job)
        return self._skip_with(IN_FLIGHT)

    def compact_at_once(self, job: Job) -> Receipt:
        """Applies a plan without a writer, a veto or waiting, for a page that was refused. A
        compaction in flight finds the page edited, and plans again."""
        with self._log.guard:
            for _ in range(PLAN_TRIES_MAX):
                receipt = self._apply(self._draw_up(job), job)
                if receipt is not None:
                    return receipt
        return Receipt(reason=EDITED)

    def take_over(
        self, span: Span, text: str, by: str, beside: Sequence[Draft] = (), head: int = 0
    ) -> Receipt:
        """Applies a compaction that was made elsewhere, as one batch, and writes what goes with
        it `beside` it; nothing of both if the log has grown beyond `head`."""
        with self._log.reading() as state:
            if head and state.head != head:
                return Receipt(reason=EDITED)
            job = replace(self.job(), purpose=ADOPTED)
            plan = adopted(state, job, span, self._redact(text), by)
            before = state.view()
            drawn = PreparedPlan(
                plan=replace(plan, target=self._model.current),
                before=before,
                after=before,
                fresh=(lambda _: False) if head else self._fresh(state, plan),
                measured=False,
                beside=beside,
            )
            return self._apply(drawn, job) or Receipt(reason=EDITED)

    def hide(self, span: Span) -> Receipt:
        """Takes the messages of a span off the page, as one batch."""
        job = replace(self.job(), span=span, purpose=BY_HAND)
        return self.compact_at_once(job)

    def _is_repeat(self, job: Job) -> bool:
        """Whether the usual is asked for a second time with nothing new: that would only lose
        more."""
        with self._log.guard:
            by_default = job.target is None and job.ladder == self._config.ladder
            usual = by_default and not (job.settings or job.instructions)
            full = self._model.current >= job.budget.compact_at
            return usual and not full and trigger.is_unchanged(self._log.state)

    def _skip_with(self, reason: str) -> Receipt:
        with self._log.guard:
            self._log.notify("compaction-skipped", reason)
        return Receipt(reason=reason)

    # --- one compaction ---

    def _run(self, job: Job, *, auto: bool = False) -> Receipt:
        instructions, veto = self._ask_hooks(job)
        if veto is not None:
            return veto
        return self._carry_out(replace(job, instructions=instructions), auto=auto)

    def _ask_hooks(self, job: Job) -> tuple[str, Receipt | None]:
        """The instructions with those that hooks add, and the receipt if one of them vetoes.
        Asked only if there is something to do, with no lock held: a hook may append and store."""
        plan = self.plan(job) if self.hooks else None
        if plan is None or not plan.proposals:
            return job.instructions, None
        answers = ask_hooks(self.hooks, plan)
        with self._log.guard:
            for failure in answers.failures:
                self._log.notify("hook-failed", failure)
            if answers.veto is not None:
                reason = f"hook: {answers.veto.reason}" if answers.veto.reason else "hook"
                return "", self._skip(replace(plan, reason=reason, tokens_after=plan.tokens_before))
        return "\n".join(text for text in (job.instructions, answers.instructions) if text), None

    def _carry_out(self, job: Job, *, auto: bool) -> Receipt:
        """Planned again if another writer edited the page meanwhile; all waiting together is
        bounded."""
        if NATIVE in job.ladder:
            written = self._provider.compact(job, self._draw_up, self._apply, auto=auto)
            rest = tuple(name for name in job.ladder if name != NATIVE)
            if written.batch or not rest:
                return written
            job = replace(job, ladder=rest)
        deadline = time.monotonic() + self._config.writer_wait_s
        for _ in range(PLAN_TRIES_MAX):
            receipt = self._try(job, deadline, auto=auto)
            if receipt is not None:
                return receipt
        return Receipt(reason=EDITED)

    def _try(self, job: Job, deadline: float, *, auto: bool) -> Receipt | None:
        """One attempt: None if the page was edited while the writer was asked."""
        with self._log.guard:
            drawn = self._draw_up(job)
            questions = self._questions(drawn, job, auto=auto)
            if not questions or self.asker is None:
                return self._apply(drawn, job)
        outcomes = self.asker.answers(questions, max(0.0, deadline - time.monotonic()))
        with self._log.guard:
            return self._apply_with_prose(drawn, job, outcomes, questions)

    def _draw_up(self, job: Job) -> PreparedPlan:
        state = self._log.state
        before = state.view()
        plan, after = planning.drawn_up(state, job)
        clean = summary_text.without_secrets(plan, job.redact, job.count)
        fresh, measured = self._fresh(state, clean), clean is plan
        return PreparedPlan(plan=clean, before=before, after=after, fresh=fresh, measured=measured)

    def _fresh(self, state: Fold, plan: Plan) -> Fresh:
        """Whether a plan for this page still fits a later one, of the same log."""
        id, is_unedited = self._log.id, unedited(state, plan)
        return lambda later: self._log.id == id and is_unedited(later)

    def _questions(self, drawn: PreparedPlan, job: Job, *, auto: bool) -> list[Question]:
        """What the writer is asked for this plan; nothing without one, and nothing automatically
        while it rests."""
        if self.asker is None or self._config.writer_wait_s <= 0:
            return []
        if auto and self.asker.resting:
            return []
        return summary_text.questions_of(drawn.plan, drawn.before, job)

    def _apply_with_prose(
        self,
        drawn: PreparedPlan,
        job: Job,
        outcomes: Sequence[Outcome],
        questions: Sequence[Question],
    ) -> Receipt | None:
        """Applies the plan in the writer's words where they were accepted, and says where they
        were not."""
        self._log.catch_up()
        if not drawn.fresh(self._log.state):
            return None
        bill = asker.bill(outcomes) if outcomes else {}
        rejections(self._log, outcomes, drawn.plan.strategy, bill)
        pairs = zip(questions, outcomes, strict=True)
        edits = {id(question.ask.draft): outcome.edit for question, outcome in pairs}
        plan = summary_text.reworded(drawn.plan, edits, job.count)
        drawn = replace(drawn, plan=plan, before=self._log.state.view())
        return self._apply(drawn, job, bill)

    def _apply(
        self, drawn: PreparedPlan, job: Job, bill: dict[str, Any] | None = None
    ) -> Receipt | None:
        """Appends the edits as one batch; None if they no longer fit."""
        plan = drawn.plan
        failed_steps(self._log, plan)
        if not plan.proposals:
            return self._skip(plan)
        if not self._log.append([*self._drafts(plan, job), *drawn.beside], fresh=drawn.fresh):
            return None
        self._log.log.keep_bookmark()
        after = drawn.after
        if plan.asks or bill or not drawn.measured:
            after = self._log.state.view()
            plan = planning.measured(plan, drawn.before, after, job)
        receipt = planning.receipt_of(plan, drawn.before, after, job.batch)
        self._model.watch_again()
        complete(self._log, receipt, bill or {})
        return receipt

    def _drafts(self, plan: Plan, job: Job) -> list[Draft]:
        """The edits of a plan; the first says what they are for, and what a refusal taught."""
        first, *others = plan.proposals
        edit = replace(first.edit, lesson=job.lesson, purpose=job.purpose)
        proposals = [Proposal(edit, first.tokens), *others]
        return [self._log.draft(p.edit, p.tokens, plan.strategy) for p in proposals]

    def _skip(self, plan: Plan) -> Receipt:
        """The receipt of a plan that does nothing."""
        self._skipped_at = self._log.state.head
        before, after = plan.tokens_before, plan.tokens_after
        self._log.notices.add(
            Notice(name="compaction-skipped", reason=plan.reason, before=before, after=after)
        )
        return Receipt(
            reason=plan.reason,
            steps=plan.steps,
            tokens_before=before,
            tokens_after=after,
            target=plan.target,
        )

    # --- automatically ---

    def compact_if_due(self) -> None:
        """Compacts automatically. Whoever comes while another does so waits for it, and looks
        again."""
        with self._single.claim(self._config.writer_wait_s) as claim:
            job = None if claim == "busy" else self._next_job()
            if job is not None:
                receipt = self._apply_prepared(job) or self._run(job, auto=True)
                if not receipt.batch and receipt.reason != EDITED:
                    # Not the head as it is now: others may have written since.
                    self._settled_at = self._skipped_at, job.budget

    # --- ahead ---

    def prepare(self) -> Plan:
        """Draws up the next plan and asks the writer, from the warning level on; an empty plan
        below it. No lock on the log is held while hooks and writer work."""
        with self._single.claim(0.0) as claim:
            job = self._job_ahead() if claim == "first" else None
            if job is not None:
                instructions, veto = self._ask_hooks(job)
                job = replace(job, instructions=instructions)
                self._prepared = self._prepare(job) if veto is None else None
            if self._prepared is not None:
                return self._prepared.drawn.plan
        return Plan(head=self._log.sums.head, reason="nothing to prepare")

    def _job_ahead(self) -> Job | None:
        """What will be due; None if that is far away, or prepared already."""
        with self._log.reading() as state:
            current, job = self._model.current, self.job()
            if self._prepared is not None and self._prepared.serves(job, state, current):
                return None
            self._prepared = None
            is_near = self._config.auto and current >= job.budget.warn_at
            return job if is_near else None

    def _prepare(self, job: Job) -> Prepared | None:
        if NATIVE in job.ladder and self._provider.is_offered:
            # Nothing of ours is prepared in its place: it would come before the provider's.
            written = self._provider.prepare(job, self._draw_up)
            job = replace(job, purpose=NATIVE)
            return None if written is None else Prepared(drawn=written, job=job)
        if job.purpose == NATIVE:
            return None
        with self._log.guard:
            drawn = replace(self._draw_up(job), measured=False)
            questions = self._questions(drawn, job, auto=True)
        if not drawn.plan.proposals:
            return None
        if not questions or self.asker is None:
            return Prepared(drawn=drawn, job=job)
        outcomes = self.asker.answers(questions, self._config.writer_wait_s)
        return Prepared(drawn=drawn, job=job, questions=questions, outcomes=outcomes)

    def _apply_prepared(self, job: Job) -> Receipt | None:
        """Carries out what was prepared; None if there is nothing, or it no longer serves."""
        with self._log.guard:
            ahead, self._prepared = self._prepared, None
            self._log.catch_up()
            if ahead is None or not ahead.serves(job, self._log.state, self._model.current):
                return None
            job = replace(job, batch=ahead.job.batch, purpose=ahead.job.purpose)
            return self._apply_with_prose(ahead.drawn, job, ahead.outcomes, ahead.questions)

    def make_room(self) -> str:
        """Takes the oldest off a page that an undo made too large; gives the batch, if that was
        needed."""
        with self._log.guard:
            if self._due() != "room":
                return ""
            return self.compact_at_once(self._announced_job("room", self._model.budget)).batch

    def is_due(self) -> bool:
        """Whether there is something to do, or to say, before the next request."""
        return self._due() != "no"

    def reconsider(self) -> None:
        """Looks at the page again: what was enough for other limits may be too little for
        these."""
        self._settled_at = None

    def move(self) -> None:
        """The log is another one now: what was found out or prepared was for the other."""
        self._settled_at, self._skipped_at, self._prepared = None, -1, None
        self._jobs.move()

    def _due(self) -> trigger.Due:
        state, budget = self._log.state, self._model.budget
        if not self._config.auto or self._settled_at == (state.head, budget):
            return "no"
        return trigger.due(state, budget, self._config, self._model.moment())

    def _next_job(self) -> Job | None:
        """What is to be done now, announced; None, and why, if nothing is."""
        with self._log.guard:
            due, budget = self._due(), self._model.budget
            if due in ("yes", "room") and self._can_help(budget):
                return self._announced_job(due, budget)
            if due in trigger.REASONS:
                reason = trigger.REASONS[due]
                notice = Notice(name="compaction-skipped", reason=reason)
                self._log.notices.add_once(reason, notice)
            self._settled_at = self._log.state.head, budget
            return None

    def _announced_job(self, due: trigger.Due, budget: Budget) -> Job:
        jobs = self._jobs
        job = jobs.room_job(budget) if due == "room" else jobs.due_job(budget)
        begun(self._log, job, self._model.current)
        return job

    def _can_help(self, budget: Budget) -> bool:
        """Whether a compaction can help. Where the fixed part alone is over the trigger it is
        said once, and only a page over the hard limit is still cut, unless what can never be cut
        is over it."""
        fixed = round(untouched_tokens(self._log.state.view()) * budget.factor)
        if fixed < budget.compact_at:
            return True
        notice = Notice(
            name="budget-unreachable", tokens=fixed, max=budget.compact_at, reason=UNREACHABLE
        )
        self._log.notices.add_once("unreachable", notice)
        uncut = round(planning.uncut_tokens(self._log.state.view()) * budget.factor)
        return self._model.current > budget.input_max > uncut


class Veto(Struct, frozen=True):
    """What a hook gives back if the compaction must not happen now."""

    reason: str = ""


Hook = Callable[[Plan], "str | Veto | None"]


class HookAnswers(Struct, frozen=True, kw_only=True):
    """What all hooks answered together."""

    instructions: str = ""
    veto: Veto | None = None
    failures: tuple[str, ...] = ()


def ask_hooks(hooks: list[Hook], plan: Plan) -> HookAnswers:
    """Asks every hook, in the order in which they were added. A veto ends it."""
    extra: list[str] = []
    failures: list[str] = []
    for hook in list(hooks):
        try:
            answer = hook(plan)
        except Exception as error:  # noqa: BLE001 - a hook is the caller's code
            failures.append(failure(error))
            continue
        if isinstance(answer, Veto):
            veto = answer if isinstance(answer.reason, str) else Veto()
            return HookAnswers(veto=veto, failures=tuple(failures))
        if isinstance(answer, str):
            extra.append(answer.encode("utf-8", "replace").decode().strip())
        elif answer is not None:
            failures.append(f"it gave {type(answer).__name__}, not text or a Veto")
    instructions = "\n".join(text for text in extra if text)
    return HookAnswers(instructions=instructions, failures=tuple(failures))


Claim = Literal["first", "after another", "busy"]


class SingleRun:
    """At most one compaction at a time. Whoever comes second waits for the first, unless it *is*
    the first: a hook that asks for a page must not wait for itself."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0

    @contextmanager
    def claim(self, wait_s: float) -> Iterator[Claim]:
        """`first` if nobody was at it, `after another` after waiting for one, `busy` if one is
        still going on."""
        me = threading.get_ident()
        if self._owner == me:
            yield "busy"
            return
        free = self._lock.acquire(blocking=False)
        if not free and not self._lock.acquire(timeout=max(0.0, wait_s)):
            yield "busy"
            return
        self._owner = me
        try:
            yield "first" if free else "after another"
        finally:
            self._owner = 0
            self._lock.release()


def begun(log: OpenLog, job: Job, current: int) -> None:
    """An automatic compaction of a page of this size begins."""
    notice = Notice(
        name="auto-compacting",
        percent=job.budget.percent(current),
        tokens=current,
        max=job.budget.window,
        strategy="+".join(job.ladder),
    )
    log.notices.add(notice)


def rejections(
    log: OpenLog, outcomes: Sequence[Outcome], strategy: str, bill: dict[str, Any]
) -> None:
    """Why words of the writer were not taken."""
    told = (reason for outcome in outcomes for reason in (outcome.reason, outcome.unchecked))
    reasons = dict.fromkeys(filter(None, told))
    if reasons:
        reason = "; ".join(reasons)
        log.notices.add(
            Notice(name="compaction-failed", reason=reason, strategy=strategy, details=bill)
        )


def failed_steps(log: OpenLog, plan: Plan) -> None:
    """Which strategies failed, and why."""
    for step in plan.steps:
        if step.note:
            log.notices.add(
                Notice(name="compaction-failed", reason=step.note, strategy=step.strategy)
            )


def complete(log: OpenLog, receipt: Receipt, bill: dict[str, Any]) -> None:
    """What was done. From here on a page that gets full is worth a word again."""
    log.notices.rearm()
    notice = Notice(
        name="compaction-complete",
        reason=receipt.reason,
        receipt=receipt,
        strategy=receipt.strategy,
        before=receipt.tokens_before,
        after=receipt.tokens_after,
        details=bill,
    )
    log.notices.add(notice)
