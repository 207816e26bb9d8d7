"""`refold compact` and `refold undo`: the page made shorter by hand, and made whole again.

A writer is asked only if the command line says so: `--writer URL`, or `--writer` alone for the one
that the settings name. Its key is read from the environment and nowhere else. `--set` gives what a
strategy is told in a call (`context.compact("hide", preset="half")`), and is checked in the same
place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from refold.edges.cli.options import (
    command,
    conversation_argument,
    named,
    opened,
    opened_store,
    store_option,
    window_option,
)
from refold.edges.cli.screen import Screen, one_line

if TYPE_CHECKING:
    from refold.core.plan import Item, Plan, Price, Receipt
    from refold.edges.endpoints.writer import Endpoint
    from refold.engine.context import Context
    from refold.log.notices import Notice

ITEMS_SHOWN = 20
CONFIGURED = "configured"
OWN_OPTIONS = ("target", "task", "instructions")


@command(
    "compact",
    conversation_argument,
    click.option(
        "--strategy",
        "strategies",
        metavar="NAME",
        multiple=True,
        help="By default, the configured ladder.",
    ),
    click.option("--target", type=click.IntRange(min=0), help="The size to reach, in tokens."),
    click.option(
        "--task",
        default="",
        help="What the agent works on, for relevance; by default the latest request.",
    ),
    click.option(
        "--set",
        "given",
        metavar="NAME=VALUE",
        multiple=True,
        help="A setting of the strategies, such as max_tokens=4000 or preset=half. Many may be given.",
    ),
    click.option(
        "--dry-run", is_flag=True, help="Print the plan and change nothing; no writer is asked."
    ),
    click.option(
        "--writer",
        metavar="URL",
        is_flag=False,
        flag_value=CONFIGURED,
        help="The model that writes summaries, by its address; without one, that of the settings.",
    ),
    click.option("--writer-model", metavar="NAME", help="Its name there."),
    click.option("--writer-kind", metavar="KIND", help="openai, anthropic or gemini."),
    click.option(
        "--writer-key-env", metavar="NAME", help="The environment variable that holds its key."
    ),
    click.option("--instructions", default="", help="What the writer is to look out for."),
    window_option,
    store_option,
)
def compact_(
    screen: Screen,
    conversation: str,
    strategies: tuple[str, ...],
    target: int | None,
    task: str,
    given: tuple[str, ...],
    dry_run: bool,
    instructions: str,
    window: int | None,
    store: str | None,
    **endpoint: str | None,
) -> None:
    """Makes the page of a conversation shorter.

    Nothing is lost: `refold undo` takes it back.
    """
    if dry_run:
        with opened(conversation, store, window=window) as context:
            settings = _settings(given, strategies or context.config.ladder)
            _print_plan(
                screen,
                conversation,
                context.plan(*strategies, target=target, task=task, **settings),
            )
        return
    with _opened(conversation, store, window, _writer(**endpoint)) as context:
        notices: list[Notice] = []
        context.on("*", notices.append)
        settings = _settings(given, strategies or context.config.ladder)
        receipt = context.compact(
            *strategies, target=target, task=task, instructions=instructions, **settings
        )
    _print_receipt(screen, conversation, receipt, _asked(notices) if endpoint["writer"] else None)


def _settings(given: Sequence[str], strategies: Sequence[str]) -> dict[str, Any]:
    """The settings that the command line gives; Invalid for a name that the strategies do not
    take."""
    from refold.errors import Invalid
    from refold.settings.sources import value_of
    from refold.strategies.registry import check_settings

    settings: dict[str, Any] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier():
            raise Invalid(
                f"--set {text!r} is no setting",
                hint="give it as NAME=VALUE, such as --set max_tokens=4000",
            )
        if name in OWN_OPTIONS:
            raise Invalid(f"--set {name} is an option of its own", hint=f"give --{name}")
        settings[name] = value_of(value)
    check_settings(settings, strategies)
    return settings


def _writer(
    *,
    writer: str | None,
    writer_model: str | None,
    writer_kind: str | None,
    writer_key_env: str | None,
) -> Endpoint | None:
    """The writer that the command line names; Invalid if it speaks of one that nothing names."""
    from refold.edges.endpoints.writer import configured
    from refold.errors import Invalid

    about = {"model": writer_model, "kind": writer_kind, "key_env": writer_key_env}
    given = {name: value for name, value in about.items() if value is not None}
    if writer is None and not given:
        return None
    found = configured(**given) if writer == CONFIGURED else configured(**given, url=writer or "")
    if found is None:
        raise Invalid(
            "no writer is named",
            hint="give --writer URL, or name one in the table [writer] of refold.toml",
        )
    return found


@contextmanager
def _opened(
    conversation: str, url: str | None, window: int | None, writer: Endpoint | None
) -> Iterator[Context]:
    """A conversation that is there already, with a writer; kept like an agent's."""
    from refold.engine.context import Context
    from refold.settings.sources import loaded

    config, _ = loaded()
    with opened_store(url) as store:
        conversation = store.conversation(named(store, conversation)).id
        context = Context(store, conversation, config=config, window=window, writer=writer)
        yield context
        context.close()


def _asked(notices: list[Notice]) -> dict[str, Any]:
    """What came of asking the writer."""
    bills = [
        notice.details
        for notice in notices
        if notice.name == "compaction-complete" and notice.details
    ]
    refused = [notice.reason for notice in notices if notice.name == "compaction-failed"]
    bill = bills[-1] if bills else {"asked": 0, "accepted": 0, "calls": 0, "input": 0, "output": 0}
    return {**bill, "refused": refused}


def _print_plan(screen: Screen, conversation: str, plan: Plan) -> None:
    if screen.json_output:
        sizes = {
            "tokens_before": plan.tokens_before,
            "tokens_after": plan.tokens_after,
            "target": plan.target,
        }
        screen.emit(
            {
                "conversation": conversation,
                "dry_run": True,
                **_fields(plan),
                **sizes,
                "reached": plan.reached,
            }
        )
        return
    if not plan.proposals:
        screen.line(f"Nothing would be done: {plan.reason}.")
        return
    screen.line(
        ("bold", f"Plan by {one_line(plan.strategy, 200)}"),
        f": {plan.tokens_before:,} -> {plan.tokens_after:,} "
        f"tokens, target {plan.target:,}. Nothing was changed.",
    )
    _print_items(screen, plan.items, plan.price)


def _print_receipt(
    screen: Screen, conversation: str, receipt: Receipt, asked: dict[str, Any] | None
) -> None:
    if screen.json_output:
        sizes = {"tokens_before": receipt.tokens_before, "tokens_after": receipt.tokens_after}
        screen.emit(
            {
                "conversation": conversation,
                "dry_run": False,
                **_fields(receipt),
                **sizes,
                "batch": receipt.batch,
                **({"writer": asked} if asked is not None else {}),
            }
        )
        return
    if not receipt.batch:
        screen.line(f"Nothing was done: {receipt.reason}.")
        return
    screen.line(
        ("bold", f"Compacted by {one_line(receipt.strategy, 200)}"),
        f": {receipt.tokens_before:,} -> "
        f"{receipt.tokens_after:,} tokens, {receipt.messages_before:,} -> {receipt.messages_after:,} slots.",
    )
    _print_items(screen, receipt.items, receipt.price)
    if asked is not None:
        _print_asked(screen, asked)
    screen.line(f"Batch {receipt.batch}; refold undo {conversation} takes it back.")


def _print_asked(screen: Screen, asked: dict[str, Any]) -> None:
    used = f"{asked['input']:,} tokens in, {asked['output']:,} out"
    screen.line(f"Writer: {asked['accepted']} of {asked['asked']} summaries accepted, {used}.")
    for reason in asked["refused"]:
        screen.line(
            ("yellow", f"  refused: {one_line(reason, 200)}"), "; what code made stands alone"
        )


def _fields(done: Plan | Receipt) -> dict[str, Any]:
    import msgspec

    return {
        "strategy": done.strategy,
        "reason": done.reason,
        "items": msgspec.to_builtins(done.items),
        "steps": msgspec.to_builtins(done.steps),
        "price": msgspec.to_builtins(done.price),
    }


def _print_items(screen: Screen, items: tuple[Item, ...], price: Price) -> None:
    for item in items[:ITEMS_SHOWN]:
        sizes = f"{item.tokens_before:,} -> {item.tokens_after:,}"
        screen.line(
            f"  {item.handle} {item.action}, {sizes} tokens",
            ("dim", f"  {one_line(item.reason, 100)}"),
        )
    if len(items) > ITEMS_SHOWN:
        screen.line(f"  ... +{len(items) - ITEMS_SHOWN:,} more")
    calls = (
        f", paid back after {price.break_even_calls:.1f} calls" if price.break_even_calls else ""
    )
    screen.line(f"Cache: {price.rewritten_tokens:,} tokens are written again{calls}.")


@command("undo", conversation_argument, store_option)
def undo_(screen: Screen, conversation: str, store: str | None) -> None:
    """Takes the newest compaction or restore back.

    Undoing again brings it on again.
    """
    with opened(conversation, store, writes=True) as context:
        before, undoable = len(context.view.slots), context.view.undoable
        done = context.undo()
        after = len(context.view.slots)
    batch = undoable[-1][1] if done else ""
    if screen.json_output:
        screen.emit(
            {
                "conversation": conversation,
                "undone": done,
                "batch": batch,
                "slots_before": before,
                "slots_after": after,
            }
        )
    elif done:
        what = f"the compaction {batch}" if batch else f"#{undoable[-1][0]}"
        screen.line(f"Undone: {what}. The page had {before:,} slots and has {after:,} now.")
    else:
        screen.line("There is nothing to undo.")
