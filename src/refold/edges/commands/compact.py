"""`refold compact`: the page made shorter by hand.

A writer is asked only if the caller says so: by its URL, or by `configured` for the one that the
settings name. Its key is read from the environment and nowhere else. `set` gives what a strategy
is told in a call (`context.compact("hide", preset="half")`), and is checked in the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, field

from refold import decoding
from refold.core.model import Hide, Summarize, View
from refold.core.plan import Plan, Receipt
from refold.edges.commands.allow import permit_writer
from refold.edges.commands.command import TEXT, Arguments, Command
from refold.edges.commands.compact_result import Compacted, Planned, WriterUse
from refold.edges.commands.compaction_shown import show
from refold.edges.commands.session import Session
from refold.edges.endpoints.writer import Endpoint, configured
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notices import Notice
from refold.settings.sources import value_of
from refold.strategies.registry import check_settings

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


def run(session: Session, arguments: CompactArguments) -> Planned | Compacted:
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


COMMAND = Command(
    name="compact",
    details="Nothing is lost: refold undo takes it back.",
    arguments=CompactArguments,
    run=run,
    show=show,
)
