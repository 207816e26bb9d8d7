"""Native compaction: a summary written by the provider, which becomes an edit like any other.

The provider is called with no lock held, with the page as it is sent, up to the cut. Its answer is
added to our own summary of the same span, so every reader has text to show, and undo restores the
originals. After any failure (a refusal, a timeout, an answer longer than the messages) the page is
unchanged and the rest of the ladder runs. `PreparedPlan` and `Prepared` are plans that wait for a
writer or for later turns; they are void once the page is edited. Neighbours: `strategies.native`
chooses the cut, `dialects.native` knows the wire, `compactor` asks and applies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from refold import dialects
from refold.compaction.active_model import ActiveModel
from refold.core.fold import Fold
from refold.core.model import NATIVE, Native, Span, Summarize, Usage, View
from refold.core.plan import Plan, Proposal, Receipt
from refold.core.shortened import summary_text
from refold.dialects.native import NativeWire, Written, native_wire
from refold.dialects.page import Page
from refold.display import failure
from refold.log.draft import Draft
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.strategies.brief import text_tokens
from refold.writer.answer_check import Rejected
from refold.writer.asker import timed

if TYPE_CHECKING:
    from refold.compaction.planning import Job
    from refold.writer.asker import Outcome, Question

WAIT_S = 120.0  # for the provider's answer
REST_S = 300.0  # pause of automatic calls after a failure
EDITED = "another writer has edited the page"
NO_CALLER = "there is no way to call the provider: pass native= when opening the conversation"


class PreparedPlan(Struct, frozen=True, kw_only=True):
    """A plan, the pages before and after it, and a check that it still fits (`fresh`). `measured`
    is False if its numbers must be taken again after applying it; `beside` are drafts to append
    with it."""

    plan: Plan
    before: View
    after: View
    fresh: Callable[[Fold], bool]
    measured: bool = True
    beside: Sequence[Draft] = ()


class Prepared(Struct, frozen=True, kw_only=True):
    """A plan drawn up ahead of time, with the writer's answers."""

    drawn: PreparedPlan
    job: Job
    questions: Sequence[Question] = ()
    outcomes: Sequence[Outcome] = ()

    def serves(self, job: Job, state: Fold, current: int) -> bool:
        """Whether it fits the job and the current page, and saves enough. The factor of the budget
        changes with every reply and does not count."""
        mine, budget = self.job, replace(self.job.budget, factor=job.budget.factor)
        is_same = (mine.ladder, mine.target, budget) == (job.ladder, job.target, job.budget)
        left = current - self.drawn.plan.saved_tokens
        return is_same and left < job.budget.warn_at and self.drawn.fresh(state)


def unedited(state: Fold, plan: Plan) -> Callable[[Fold], bool]:
    """The check whether a plan for this page still fits a later one: no edit since, and no answer
    to a call that the plan removes."""
    undoable, pins = list(state.undoable), set(state.pins)

    def fits(later: Fold) -> bool:
        from refold.compaction import planning

        is_same = later.undoable == undoable and later.pins == pins
        return is_same and planning.still_fits(plan, later)

    return fits


class NativeRequest(Struct, frozen=True, kw_only=True):
    """The request to a native caller: keyword arguments of the call that compacts the messages of
    the span (`client.beta.messages.create` of Anthropic, `client.responses.compact` of OpenAI).
    Must return within `wait_s` seconds."""

    dialect: str
    model: str
    call: dict[str, Any]
    span: Span
    wait_s: float


# Returns the provider's response, as an SDK object or plain JSON.
NativeCaller = Callable[[NativeRequest], Any]
DrawUp = Callable[["Job"], PreparedPlan]
Apply = Callable[[PreparedPlan, "Job"], Receipt | None]


class Provider:
    """Calls the provider of the active model."""

    def __init__(self, log: OpenLog, model: ActiveModel, caller: NativeCaller | None) -> None:
        self._log, self._model, self._caller = log, model, caller
        self._rests_until = 0.0

    def compact(self, job: Job, draw_up: DrawUp, apply: Apply, *, auto: bool) -> Receipt:
        """The receipt of a native compaction; after a failure one without a batch, and a notice
        with the reason."""
        job = replace(job, ladder=(NATIVE,), purpose=NATIVE)
        try:
            self._check(auto=auto)
            drawn = self._drawn(job, draw_up)
            with self._log.guard:
                receipt = apply(drawn, job)
            if receipt is None:
                raise Rejected(EDITED)
            return receipt
        except Rejected as error:
            return Receipt(reason=self._report(error, job))

    def prepare(self, job: Job, draw_up: DrawUp) -> PreparedPlan | None:
        """A plan with a native summary, to apply later; after a failure None, and a notice with the
        reason."""
        if time.monotonic() < self._rests_until:
            return None
        job = replace(job, ladder=(NATIVE,), purpose=NATIVE)
        try:
            self._check(auto=True)
            return self._drawn(job, draw_up)
        except Rejected as error:
            self._report(error, job)
            return None

    @property
    def is_offered(self) -> bool:
        """Whether the provider can be called and supports compaction for this model."""
        try:
            self._check(auto=False)
        except Rejected:
            return False
        return True

    def _report(self, error: Rejected, job: Job) -> str:
        with self._log.guard:
            reason = job.redact(str(error))
            notice = Notice(name="compaction-failed", reason=reason, strategy=NATIVE)
            self._log.notices.add(notice)
        return reason

    def _check(self, *, auto: bool) -> None:
        """Raises Rejected if the provider must not be called now."""
        dialect, model = self._dialect, self._model.info.name
        wire = native_wire(dialect)
        if self._caller is None:
            raise Rejected(NO_CALLER)
        if wire is None:
            raise Rejected(f"{dialect} offers no compaction")
        if not wire.compacts(model):
            raise Rejected(f"{model} writes no compactions")
        if auto and time.monotonic() < self._rests_until:
            raise Rejected("the provider failed a moment ago")

    @property
    def _dialect(self) -> str:
        """The format of the next call: the configured one, or the last reply's."""
        if self._log.config.dialect:
            return self._model.dialect()
        replies = (
            slot.message.dialect
            for slot in reversed(self._log.state.slots)
            if slot.message.role == "assistant" and slot.message.dialect in dialects.DIALECTS
        )
        return next(replies, "") or self._model.dialect()

    def _drawn(self, job: Job, draw_up: DrawUp) -> PreparedPlan:
        """The plan with the native summary; appends the usage of the call."""
        with self._log.guard:
            drawn = draw_up(job)
            request = self._request(drawn, job)
        written = self._written(request)
        with self._log.guard:
            self._log.catch_up()
            if not drawn.fresh(self._log.state):
                raise Rejected(EDITED)
            plan = _with_written(drawn.plan, request, written, job)
            view = self._log.state.view()
            billed = self._billed(drawn.before, request, written.usage)
            self._log.append([Draft(body=usage, by="model") for usage in billed])
            return replace(drawn, plan=plan, before=view, measured=False)

    def _request(self, drawn: PreparedPlan, job: Job) -> NativeRequest:
        """The request for a plan of one summary. Raises Rejected for a plan without one."""
        plan = drawn.plan
        if not plan.proposals:
            raise Rejected(plan.reason or "the provider would accept no cut of the page")
        if plan.tokens_after >= job.budget.input_max:
            raise Rejected("the part that would stay is too large on its own")
        span, dialect = _summary_edit(plan).span, self._dialect
        usual = self._model.request(dialect, drawn.before)
        prefix = _upto(self._model.page(dialect), drawn.before, span.last)
        if "messages" in usual:
            # Later messages may change how earlier ones are rendered: cut the page as it is sent,
            # do not render its beginning alone.
            usual["messages"] = usual["messages"][: len(prefix)]
        else:
            usual["input"] = prefix
        return NativeRequest(
            dialect=dialect,
            model=self._model.info.name,
            call=_wire(dialect).call(usual),
            span=span,
            wait_s=WAIT_S,
        )

    def _written(self, request: NativeRequest) -> Written:
        """The provider's answer. Raises Rejected if no usable one came in time."""
        caller = self._caller
        assert caller is not None
        self._rests_until = time.monotonic() + REST_S
        try:
            response = timed(partial(caller, request), request.wait_s)
            written = _wire(request.dialect).written(response)
        except Rejected:
            raise
        except Exception as error:  # the caller is foreign code, and the provider may refuse
            raise Rejected(failure(error)) from error
        self._rests_until = 0.0
        return written

    def _billed(self, view: View, request: NativeRequest, usage: Usage | None) -> list[Usage]:
        """The usage of the call in the form written to the log, with our own count of its
        messages."""
        if usage is None:
            return []
        beyond = sum(slot.tokens for slot in view.slots if slot.seq > request.span.last)
        upto = view.anchor.upto if view.anchor is not None else request.span.last
        cost = self._model.cost(replace(usage, model=usage.model or request.model))
        return [replace(usage, upto=upto, cost=cost, counted=view.tokens - beyond)]


def _wire(dialect: str) -> NativeWire:
    wire = native_wire(dialect)
    assert wire is not None
    return wire


def _summary_edit(plan: Plan) -> Summarize:
    [proposal] = plan.proposals
    assert isinstance(proposal.edit, Summarize)
    return proposal.edit


def _upto(page: Page, view: View, last: int) -> list[Any]:
    """The rendered messages of the page up to a seq, without the user message that is added after a
    trailing answer."""
    slots = tuple(slot for slot in view.slots if slot.last <= last)
    request = page.render(replace(view, slots=slots)).request
    messages: list[Any] = request.get("messages") or request["input"]
    is_answer = slots[-1].message.role == "assistant"
    return messages[:-1] if is_answer and messages[-1].get("role") == "user" else messages


def _with_written(plan: Plan, request: NativeRequest, written: Written, job: Job) -> Plan:
    """The plan with the native summary added. Raises Rejected if it saves nothing, or contains a
    secret: it cannot be redacted, because it must go back unaltered."""
    draft = _summary_edit(plan)
    if job.redact(written.text) != written.text:
        raise Rejected("the provider's summary contains an apparent secret")
    native = Native(dialect=request.dialect, model=request.model, messages=written.messages)
    if written.sealed_tokens:
        # The provider reports only the size of sealed messages.
        spoken = dialects.dialect(native.dialect)
        unsealed = [wire for wire in native.messages if wire.get("type") != "compaction"]
        messages = [message for wire in unsealed for message in spoken.parse(wire)]
        tokens = written.sealed_tokens + sum(map(job.count, messages))
    else:
        tokens = text_tokens(job.count, written.text)
    tokens = max(tokens, text_tokens(job.count, summary_text(draft)))
    [item] = plan.items
    if tokens >= item.tokens_before:
        raise Rejected(f"the provider's summary has {tokens:,} tokens: no fewer than the messages")
    return replace(plan, proposals=(Proposal(replace(draft, native=native), tokens),))
