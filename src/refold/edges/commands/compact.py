"""`refold compact`: the page made shorter by hand, planned or done.

A writer is used only on request: by its URL, or by `configured` for the one in the settings. Its
key is read only from the environment. `--set` passes a setting to a strategy, as
`context.compact("hide", preset="half")` does.

With `--condense`, the agent's own summary replaces the conversation once a person accepts it. The
summary is the newest message, so a preview writes nothing: `--accept` leaves the first and the last
pair on the page, text goes to the model as feedback. A chat asks its model for the summary first
(`edges.chat.slash`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from refold import decoding
from refold.checked import quoted
from refold.core.laws import calls_of
from refold.core.model import Hide, Summarize, View
from refold.core.plan import Item, Plan, Price, Receipt, Step
from refold.display import number, one_line
from refold.edges.commands.command import (
    FORMAT,
    TEXT,
    DryRun,
    Result,
    Screen,
    Window,
    command,
    short_line,
    show_undo,
)
from refold.edges.commands.server import permit_writer
from refold.edges.commands.session import Session
from refold.edges.displays.overview import compaction_box
from refold.edges.displays.panel import comparison_lines
from refold.edges.displays.phrases import coherence, short_and_exact
from refold.edges.endpoints.writer import Endpoint, configured
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.handles import body_text
from refold.log.notices import Notice
from refold.settings.sources import value_of
from refold.strategies.registry import BUILT_IN, check_settings
from refold.tokens.models import dollars

ITEMS_SHOWN = 20
SUMMARY_CHARS = 80
REASON_CHARS = 100
CONFIGURED = "configured"
OWN_OPTIONS = ("target", "task", "instructions")
NO_SUMMARY = "there is no summary to accept: the newest message is not text from the assistant"
FEEDBACK_TEXT = "This is what I say about the summary; write it again with that:\n\n"
_TARGET = re.compile(r"([0-9]{1,15})(%?)")


INSTRUCTIONS = Meta(
    description="What the writer should pay attention to; without a writer, what the page should "
    "keep; with --condense, what is wrong with the summary.",
    extra=TEXT,
)
STRATEGY = Meta(
    description="By default, the configured ladder; may be repeated.",
    extra={"metavar": "NAME", "completes": "strategy"},
)
TARGET = Meta(
    description="The size to reach: tokens, or a share of the window such as 50%.",
    extra={"metavar": "SIZE"},
)
TASK = Meta(
    description="What the agent works on, for relevance; by default the latest request.",
)
SETTINGS = Meta(
    description="A setting of the strategies, such as max_tokens=4000 or preset=half. "
    "May be repeated.",
    extra={"metavar": "NAME=VALUE"},
)
WRITER = Meta(
    description="The model that writes summaries, by its URL; without a URL, the one in the "
    "settings.",
    extra={"metavar": "URL", "bare": CONFIGURED},
)
CONDENSE = Meta(description="Replace most of the page by the agent's own summary.")
ACCEPT = Meta(description="With --condense: take all but the first pair and the last one away.")


@command(
    "compact",
    details="Nothing is lost: refold undo takes it back. With --condense, the summary is the "
    "newest message, if the assistant wrote it; without --accept or feedback, it shows the "
    "result first.",
)
def compact(
    session: Session,
    *,
    instructions: Annotated[str, INSTRUCTIONS] = "",
    strategy: Annotated[tuple[str, ...], STRATEGY] = (),
    target: Annotated[str, TARGET] | None = None,
    task: Annotated[str, TASK] = "",
    set_: Annotated[tuple[str, ...], SETTINGS] = (),
    dry_run: DryRun = False,
    writer: Annotated[str, WRITER] | None = None,
    condense: Annotated[bool, CONDENSE] = False,
    accept: Annotated[bool, ACCEPT] = False,
    window: Window | None = None,
    format: Annotated[Literal["text", "box"], FORMAT] = "text",
) -> Planned | Compacted | Condensing:
    if condense or accept:
        return condensed(session, instructions.strip(), accept=accept)
    settings = dict(map(_setting, set_))
    if dry_run:
        with session.context(window=window) as context:
            size = _size(target, context)
            more = _checked(settings, strategy, size, context)
            plan = context.plan(*strategy, target=size, task=task or instructions, **more)
            return Planned(
                **_shared_fields(context, plan),
                dry_run=True,
                edits=len(plan.proposals),
                removed=_removed(context.view, plan),
                window=context.budget.window,
            )
    endpoint = None if writer is None else _endpoint(session, writer)
    notices: list[Notice] = []
    has_writer = endpoint is not None or session.has_writer
    with session.context(window=window, writer=endpoint, writes=True) as context:
        size = _size(target, context)
        more = _checked(settings, strategy, size, context)
        stop = context.on("*", notices.append)
        try:
            receipt = context.compact(
                *strategy,
                target=size,
                # Without a writer, the instructions are the task that the page should serve.
                task=task or ("" if has_writer else instructions),
                instructions=instructions if has_writer else "",
                **more,
            )
        finally:
            stop()
        use = _use(notices) if has_writer else UNSET
        return _compacted(context, receipt, use, is_box=format == "box")


def _size(target: str | None, context: Context) -> int | None:
    """The target in tokens."""
    if target is None:
        return None
    found = _TARGET.fullmatch(target.strip())
    if found is None:
        reason = f"--target {quoted(target, 40)} is not a size"
        raise Invalid(reason, hint="pass tokens, such as 60000, or a share such as 50%")
    if found[2] and int(found[1]) > 100:
        reason = f"--target {target.strip()} is more than the window"
        raise Invalid(reason, hint="pass a share from 0% to 100%, or tokens")
    return int(found[1]) * context.budget.window // 100 if found[2] else int(found[1])


def _checked(
    settings: dict[str, Any], strategies: Sequence[str], size: int | None, context: Context
) -> dict[str, Any]:
    """The settings, with the target for a named strategy that has a size of its own. Raises Invalid
    for an unknown setting."""
    check_settings(settings, strategies or context.config.ladder)
    known = [BUILT_IN[name][1] for name in strategies if name in BUILT_IN]
    if size is not None and any("max_tokens" in names for names in known):
        return {"max_tokens": size, **settings}
    return settings


def _setting(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        hint = "pass it as NAME=VALUE, such as --set max_tokens=4000"
        raise Invalid(f"--set {text!r} is not a setting", hint=hint)
    if name in OWN_OPTIONS:
        raise Invalid(f"--set {name} has an option of its own", hint=f"pass --{name}")
    return name, value_of(value)


def _endpoint(session: Session, url: str) -> Endpoint:
    """The writer at this address, or the configured one."""
    if url == CONFIGURED:
        permit_writer(session)
    writer = configured() if url == CONFIGURED else configured(url=url)
    if writer is None:
        hint = "pass --writer URL, or name one in the table [writer] of refold.toml"
        raise Invalid("no writer is named", hint=hint)
    return writer


def _use(notices: Sequence[Notice]) -> WriterUse:
    """The writer's usage, according to the notices."""
    bill: dict[str, Any] = {}
    for notice in notices:
        if notice.name == "compaction-complete" and notice.details:
            bill = notice.details
    refused = tuple(notice.reason for notice in notices if notice.name == "compaction-failed")
    return decoding.convert({**bill, "refused": refused}, WriterUse)


# --- results ---


class WriterUse(Struct, frozen=True, kw_only=True):
    """The use of the writer: summaries requested and accepted, calls, tokens in and out, and the
    reasons for refusals."""

    asked: int = 0
    accepted: int = 0
    calls: int = 0
    input: int = 0
    output: int = 0
    refused: tuple[str, ...] = ()


class Compaction(Result, frozen=True, kw_only=True):
    """The effect of a compaction, done or planned. `reason` explains why it did nothing, or did not
    come near its target."""

    conversation: str
    dry_run: bool
    strategy: str
    reason: str
    items: tuple[Item, ...]
    steps: tuple[Step, ...]
    price: Price
    tokens_before: int
    tokens_after: int
    target: int
    reached: bool


class Planned(Compaction, frozen=True, kw_only=True):
    """`edits` counts the planned edits, `removed` the messages that would leave the page."""

    edits: int
    removed: int
    window: int

    def show(self, screen: Screen) -> None:
        if not self.edits:
            screen.line(f"Nothing would be done: {self.reason}.")
            return
        target = f", target {self.target:,}" if self.target else ""
        sizes = f"{self.tokens_before:,} -> {number(self.tokens_after, 'token')}{target}"
        screen.line(
            ("bold", f"Plan by {short_line(self.strategy, 200)}"),
            f": {sizes}. Nothing was changed.",
        )
        if self.removed:
            saved = number(self.tokens_before - self.tokens_after, "token")
            screen.line(f"Would hide: {number(self.removed, 'message')}, {saved}")
        _show_bars(self, self.window, screen)
        _show_items(self, screen)
        if not self.reached:
            missed = f"The target of {number(self.target, 'token')} would not be reached"
            screen.line(("yellow", f"{missed}: {self.reason}."))
        elif self.reason:
            screen.line(f"Would keep {self.reason}.")


class Compacted(Compaction, frozen=True, kw_only=True):
    """`batch` can be reverted; empty if nothing was done. `removed` counts the messages that left
    the page, `summary` is the newest summary of such messages; `active` of all `messages` are on
    the page now."""

    batch: str
    removed: int
    summary: str
    slots_before: int
    slots_after: int
    window: int
    active: int
    messages: int
    summaries: int
    pins: int
    writer: WriterUse | UnsetType = UNSET
    box: bool | UnsetType = UNSET

    def show(self, screen: Screen) -> None:
        if self.batch and self.box is True:
            for line in compaction_box(self.active, self.messages, self.summaries, screen.columns):
                screen.line(line)
            show_undo(self.conversation, screen)
        else:
            self._show_receipt(screen)

    def _show_receipt(self, screen: Screen) -> None:
        if not self.batch:
            screen.line(f"Nothing was done: {self.reason}.")
            return
        tokens = f"{self.tokens_before:,} -> {number(self.tokens_after, 'token')}"
        slots = f"{self.slots_before:,} -> {number(self.slots_after, 'slot')}"
        screen.line(
            ("bold", f"Compacted by {short_line(self.strategy, 200)}"), f": {tokens}, {slots}."
        )
        _show_bars(self, self.window, screen)
        _show_items(self, screen)
        _show_effect(self, screen)
        if self.writer is not UNSET:
            _show_writer(self.writer, screen)
        lists = screen.call("history", self.conversation)
        screen.line(f"Batch {self.batch}; {lists} lists all.")
        show_undo(self.conversation, screen)


def _compacted(
    context: Context, receipt: Receipt, use: WriterUse | UnsetType, *, is_box: bool
) -> Compacted:
    stats = context.stats()
    return Compacted(
        **_shared_fields(context, receipt),
        dry_run=False,
        batch=receipt.batch,
        removed=receipt.messages_hidden,
        summary=receipt.summary,
        slots_before=receipt.messages_before,
        slots_after=receipt.messages_after,
        window=stats.window,
        active=stats.active,
        messages=stats.messages,
        summaries=stats.summaries,
        pins=stats.pins,
        writer=use,
        box=is_box or UNSET,
    )


def _removed(view: View, plan: Plan) -> int:
    """The number of messages that would leave the page."""
    edits = [proposal.edit for proposal in plan.proposals]
    spans = [edit.span for edit in edits if isinstance(edit, Hide | Summarize)]
    messages = [slot.seq for slot in view.slots if not slot.standin]
    return sum(any(span.first <= seq <= span.last for span in spans) for seq in messages)


def _shared_fields(context: Context, done: Plan | Receipt) -> dict[str, Any]:
    """The fields that a plan and a receipt share."""
    return {
        "conversation": context.id,
        "strategy": done.strategy,
        "reason": done.reason,
        "items": done.items,
        "steps": done.steps,
        "price": done.price,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "target": done.target,
        "reached": done.reached,
    }


def _show_bars(done: Compaction, window: int, screen: Screen) -> None:
    """Draws the window before and after, if the screen can."""
    if screen.draws:
        for parts in comparison_lines(
            done.tokens_before, done.tokens_after, window, screen.columns
        ):
            screen.line(*parts)


def _show_effect(done: Compacted, screen: Screen) -> None:
    """Prints messages removed and kept, tokens saved, and the summary."""
    screen.line(f"Removed: {number(done.removed, 'message')}")
    screen.line(f"Saved: {short_and_exact(done.tokens_before - done.tokens_after, 'token')}")
    pins = f", {number(done.pins, 'pin')} among them" if done.pins else ""
    screen.line(f"Stayed: {number(done.active, 'message')} of {done.messages:,}{pins}")
    if done.summary:
        screen.line(f'Summary: "{short_line(one_line(done.summary), SUMMARY_CHARS)}"')
    if not done.reached:
        missed = f"The target of {number(done.target, 'token')} was not reached: {done.reason}."
        screen.line(("yellow", missed))
    elif done.reason:
        screen.line(f"Kept {done.reason}.")


def _show_items(done: Compaction, screen: Screen) -> None:
    for item in done.items[:ITEMS_SHOWN]:
        sizes = f"{item.tokens_before:,} -> {number(item.tokens_after, 'token')}"
        reason = one_line(item.reason)
        # A plan shows every score, so its reasons are wrapped, not cut.
        is_wrapped = isinstance(done, Planned) and len(reason) > REASON_CHARS
        end = f"  {short_line(reason, REASON_CHARS)}" if reason and not is_wrapped else ""
        screen.line(f"  {item.handle} {item.action}, {sizes}", ("dim", end))
        for line in wrap(reason, REASON_CHARS) if is_wrapped else ():
            screen.line(("dim", f"    {line}"))
    if len(done.items) > ITEMS_SHOWN:
        screen.line(f"  ... +{len(done.items) - ITEMS_SHOWN:,} more")
    screen.line(f"Cache: {_price(done)}.")


def _price(done: Compaction) -> str:
    """The cost of the compaction in the provider's cache."""
    price = done.price
    written = f"{number(price.rewritten_tokens, 'token')} written again"
    if price.expired:
        return f"{written}, at no loss: the provider's cache has expired"
    if price.cost_dollars:
        written += f" ({dollars(price.cost_dollars)})"
    calls = price.break_even_calls
    return f"{written}, paid back after {calls:.1f} calls" if calls else written


def _show_writer(use: WriterUse, screen: Screen) -> None:
    accepted = (
        f"{use.accepted} of {use.asked} {'summary' if use.asked == 1 else 'summaries'} accepted"
    )
    screen.line(f"Writer: {accepted}, {number(use.input, 'token')} in, {use.output:,} out.")
    if use.asked and use.accepted == use.asked:
        screen.line(coherence(""))
    for reason in use.refused:
        screen.line(
            ("yellow", f"  refused: {short_line(reason, 200)}"), "; the text made by code is used"
        )


# --- condense ---

C = TypeVar("C", Planned, Compacted)


class Condensing(Result, frozen=True, kw_only=True):
    """The state of condensing a conversation. `summary` is the newest message, if the assistant
    wrote it; `planned` or `done` is the compaction. With neither, the person's `feedback` is in the
    log as the message `seq`."""

    conversation: str
    summary: str = ""
    planned: Planned | None = None
    done: Compacted | None = None
    feedback: str = ""
    seq: int = 0

    def show(self, screen: Screen) -> None:
        if self.planned is not None:
            _show_proposal(self, self.planned, screen)
        elif self.done is not None:
            _chosen_by_hand(self.done).show(screen)
        else:
            reads = f"The model reads it as #{self.seq}, with the next request"
            screen.line(f"{reads}. Nothing left the page.")


def condensed(session: Session, feedback: str, *, accept: bool) -> Condensing:
    """Plans the compaction, does it if the summary is accepted, or appends the feedback for the
    model."""
    if feedback and accept:
        reason = "--accept and feedback exclude each other"
        raise Invalid(reason, hint="pass --accept, or say what is wrong with the summary")
    if feedback:
        with session.context(writes=True) as context:
            context.append({"role": "user", "content": FEEDBACK_TEXT + feedback})
            seq = context.view.slots[-1].seq
            return Condensing(conversation=context.id, feedback=feedback, seq=seq)
    with session.context() as context:
        id, summary = context.id, summary_of(context.view)
    if accept and not summary:
        raise Invalid(NO_SUMMARY, hint="let the agent answer first, then accept what it wrote")
    made = compact(session, strategy=("hide",), set_=("preset=condense",), dry_run=not accept)
    if isinstance(made, Planned):
        return Condensing(conversation=id, summary=summary, planned=made)
    assert isinstance(made, Compacted)
    return Condensing(conversation=id, summary=summary, done=made)


def summary_of(view: View) -> str:
    """The newest message, if it is the assistant's and calls no tool; otherwise empty."""
    newest = view.slots[-1] if view.slots else None
    if newest is None or newest.standin or newest.message.role != "assistant":
        return ""
    return "" if calls_of(newest.message) else body_text(newest.message)


def _chosen_by_hand(done: C) -> C:
    """The compaction without target and reasons, because a person chose it."""
    items = tuple(replace(item, reason="") for item in done.items)
    return replace(done, items=items, target=0, reached=True)


def _show_proposal(condensing: Condensing, planned: Planned, screen: Screen) -> None:
    if condensing.summary:
        screen.line(("bold", "The summary that would stay:"))
        screen.block(condensing.summary)
    else:
        screen.line(("yellow", f"{NO_SUMMARY[0].upper()}{NO_SUMMARY[1:]}."))
    _chosen_by_hand(planned).show(screen)
    if planned.edits and condensing.summary:
        id = condensing.conversation
        screen.line(f"Accept it with: {screen.call('condense', id, '--accept')}")
        screen.line(f"Or say what is wrong: {screen.call('condense', id, 'FEEDBACK')}")
