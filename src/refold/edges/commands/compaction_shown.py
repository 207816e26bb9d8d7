"""A compaction as a person sees it, planned or done: what goes, what stays, what it costs, and the
way back. `compact`, `context prune` and `context summarize` share it."""

from __future__ import annotations

from textwrap import wrap

from msgspec import UNSET
from msgspec.structs import replace

from refold.display import one_line
from refold.edges.commands.command import Screen
from refold.edges.commands.compact_result import Compacted, Compaction, Planned, WriterUse
from refold.edges.commands.text import number, short_line, show_undo
from refold.edges.displays.box import compaction_box
from refold.edges.displays.panel import comparison_lines
from refold.edges.displays.phrases import coherence, short_and_exact
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
