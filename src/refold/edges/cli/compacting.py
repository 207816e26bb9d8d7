"""`refold compact` and `refold undo`: the page made shorter by hand, and made whole again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from refold.edges.cli.options import command, conversation_argument, opened, store_option, window_option
from refold.edges.cli.screen import Screen, one_line

if TYPE_CHECKING:
    from refold.core.plan import Item, Plan, Price, Receipt

ITEMS_SHOWN = 20


@command(
    "compact",
    conversation_argument,
    click.option("--strategy", "strategies", metavar="NAME", multiple=True, help="By default, the configured ladder."),
    click.option("--target", type=click.IntRange(min=0), help="The size to reach, in tokens."),
    click.option("--dry-run", is_flag=True, help="Print the plan and change nothing."),
    window_option,
    store_option,
)
def compact_(
    screen: Screen, conversation: str, strategies: tuple[str, ...], target: int | None, dry_run: bool,
    window: int | None, store: str | None,
) -> None:  # fmt: skip
    """Makes the page of a conversation shorter.

    Nothing is lost: `refold undo` takes it back.
    """
    with opened(conversation, store, window=window, writes=not dry_run) as context:
        if dry_run:
            plan = context.plan(*strategies, target=target)
            _print_plan(screen, conversation, plan)
        else:
            receipt = context.compact(*strategies, target=target)
            _print_receipt(screen, conversation, receipt)


def _print_plan(screen: Screen, conversation: str, plan: Plan) -> None:
    if screen.json_output:
        sizes = {"tokens_before": plan.current, "tokens_after": plan.after, "target": plan.target}
        screen.emit({"conversation": conversation, "dry_run": True, **_fields(plan), **sizes, "reached": plan.reached})
        return
    if not plan.proposals:
        screen.line(f"Nothing would be done: {plan.reason}.")
        return
    screen.line(
        ("bold", f"Plan by {one_line(plan.strategy, 200)}"), f": {plan.current:,} -> {plan.after:,} tokens, "
        f"target {plan.target:,}. Nothing was changed."
    )  # fmt: skip
    _print_items(screen, plan.items, plan.price)


def _print_receipt(screen: Screen, conversation: str, receipt: Receipt) -> None:
    if screen.json_output:
        sizes = {"tokens_before": receipt.tokens_before, "tokens_after": receipt.tokens_after}
        screen.emit({
            "conversation": conversation, "dry_run": False, **_fields(receipt), **sizes, "batch": receipt.batch,
        })  # fmt: skip
        return
    if not receipt.batch:
        screen.line(f"Nothing was done: {receipt.reason}.")
        return
    screen.line(
        ("bold", f"Compacted by {one_line(receipt.strategy, 200)}"), f": {receipt.tokens_before:,} -> "
        f"{receipt.tokens_after:,} tokens, {receipt.messages_before:,} -> {receipt.messages_after:,} slots."
    )  # fmt: skip
    _print_items(screen, receipt.items, receipt.price)
    screen.line(f"Batch {receipt.batch}; refold undo {conversation} takes it back.")


def _fields(done: Plan | Receipt) -> dict[str, Any]:
    import msgspec

    return {
        "strategy": done.strategy, "reason": done.reason, "items": msgspec.to_builtins(done.items),
        "steps": msgspec.to_builtins(done.steps), "price": msgspec.to_builtins(done.price),
    }  # fmt: skip


def _print_items(screen: Screen, items: tuple[Item, ...], price: Price) -> None:
    for item in items[:ITEMS_SHOWN]:
        sizes = f"{item.tokens_before:,} -> {item.tokens_after:,}"
        screen.line(f"  {item.handle} {item.action}, {sizes} tokens", ("dim", f"  {one_line(item.reason, 100)}"))
    if len(items) > ITEMS_SHOWN:
        screen.line(f"  ... +{len(items) - ITEMS_SHOWN:,} more")
    calls = f", paid back after {price.break_even_calls:.1f} calls" if price.break_even_calls else ""
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
        screen.emit({
            "conversation": conversation, "undone": done, "batch": batch, "slots_before": before, "slots_after": after,
        })  # fmt: skip
    elif done:
        what = f"the compaction {batch}" if batch else f"#{undoable[-1][0]}"
        screen.line(f"Undone: {what}. The page had {before:,} slots and has {after:,} now.")
    else:
        screen.line("There is nothing to undo.")
