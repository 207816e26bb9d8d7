"""`refold compact`: the page made shorter by hand.

A writer is asked only if the caller says so: by its URL, or by `configured` for the one that the
settings name. Its key is read from the environment and nowhere else. `set` gives what a strategy
is told in a call (`context.compact("hide", preset="half")`), and is checked in the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, convert, field

from refold.core.model import View
from refold.core.plan import Item, Plan, Price, Receipt, Step
from refold.edges.commands.allow import permit_writer
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line, show_undo
from refold.edges.endpoints.writer import Endpoint, configured
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notices import Notice
from refold.log.unfold import body_text
from refold.settings.sources import value_of
from refold.strategies.registry import check_settings

ITEMS_SHOWN = 20
SUMMARY_CHARS = 80
CONFIGURED = "configured"
OWN_OPTIONS = ("target", "task", "instructions")
STRATEGY = Meta(description="By default, the configured ladder.", extra={"metavar": "NAME"})
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
INSTRUCTIONS = Meta(description="What the writer should pay attention to.")
WINDOW = Meta(description="The model's window in tokens.", ge=1)


class CompactArguments(Arguments, frozen=True, kw_only=True):
    strategies: Annotated[tuple[str, ...], STRATEGY] = field(name="strategy", default=())
    target: Annotated[int, TARGET] | None = None
    task: Annotated[str, TASK] = ""
    settings: Annotated[tuple[str, ...], SETTINGS] = field(name="set", default=())
    dry_run: Annotated[bool, DRY_RUN] = False
    writer: Annotated[str, WRITER] | None = None
    writer_model: Annotated[str, WRITER_MODEL] | None = None
    writer_kind: Annotated[str, WRITER_KIND] | None = None
    writer_key_env: Annotated[str, WRITER_KEY] | None = None
    instructions: Annotated[str, INSTRUCTIONS] = ""
    window: Annotated[int, WINDOW] | None = None


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
    """`edits` is how many would be made."""

    edits: int


class Compacted(Compaction, frozen=True, kw_only=True):
    """`batch` is what can be reverted; empty if nothing was done. `removed` counts the messages
    that left the page, `summary` is the newest text that stands for such."""

    batch: str
    removed: int
    summary: str
    slots_before: int
    slots_after: int
    writer: WriterUse | UnsetType = UNSET


def run(session: Session, arguments: CompactArguments) -> Planned | Compacted:
    return _plan(session, arguments) if arguments.dry_run else _compact(session, arguments)


def _plan(session: Session, arguments: CompactArguments) -> Planned:
    with session.context(window=arguments.window) as context:
        settings = _settings(arguments, context)
        plan = context.plan(
            *arguments.strategies, target=arguments.target, task=arguments.task, **settings
        )
    return Planned(
        **_account(context, plan),
        dry_run=True,
        edits=len(plan.proposals),
    )


def _compact(session: Session, arguments: CompactArguments) -> Compacted:
    writer = _writer(session, arguments)
    notices: list[Notice] = []
    with session.context(window=arguments.window, writer=writer, writes=True) as context:
        context.on("*", notices.append)
        receipt = context.compact(
            *arguments.strategies,
            target=arguments.target,
            task=arguments.task,
            instructions=arguments.instructions,
            **_settings(arguments, context),
        )
        summary = _summary(context.view, receipt)
    return Compacted(
        **_account(context, receipt),
        dry_run=False,
        batch=receipt.batch,
        removed=receipt.messages_hidden,
        summary=summary,
        slots_before=receipt.messages_before,
        slots_after=receipt.messages_after,
        writer=_use(notices) if arguments.writer else UNSET,
    )


def _summary(view: View, receipt: Receipt) -> str:
    """The newest text that the compaction put in the place of messages; empty if it put none."""
    handles = {item.handle for item in receipt.items if item.action == "summarized"}
    texts = [body_text(slot.message) for slot in view.slots if str(slot.span) in handles]
    return texts[-1] if texts else ""


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
        raise Invalid(f"--set {name} is an option of its own", hint=f"give --{name}")
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
    return convert({**bill, "refused": refused}, WriterUse)


# --- shown ---


def show(done: Planned | Compacted, screen: Screen) -> None:
    if isinstance(done, Planned):
        _show_plan(done, screen)
    else:
        _show_receipt(done, screen)


def _show_plan(plan: Planned, screen: Screen) -> None:
    if not plan.edits:
        screen.line(f"Nothing would be done: {plan.reason}.")
        return
    sizes = (
        f"{plan.tokens_before:,} -> {number(plan.tokens_after, 'token')}, target {plan.target:,}"
    )
    screen.line(
        ("bold", f"Plan by {short_line(plan.strategy, 200)}"), f": {sizes}. Nothing was changed."
    )
    _show_items(plan, screen)


def _show_receipt(done: Compacted, screen: Screen) -> None:
    if not done.batch:
        screen.line(f"Nothing was done: {done.reason}.")
        return
    tokens = f"{done.tokens_before:,} -> {number(done.tokens_after, 'token')}"
    slots = f"{done.slots_before:,} -> {number(done.slots_after, 'slot')}"
    screen.line(("bold", f"Compacted by {short_line(done.strategy, 200)}"), f": {tokens}, {slots}.")
    _show_items(done, screen)
    _show_effect(done, screen)
    if done.writer is not UNSET:
        _show_writer(done.writer, screen)
    screen.line(f"Batch {done.batch}; refold receipts {done.conversation} lists all.")
    show_undo(done.conversation, screen)


def _show_effect(done: Compacted, screen: Screen) -> None:
    """What left the page, what that saved, and what stands there instead."""
    screen.line(f"Removed: {number(done.removed, 'message')}")
    screen.line(f"Saved: {number(done.tokens_before - done.tokens_after, 'token')}")
    if done.summary:
        screen.line(f'Summary: "{short_line(done.summary, SUMMARY_CHARS)}"')
    if not done.reached:
        missed = f"The target of {number(done.target, 'token')} was not reached: {done.reason}."
        screen.line(("yellow", missed))


def _show_items(done: Compaction, screen: Screen) -> None:
    for item in done.items[:ITEMS_SHOWN]:
        sizes = f"{item.tokens_before:,} -> {number(item.tokens_after, 'token')}"
        reason = f"  {short_line(item.reason, 100)}"
        screen.line(f"  {item.handle} {item.action}, {sizes}", ("dim", reason))
    if len(done.items) > ITEMS_SHOWN:
        screen.line(f"  ... +{len(done.items) - ITEMS_SHOWN:,} more")
    calls = done.price.break_even_calls
    paid = f", paid back after {calls:.1f} calls" if calls else ""
    if done.price.expired:
        paid = ", at no loss: the provider's cache has expired"
    screen.line(f"Cache: {number(done.price.rewritten_tokens, 'token')} written again{paid}.")


def _show_writer(use: WriterUse, screen: Screen) -> None:
    accepted = (
        f"{use.accepted} of {use.asked} {'summary' if use.asked == 1 else 'summaries'} accepted"
    )
    screen.line(f"Writer: {accepted}, {number(use.input, 'token')} in, {use.output:,} out.")
    for reason in use.refused:
        screen.line(
            ("yellow", f"  refused: {short_line(reason, 200)}"), "; the text made by code is used"
        )


COMMAND = Command(
    name="compact",
    details="Nothing is lost: refold undo takes it back.",
    arguments=CompactArguments,
    run=run,
    show=show,
)
