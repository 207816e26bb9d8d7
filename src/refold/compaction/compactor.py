"""Compaction itself: draws up a plan, appends its edits as one batch, decides when to act
automatically, and announces the result by notices.

Automatic compaction happens in `request` only, never in `append`. No lock is held while hooks and
the writer work: events appended meanwhile stay, and a page edited meanwhile is planned again. A
hook may add instructions for the writer, store memories, or veto; one that raises an error is
reported and blocks nothing. Neighbours: `planning` and `trigger` have the arithmetic,
`summary_text` and `writer` the wording.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import shown
from refold.compaction import trigger
from refold.compaction.active_model import ActiveModel
from refold.compaction.native import NativeCaller, Prepared, PreparedPlan, Provider, unedited
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
from refold.strategies.protected_messages import untouched_tokens, with_tail
from refold.strategies.registry import check_tables
from refold.writer import asker
from refold.writer.asker import Asker, Outcome, Question, Writer

if TYPE_CHECKING:
    from refold.compaction.planning import Job, Jobs

PLAN_TRIES_MAX = 3
BEFORE_COMPACTION = "before-compaction"  # the name under which hooks are registered
UNREACHABLE = "system, tools, pins and the latest request alone are over the trigger"
IN_FLIGHT = "another compaction is running"
RECENTLY = (
    "compacted recently, and nothing was added since; name a target or a strategy to continue"
)
EDITED = "another writer has edited the page; try again"


class Compactor:
    """Shortens the page of one open log. `hooks` are asked first."""

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
        self._provider = Provider(log, model, native)
        self._single = SingleRun()
        self.hooks: list[Hook] = []
        # Head and budget at which a plan had nothing to do: the same plan is not drawn up again.
        self._settled_at: tuple[int, Budget] | None = None
        self._skipped_at = -1  # head of the last plan that did nothing
        self._prepared: Prepared | None = None

    def hook(self, hook: Hook) -> Callable[[], None]:
        """Asks the hook before every compaction; returns a function that removes it."""
        if not callable(hook):
            raise Invalid(
                f"{shown(hook)} cannot be called", hint="pass a function that takes one plan"
            )
        self.hooks.append(hook)

        def off() -> None:
            if hook in self.hooks:
                self.hooks.remove(hook)

        return off

    @cached_property
    def jobs(self) -> Jobs:
        """Creates the jobs. The strategies are imported for the first one."""
        from refold.compaction.planning import Jobs

        return Jobs(self._log, self._model, self._redact, has_writer=lambda: self.asker is not None)

    @property
    def _config(self) -> Config:
        """The settings for the current model."""
        return self._log.config

    # --- by hand ---

    def plan(self, job: Job) -> Plan:
        """The plan for the job. Changes nothing."""
        with self._log.guard:
            return self._draw_up(job).plan

    def compact(self, job: Job, expect: int | None = None) -> Receipt:
        """Applies a plan as one batch, if the log is at the head `expect` (None: any). Waits
        instead while another compaction is running."""
        job = replace(job, expect=expect)
        with self._single.claim(self._config.writer_wait_s) as claim:
            if claim == "first":
                if self._is_repeat(job):
                    return self._skip_with(RECENTLY)
                return self._run(job)
        return self._skip_with(IN_FLIGHT)

    def compact_at_once(self, job: Job) -> Receipt:
        """Applies a plan without a writer, a veto or waiting, for a refused page. A compaction in
        flight finds the page edited, and plans again."""
        with self._log.guard:
            for _ in range(PLAN_TRIES_MAX):
                receipt = self._apply(self._draw_up(job), job)
                if receipt is not None:
                    return receipt
        return Receipt(reason=EDITED)

    def take_over(
        self, span: Span, text: str, by: str, beside: Sequence[Draft] = (), head: int = 0
    ) -> Receipt:
        """Applies an external compaction as one batch, together with the drafts `beside` it;
        writes nothing if the log has grown beyond `head`."""
        from refold.compaction.planning import adopted

        with self._log.reading() as state:
            if head and state.head != head:
                return Receipt(reason=EDITED)
            job = replace(self.jobs.job(), purpose=ADOPTED)
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
        """Hides the messages of a span, as one batch."""
        job = replace(self.jobs.job(), span=span, purpose=BY_HAND)
        return self.compact_at_once(job)

    def _is_repeat(self, job: Job) -> bool:
        """Whether this repeats the default compaction with nothing new, which would only lose
        more."""
        with self._log.guard:
            is_default = job.target is None and job.ladder == self._config.ladder
            if not is_default or job.settings or job.instructions:
                return False
            is_full = self._model.current >= job.budget.compact_at
            return not is_full and trigger.is_unchanged(self._log.state)

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
        """The instructions, extended by hooks, and a receipt if a hook vetoes. Asks only if there
        is something to do, with no lock held: a hook may append and store."""
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
        """Runs the job, and plans again if another writer edited the page meanwhile; the total
        wait is bounded."""
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
        from refold.compaction import planning, summary_text

        self._log.check_expected(job.expect)
        state = self._log.state
        before = state.view()
        plan, after = planning.drawn_up(state, job)
        clean = summary_text.without_secrets(plan, job.redact, job.count)
        fresh, measured = self._fresh(state, clean), clean is plan
        if job.expect is not None:
            fresh = partial(_is_at, job.expect)
        return PreparedPlan(plan=clean, before=before, after=after, fresh=fresh, measured=measured)

    def _fresh(self, state: Fold, plan: Plan) -> Fresh:
        """The check whether a plan for this page still fits a later page of the same log."""
        id, is_unedited = self._log.id, unedited(state, plan)
        return lambda later: self._log.id == id and is_unedited(later)

    def _questions(self, drawn: PreparedPlan, job: Job, *, auto: bool) -> list[Question]:
        """Questions to the writer for this plan; none without a writer, nor automatically while it
        rests."""
        from refold.compaction import summary_text

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
        """Applies the plan with the writer's accepted texts, and reports rejected ones."""
        from refold.compaction import summary_text

        self._log.catch_up()
        if not drawn.fresh(self._log.state):
            return None
        bill = asker.bill(outcomes) if outcomes else {}
        report_rejections(self._log, outcomes, drawn.plan.strategy, bill)
        pairs = zip(questions, outcomes, strict=True)
        edits = {id(question.ask.draft): outcome.edit for question, outcome in pairs}
        plan = summary_text.reworded(drawn.plan, edits, job.count)
        drawn = replace(drawn, plan=plan, before=self._log.state.view())
        return self._apply(drawn, job, bill)

    def _apply(
        self, drawn: PreparedPlan, job: Job, bill: dict[str, Any] | None = None
    ) -> Receipt | None:
        """Appends the edits as one batch; None if they no longer fit."""
        from refold.compaction import planning

        self._log.check_expected(job.expect)
        plan = drawn.plan
        for step in plan.steps:
            if step.note:
                notice = Notice(name="compaction-failed", reason=step.note, strategy=step.strategy)
                self._log.notices.add(notice)
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
        announce_completion(self._log, receipt, bill or {})
        return receipt

    def _drafts(self, plan: Plan, job: Job) -> list[Draft]:
        """The edits of a plan; the first carries their purpose and the lesson of a refusal."""
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
        """Compacts automatically. A caller that finds another compaction running waits for it,
        then checks again."""
        with self._single.claim(self._config.writer_wait_s) as claim:
            job = None if claim == "busy" else self._next_job()
            if job is not None:
                receipt = self._apply_prepared(job) or self._run(job, auto=True)
                if not receipt.batch and receipt.reason != EDITED:
                    # Not the current head, because other writers may have written since.
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
        """The next job; None if it is far away, or prepared already."""
        with self._log.reading() as state:
            current, job = self._model.current, self.jobs.job()
            if self._prepared is not None and self._prepared.serves(job, state, current):
                return None
            self._prepared = None
            is_near = self._config.auto and current >= job.budget.warn_at
            return job if is_near else None

    def _prepare(self, job: Job) -> Prepared | None:
        if NATIVE in job.ladder and self._provider.is_offered:
            # On failure, no other plan is prepared: it would be applied before the provider's.
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
        """Applies the prepared plan; None if there is none, or it no longer fits the job."""
        with self._log.guard:
            ahead, self._prepared = self._prepared, None
            self._log.catch_up()
            if ahead is None or not ahead.serves(job, self._log.state, self._model.current):
                return None
            job = replace(job, batch=ahead.job.batch, purpose=ahead.job.purpose)
            return self._apply_with_prose(ahead.drawn, job, ahead.outcomes, ahead.questions)

    def make_room(self) -> str:
        """Hides the oldest messages of a page that an undo made too large; returns the batch, empty
        if none was needed."""
        with self._log.guard:
            if self._due() != "room":
                return ""
            return self.compact_at_once(self._announced_job("room", self._model.budget)).batch

    def is_due(self) -> bool:
        """Whether there is something to do or to announce before the next request."""
        return self._due() != "no"

    def reconsider(self) -> None:
        """Makes the next check start over, because the limits have changed."""
        self._settled_at = None

    def move(self) -> None:
        """Starts over for another log."""
        self._settled_at, self._skipped_at, self._prepared = None, -1, None
        vars(self).pop("jobs", None)

    def _due(self) -> trigger.Due:
        state, config, load = self._log.state, self._log.config, self._model.load
        if not config.auto or self._settled_at == (state.head, load.budget):
            return "no"
        return trigger.due(state, load, config, self._model.moment())

    def _next_job(self) -> Job | None:
        """The job that is due now, announced; None, and a notice with the reason, if none is."""
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
        jobs = self.jobs
        job = jobs.room_job(budget) if due == "room" else jobs.due_job(budget)
        current = self._model.current
        notice = Notice(
            name="auto-compacting",
            percent=job.budget.percent(current),
            tokens=current,
            max=job.budget.window,
            strategy="+".join(job.ladder),
        )
        self._log.notices.add(notice)
        return job

    def _can_help(self, budget: Budget) -> bool:
        """Whether a compaction can help. A fixed part over the trigger is announced once; then
        only a page over the hard limit is still cut, if its uncuttable part is below it."""
        page = with_tail(self._log.state.view(), self._log.config.keep_recent or 0)
        fixed = round(untouched_tokens(page) * budget.factor)
        if fixed < budget.compact_at:
            return True
        notice = Notice(
            name="budget-unreachable", tokens=fixed, max=budget.compact_at, reason=UNREACHABLE
        )
        self._log.notices.add_once("unreachable", notice)
        from refold.compaction import planning

        uncut = round(planning.uncut_tokens(self._log.state.view()) * budget.factor)
        return self._model.current > budget.input_max > uncut


def _is_at(head: int, state: Fold) -> bool:
    return state.head == head


class Veto(Struct, frozen=True):
    """A hook's answer if the compaction must not happen now."""

    reason: str = ""


Hook = Callable[[Plan], "str | Veto | None"]


class HookAnswers(Struct, frozen=True, kw_only=True):
    """The combined answers of all hooks."""

    instructions: str = ""
    veto: Veto | None = None
    failures: tuple[str, ...] = ()


def ask_hooks(hooks: list[Hook], plan: Plan) -> HookAnswers:
    """Asks the hooks in order, up to the first veto."""
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
            failures.append(f"it returned {type(answer).__name__}, not text or a Veto")
    instructions = "\n".join(text for text in extra if text)
    return HookAnswers(instructions=instructions, failures=tuple(failures))


Claim = Literal["first", "after another", "busy"]


class SingleRun:
    """Allows one compaction at a time. A second caller waits for the first, unless both are the
    same thread: a hook that requests a page must not wait for itself."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0

    @contextmanager
    def claim(self, wait_s: float) -> Iterator[Claim]:
        """`first` if none was running, `after another` after waiting for one, `busy` if one is
        still running."""
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


def report_rejections(
    log: OpenLog, outcomes: Sequence[Outcome], strategy: str, bill: dict[str, Any]
) -> None:
    """Reports why the writer's texts were rejected."""
    given = (reason for outcome in outcomes for reason in (outcome.reason, outcome.unchecked))
    reasons = dict.fromkeys(filter(None, given))
    if reasons:
        reason = "; ".join(reasons)
        log.notices.add(
            Notice(name="compaction-failed", reason=reason, strategy=strategy, details=bill)
        )


def announce_completion(log: OpenLog, receipt: Receipt, bill: dict[str, Any]) -> None:
    """Announces the receipt, and rearms the warning of a full page."""
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
