"""`refold compact`: the page made shorter by hand.

A writer is asked only if the caller says so: by its URL, or by `configured` for the one that the
settings name. Its key is read from the environment and nowhere else. `set` gives what a strategy
is told in a call (`context.compact("hide", preset="half")`), and is checked in the same place.

What a compaction gives back, planned or done.

A compaction as a person sees it, planned or done: what goes, what stays, what it costs, and the
way back. `compact`, `context prune` and `context summarize` share it.

`refold condense`: a summary that the agent wrote takes the place of the conversation, once a
person accepts it.

The summary is the newest message of the page, so nothing is written for a person who only looks:
`--accept` leaves the first pair and the last one on the page, FEEDBACK says what is wrong with the
summary and goes to the model instead, and nothing leaves the page. It is a compaction like any
other: one batch, which `undo` takes back. Neighbours: the preset `condense` of `hide` chooses what
goes; a chat asks its model for the summary first (`edges.chat.condense`).
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from refold import decoding
from refold.core.laws import calls_of
from refold.core.model import Hide, Summarize, View
from refold.core.plan import Item, Plan, Price, Receipt, Step
from refold.display import one_line
from refold.edges.commands.command import (
    TEXT,
    Arguments,
    Command,
    Result,
    Screen,
    number,
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
from refold.log.notices import Notice
from refold.log.unfold import body_text
from refold.settings.sources import value_of
from refold.strategies.registry import check_settings
from refold.tokens.models import dollars

ITEMS_SHOWN = 20
SUMMARY_CHARS = 80
REASON_CHARS = 100


def show(done: Planned | Compacted, screen: Screen, *, aims: bool = True) -> None:
    """With `aims`, a target and the reason for each item were what it went by; a person who
    decided what stays is told neither."""
    if not aims:
        items = tuple(replace(item, reason="") for item in done.items)
        done = replace(done, items=items, target=0, reached=True)
    if isinstance(done, Planned):
        _show_plan(done, screen)
    elif done.batch and done.box is True:
        for line in compaction_box(done.active, done.messages, done.summaries, screen.columns):
            screen.line(line)
        show_undo(done.conversation, screen)
    else:
        _show_receipt(done, screen)


def _show_plan(plan: Planned, screen: Screen) -> None:
    if not plan.edits:
        screen.line(f"Nothing would be done: {plan.reason}.")
        return
    target = f", target {plan.target:,}" if plan.target else ""
    sizes = f"{plan.tokens_before:,} -> {number(plan.tokens_after, 'token')}{target}"
    screen.line(
        ("bold", f"Plan by {short_line(plan.strategy, 200)}"), f": {sizes}. Nothing was changed."
    )
    _show_bars(plan, plan.window, screen)
    _show_items(plan, screen)
    if not plan.reached:
        missed = f"The target of {number(plan.target, 'token')} would not be reached"
        screen.line(("yellow", f"{missed}: {plan.reason}."))


def _show_receipt(done: Compacted, screen: Screen) -> None:
    if not done.batch:
        screen.line(f"Nothing was done: {done.reason}.")
        return
    tokens = f"{done.tokens_before:,} -> {number(done.tokens_after, 'token')}"
    slots = f"{done.slots_before:,} -> {number(done.slots_after, 'slot')}"
    screen.line(("bold", f"Compacted by {short_line(done.strategy, 200)}"), f": {tokens}, {slots}.")
    _show_bars(done, done.window, screen)
    _show_items(done, screen)
    _show_effect(done, screen)
    if done.writer is not UNSET:
        _show_writer(done.writer, screen)
    lists = screen.call("receipts", done.conversation)
    screen.line(f"Batch {done.batch}; {lists} lists all.")
    show_undo(done.conversation, screen)


def _show_bars(done: Compaction, window: int, screen: Screen) -> None:
    """The window before and after, where it can be drawn."""
    if screen.draws:
        for parts in comparison_lines(
            done.tokens_before, done.tokens_after, window, screen.columns
        ):
            screen.line(*parts)


def _show_effect(done: Compacted, screen: Screen) -> None:
    """What left the page, what that saved, what stays, and what stands there instead."""
    screen.line(f"Removed: {number(done.removed, 'message')}")
    screen.line(f"Saved: {short_and_exact(done.tokens_before - done.tokens_after, 'token')}")
    pins = f", {number(done.pins, 'pin')} among them" if done.pins else ""
    screen.line(f"Stayed: {number(done.active, 'message')} of {done.messages:,}{pins}")
    if done.summary:
        screen.line(f'Summary: "{short_line(one_line(done.summary), SUMMARY_CHARS)}"')
    if not done.reached:
        missed = f"The target of {number(done.target, 'token')} was not reached: {done.reason}."
        screen.line(("yellow", missed))


def _show_items(done: Compaction, screen: Screen) -> None:
    for item in done.items[:ITEMS_SHOWN]:
        sizes = f"{item.tokens_before:,} -> {number(item.tokens_after, 'token')}"
        whole = one_line(item.reason)
        reason = f"  {short_line(whole, REASON_CHARS)}" if whole else ""
        is_long = isinstance(done, Planned) and len(whole) > REASON_CHARS
        screen.line(f"  {item.handle} {item.action}, {sizes}", ("dim", "" if is_long else reason))
        # Whoever looks before anything goes sees every score.
        for line in wrap(whole, REASON_CHARS) if is_long else ():
            screen.line(("dim", f"    {line}"))
    if len(done.items) > ITEMS_SHOWN:
        screen.line(f"  ... +{len(done.items) - ITEMS_SHOWN:,} more")
    screen.line(f"Cache: {_price(done)}.")


def _price(done: Compaction) -> str:
    """What the provider's cache loses by it."""
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


CONFIGURED = "configured"
OWN_OPTIONS = ("target", "task", "instructions")
STRATEGY = Meta(
    description="By default, the configured ladder.",
    extra={"metavar": "NAME", "completes": "strategy"},
)
TARGET = Meta(description="The size to reach, in tokens.", ge=0)
TASK = Meta(
    description="What the agent works on, for relevance; by default the latest request.",
)
SETTINGS = Meta(
    description="A setting of the strategies, such as max_tokens=4000 or preset=half. "
    "May be repeated.",
    extra={"metavar": "NAME=VALUE"},
)
DRY_RUN = Meta(description="Print the plan and change nothing; no writer is asked.")
WRITER = Meta(
    description="The model that writes summaries, by its URL; without a URL, the one in the "
    "settings.",
    extra={"metavar": "URL", "bare": CONFIGURED},
)
WRITER_MODEL = Meta(description="The name of that model.", extra={"metavar": "NAME"})
WRITER_KIND = Meta(description="openai, anthropic or gemini.", extra={"metavar": "KIND"})
WRITER_KEY = Meta(
    description="The environment variable that holds its key.", extra={"metavar": "NAME"}
)
INSTRUCTIONS = Meta(
    description="What the writer should pay attention to; without a writer, what the page should "
    "keep.",
    extra=TEXT,
)
BOX = Meta(description="Print the result as a box.")
WINDOW = Meta(description="The model's window in tokens.", ge=1)


class CompactArguments(Arguments, frozen=True, kw_only=True):
    instructions: Annotated[str, INSTRUCTIONS] = ""
    strategies: Annotated[tuple[str, ...], STRATEGY] = field(name="strategy", default=())
    target: Annotated[int, TARGET] | None = None
    task: Annotated[str, TASK] = ""
    settings: Annotated[tuple[str, ...], SETTINGS] = field(name="set", default=())
    dry_run: Annotated[bool, DRY_RUN] = False
    writer: Annotated[str, WRITER] | None = None
    writer_model: Annotated[str, WRITER_MODEL] | None = None
    writer_kind: Annotated[str, WRITER_KIND] | None = None
    writer_key_env: Annotated[str, WRITER_KEY] | None = None
    window: Annotated[int, WINDOW] | None = None
    box: Annotated[bool, BOX] = False


def run_compact(session: Session, arguments: CompactArguments) -> Planned | Compacted:
    return _plan(session, arguments) if arguments.dry_run else _compact(session, arguments)


def _plan(session: Session, arguments: CompactArguments) -> Planned:
    with session.context(window=arguments.window) as context:
        settings = _settings(arguments, context)
        plan = context.plan(
            *arguments.strategies,
            target=arguments.target,
            task=arguments.task or arguments.instructions,
            **settings,
        )
    return Planned(
        **_account(context, plan),
        dry_run=True,
        edits=len(plan.proposals),
        removed=_removed(context.view, plan),
        window=context.budget.window,
    )


def _removed(view: View, plan: Plan) -> int:
    """How many messages would leave the page."""
    edits = [proposal.edit for proposal in plan.proposals]
    spans = [edit.span for edit in edits if isinstance(edit, Hide | Summarize)]
    said = [slot.seq for slot in view.slots if not slot.standin]
    return sum(any(span.first <= seq <= span.last for span in spans) for seq in said)


def _compact(session: Session, arguments: CompactArguments) -> Compacted:
    writer = _writer(session, arguments)
    notices: list[Notice] = []
    has_writer = writer is not None or session.has_writer
    # Without a writer, whoever says what matters says what the page should stay about.
    task = arguments.task or ("" if has_writer else arguments.instructions)
    with session.context(window=arguments.window, writer=writer, writes=True) as context:
        settings = _settings(arguments, context)
        stop = context.on("*", notices.append)
        try:
            receipt = context.compact(
                *arguments.strategies,
                target=arguments.target,
                task=task,
                instructions=arguments.instructions if has_writer else "",
                **settings,
            )
        finally:
            stop()
        stats = context.stats()
    return Compacted(
        **_account(context, receipt),
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
        writer=_use(notices) if has_writer else UNSET,
        box=arguments.box or UNSET,
    )


def _account(context: Context, done: Plan | Receipt) -> dict[str, Any]:
    """What a plan and a receipt both tell."""
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


# --- settings of the strategies ---


def _settings(arguments: CompactArguments, context: Context) -> dict[str, Any]:
    """The settings that are given; Invalid for a name that the strategies do not take."""
    settings = dict(map(_setting, arguments.settings))
    check_settings(settings, arguments.strategies or context.config.ladder)
    return settings


def _setting(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        hint = "give it as NAME=VALUE, such as --set max_tokens=4000"
        raise Invalid(f"--set {text!r} is not a setting", hint=hint)
    if name in OWN_OPTIONS:
        raise Invalid(f"--set {name} has an option of its own", hint=f"give --{name}")
    return name, value_of(value)


# --- the writer ---


def _writer(session: Session, arguments: CompactArguments) -> Endpoint | None:
    """The writer that the arguments name; Invalid if they speak of one that nothing names."""
    given = {
        "model": arguments.writer_model,
        "kind": arguments.writer_kind,
        "key_env": arguments.writer_key_env,
    }
    named = {name: value for name, value in given.items() if value is not None}
    if arguments.writer is None and not named:
        return None
    if arguments.writer == CONFIGURED:
        permit_writer(session)
    else:
        named["url"] = arguments.writer or ""
    writer = configured(**named)
    if writer is None:
        hint = "give --writer URL, or name one in the table [writer] of refold.toml"
        raise Invalid("no writer is named", hint=hint)
    return writer


def _use(notices: Sequence[Notice]) -> WriterUse:
    """What came of asking the writer, as the notices say it."""
    bill: dict[str, Any] = {}
    for notice in notices:
        if notice.name == "compaction-complete" and notice.details:
            bill = notice.details
    refused = tuple(notice.reason for notice in notices if notice.name == "compaction-failed")
    return decoding.convert({**bill, "refused": refused}, WriterUse)


COMPACT = Command(
    name="compact",
    details="Nothing is lost: refold undo takes it back.",
    arguments=CompactArguments,
    run=run_compact,
    show=show,
)


class WriterUse(Struct, frozen=True, kw_only=True):
    """What came of asking the writer: summaries asked for and accepted, calls, tokens in and
    out, and why the others were refused."""

    asked: int = 0
    accepted: int = 0
    calls: int = 0
    input: int = 0
    output: int = 0
    refused: tuple[str, ...] = ()


class Compaction(Result, frozen=True, kw_only=True):
    """What a compaction did, or would do. `reason` says why it did nothing."""

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
    """`edits` is how many would be made, `removed` how many messages would leave the page."""

    edits: int
    removed: int
    window: int


class Compacted(Compaction, frozen=True, kw_only=True):
    """`batch` is what can be reverted; empty if nothing was done. `removed` counts the messages
    that left the page, `summary` is the newest text that stands for such; `active` of all
    `messages` are on the page now."""

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


FEEDBACK = Meta(
    description="What is wrong with the summary, for the model; nothing leaves the page.",
    extra=TEXT,
)
ACCEPT = Meta(description="Take everything but the first pair and the last one off the page.")
NO_SUMMARY = "there is no summary to accept: the newest message is not a text of the assistant"
FEEDBACK_TEXT = "This is what I say about the summary; write it again with that:\n\n"


class CondenseArguments(Arguments, frozen=True, kw_only=True):
    feedback: Annotated[str, FEEDBACK] = ""
    accept: Annotated[bool, ACCEPT] = False


class Condensing(Result, frozen=True, kw_only=True):
    """How a conversation is being condensed. `summary` is the newest message, if the assistant
    wrote it; `planned` says what would leave the page, `done` what has left it. With neither, the
    person's `feedback` is in the log as the message `seq`."""

    conversation: str
    summary: str = ""
    planned: Planned | None = None
    done: Compacted | None = None
    feedback: str = ""
    seq: int = 0


def run_condense(session: Session, arguments: CondenseArguments) -> Condensing:
    feedback = arguments.feedback.strip()
    if feedback and arguments.accept:
        reason = "--accept and FEEDBACK exclude each other"
        raise Invalid(reason, hint="give --accept, or FEEDBACK")
    return _answered(session, feedback) if feedback else _condensed(session, arguments.accept)


def _condensed(session: Session, accept: bool) -> Condensing:
    with session.context() as context:
        id, summary = context.id, summary_of(context.view)
    if accept and not summary:
        raise Invalid(NO_SUMMARY, hint="let the agent answer first, then accept what it wrote")
    given = CompactArguments(
        strategies=("hide",), settings=("preset=condense",), dry_run=not accept
    )
    made = run_compact(session, given)
    if isinstance(made, Planned):
        return Condensing(conversation=id, summary=summary, planned=made)
    return Condensing(conversation=id, summary=summary, done=made)


def _answered(session: Session, feedback: str) -> Condensing:
    with session.context(writes=True) as context:
        context.append({"role": "user", "content": FEEDBACK_TEXT + feedback})
        seq = context.view.slots[-1].seq
        return Condensing(conversation=context.id, feedback=feedback, seq=seq)


def summary_of(view: View) -> str:
    """The newest message of the page, if the assistant wrote it and calls no tool in it; else
    nothing."""
    newest = view.slots[-1] if view.slots else None
    if newest is None or newest.standin or newest.message.role != "assistant":
        return ""
    return "" if calls_of(newest.message) else body_text(newest.message)


def show_condense(condensing: Condensing, screen: Screen) -> None:
    if condensing.planned is not None:
        _show_proposal(condensing, condensing.planned, screen)
    elif condensing.done is not None:
        show(condensing.done, screen, aims=False)
    else:
        told = f"The model reads it as #{condensing.seq}, with the next request"
        screen.line(f"{told}. Nothing left the page.")


def _show_proposal(condensing: Condensing, planned: Planned, screen: Screen) -> None:
    if condensing.summary:
        screen.line(("bold", "The summary that would stay:"))
        screen.block(condensing.summary)
    else:
        screen.line(("yellow", f"{NO_SUMMARY[0].upper()}{NO_SUMMARY[1:]}."))
    show(planned, screen, aims=False)
    if planned.edits and condensing.summary:
        id = condensing.conversation
        screen.line(f"Accept it with: {screen.call('condense', id, '--accept')}")
        screen.line(f"Or say what is wrong: {screen.call('condense', id, 'FEEDBACK')}")


CONDENSE = Command(
    name="condense",
    details="The summary is the newest message, if the assistant wrote it. Without --accept or "
    "FEEDBACK, shows what would stay and what would leave the page. Nothing is lost: undo takes it "
    "back.",
    arguments=CondenseArguments,
    run=run_condense,
    show=show_condense,
)
