"""A compaction that the provider writes: its caller is asked with no lock held, and what comes back
is an edit like any other.

The request is the page as it is sent, up to the cut; what the provider wrote goes into the summary
that code made of the same span, so every reader has a text, and undo brings the originals back.
Whatever goes wrong (the provider refuses, is silent, writes more than it read) leaves the page as
it is, and the rest of the ladder has its turn. Neighbours: `strategies.native` chooses the cut,
`dialects.native` knows the wire, `compactor` asks and applies.

A plan between the moment at which it is drawn up and the one at which it is carried out.

Meanwhile a writer works, for seconds, or the caller goes on for turns (`Prepared`). What was
appended since stays on the page; a plan whose page was edited since is of no use. Neighbours:
`planning` draws plans up, `compactor` carries them out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold import dialects
from refold.compaction import planning
from refold.compaction.active_model import ActiveModel
from refold.compaction.planning import Job
from refold.core.budget import Budget
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
from refold.strategies.brief import Count, text_tokens
from refold.writer.accept import Rejected
from refold.writer.asker import Outcome, Question, timed


class PreparedPlan(Struct, frozen=True, kw_only=True):
    """A plan, the pages before and after it, and what must not have changed when it is carried
    out. `measured` is False where the page that it leaves is another than `after`; `beside` is
    what is written with it."""

    plan: Plan
    before: View
    after: View
    fresh: Callable[[Fold], bool]
    measured: bool = True
    beside: Sequence[Draft] = ()


class Prepared(Struct, frozen=True, kw_only=True):
    """A plan that was drawn up ahead, and what a writer said to it."""

    drawn: PreparedPlan
    job: Job
    questions: Sequence[Question] = ()
    outcomes: Sequence[Outcome] = ()

    def serves(self, job: Job, state: Fold, current: int) -> bool:
        """Whether it does what the job asks for, for the page as it is now, and is enough."""
        alike = _limits(self.job) == _limits(job)
        left = current - self.drawn.plan.saved_tokens
        return alike and left < job.budget.warn_at and self.drawn.fresh(state)


def _limits(job: Job) -> tuple[Sequence[str], int | None, Budget]:
    """What must be the same of two jobs; the factor of the budget moves with every reply."""
    return job.ladder, job.target, replace(job.budget, factor=1.0)


def unedited(state: Fold, plan: Plan) -> Callable[[Fold], bool]:
    """Whether a plan for this page still fits a later one."""
    return partial(_untouched, list(state.undoable), set(state.pins), plan)


def _untouched(undoable: list[tuple[int, str]], pins: set[int], plan: Plan, state: Fold) -> bool:
    """Whether what came since did not edit the page, nor answer a call that the plan takes
    away."""
    same = state.undoable == undoable and state.pins == pins
    return same and planning.still_fits(plan, state)


REST_S = 300.0  # a provider that failed is not asked automatically for so long
EDITED = "another writer has edited the page"
NO_CALLER = "nothing calls the provider: pass native= where the conversation is opened"


class NativeRequest(Struct, frozen=True, kw_only=True):
    """What the caller of a provider is asked: the keyword arguments of the call that compacts
    (`client.beta.messages.create` of Anthropic, `client.responses.compact` of OpenAI), for the
    messages of the span. It has `wait_s` seconds."""

    dialect: str
    model: str
    call: dict[str, Any]
    span: Span
    wait_s: float


# Gives the provider's response, an SDK's object or plain JSON.
NativeCaller = Callable[[NativeRequest], Any]
DrawUp = Callable[[Job], PreparedPlan]
Apply = Callable[[PreparedPlan, Job], Receipt | None]


class Provider:
    """Asks the provider of the active model, by its caller."""

    def __init__(self, log: OpenLog, model: ActiveModel, caller: NativeCaller | None) -> None:
        self._log, self._model, self._caller = log, model, caller
        self._rests_until = 0.0

    def compact(self, job: Job, draw_up: DrawUp, apply: Apply, *, auto: bool) -> Receipt:
        """The receipt of what the provider wrote; one without a batch, and a notice that says why,
        if nothing came of it."""
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
        """A plan with what the provider wrote, to be carried out later; None, and a notice that
        says why, if nothing came of it."""
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
        """Whether there is a provider to ask, and it writes compactions for this model."""
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
        """Rejected if the provider is not to be asked now."""
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
        """The format that the conversation goes on in: as configured, or that of the last reply."""
        if self._log.config.dialect:
            return self._model.dialect()
        replies = (
            slot.message.dialect
            for slot in reversed(self._log.state.slots)
            if slot.message.role == "assistant" and slot.message.dialect in dialects.DIALECTS
        )
        return next(replies, "") or self._model.dialect()

    def _drawn(self, job: Job, draw_up: DrawUp) -> PreparedPlan:
        """The plan with what the provider wrote, which is written down as spent."""
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
            self._log.append([Draft(body=one, by="model") for one in billed])
            return replace(drawn, plan=plan, before=view, measured=False)

    def _request(self, drawn: PreparedPlan, job: Job) -> NativeRequest:
        """What the caller is asked for a plan of one summary. Rejected where there is none."""
        plan = drawn.plan
        if not plan.proposals:
            raise Rejected(plan.reason or "the provider would accept no cut of the page")
        if plan.tokens_after >= job.budget.input_max:
            raise Rejected("what would stay is too large on its own")
        span, dialect = _draft(plan).span, self._dialect
        usual = self._model.request(dialect, drawn.before)
        prefix = _upto(self._model.page(dialect), drawn.before, span.last)
        if "messages" in usual:
            # How a message is said may follow from those behind it: as they are sent, not as these
            # alone would be.
            usual["messages"] = usual["messages"][: len(prefix)]
        else:
            usual["input"] = prefix
        return NativeRequest(
            dialect=dialect,
            model=self._model.info.name,
            call=_wire(dialect).call(usual),
            span=span,
            wait_s=job.config.native_wait_s,
        )

    def _written(self, request: NativeRequest) -> Written:
        """What the provider wrote. Rejected, with the reason, if nothing of use came in time."""
        caller = self._caller
        assert caller is not None
        self._rests_until = time.monotonic() + REST_S
        try:
            response = timed(partial(caller, request), request.wait_s)
            written = _wire(request.dialect).written(response)
        except Rejected:
            raise
        except Exception as error:  # a caller is anybody's code, and a provider may refuse
            raise Rejected(failure(error)) from error
        self._rests_until = 0.0
        return written

    def _billed(self, view: View, request: NativeRequest, usage: Usage | None) -> list[Usage]:
        """What the call took, as it is written down: its size belongs to our own count of what it
        showed."""
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


def _draft(plan: Plan) -> Summarize:
    [proposal] = plan.proposals
    assert isinstance(proposal.edit, Summarize)
    return proposal.edit


def _upto(page: Page, view: View, last: int) -> list[Any]:
    """The messages of the page up to one of the log, without what is put behind an answer so that a
    user speaks last."""
    slots = tuple(slot for slot in view.slots if slot.last <= last)
    request = page.render(replace(view, slots=slots)).request
    messages: list[Any] = request.get("messages") or request["input"]
    is_answer = slots[-1].message.role == "assistant"
    return messages[:-1] if is_answer and messages[-1].get("role") == "user" else messages


def _with_written(plan: Plan, request: NativeRequest, written: Written, job: Job) -> Plan:
    """The plan with what the provider wrote in its summary. Rejected if that is no gain, or holds a
    secret: it cannot be taken out of what must go back unaltered."""
    draft = _draft(plan)
    if job.redact(written.text) != written.text:
        raise Rejected("what the provider wrote contains what looks like a secret")
    native = Native(dialect=request.dialect, model=request.model, messages=written.messages)
    text = text_tokens(job.count, summary_text(draft))
    tokens = max(_tokens(native, written, job.count), text)
    [item] = plan.items
    if tokens >= item.tokens_before:
        raise Rejected(f"what the provider wrote has {tokens:,} tokens: no fewer than the messages")
    return replace(plan, proposals=(Proposal(replace(draft, native=native), tokens),))


def _tokens(native: Native, written: Written, count: Count) -> int:
    """What the provider's messages take on the page; of a sealed one, what the provider said."""
    if not written.sealed_tokens:
        return text_tokens(count, written.text)
    spoken = dialects.dialect(native.dialect)
    open_ones = [one for one in native.messages if one.get("type") != "compaction"]
    messages = [message for one in open_ones for message in spoken.parse(one)]
    return written.sealed_tokens + sum(map(count, messages))
