"""`refold hide`: chosen messages leave the page, and stay in the log.

It is one batch that `undo` takes back, so it does not ask. Tool pairs go whole; what went beside
what was named is said.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.core.plan import Item
from refold.edges.commands.command import POSITIONAL, Arguments, Command, Result, Screen
from refold.edges.commands.position import seq_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line, show_undo

FIRST = Meta(
    description="The first message, as 41 or #41.", extra={**POSITIONAL, "metavar": "FIRST"}
)
LAST = Meta(
    description="The last message; without it, only the first is hidden.",
    extra={**POSITIONAL, "metavar": "LAST"},
)


class HideArguments(Arguments, frozen=True, kw_only=True):
    first: Annotated[str, FIRST]
    last: Annotated[str, LAST] | None = None


class Hidden(Result, frozen=True, kw_only=True):
    """`batch` is what can be reverted; `items` are the spans that went, each with its reason.
    `hidden` messages went that were shown, and so many `summaries` or notices that stood for
    others."""

    conversation: str
    batch: str
    items: tuple[Item, ...]
    hidden: int
    summaries: int
    tokens_before: int
    tokens_after: int


def run(session: Session, arguments: HideArguments) -> Hidden:
    first = seq_of(arguments.first)
    last = first if arguments.last is None else seq_of(arguments.last)
    with session.context(writes=True) as context:
        before = context.view.slots
        receipt = context.hide(first, last)
        left = context.view.slots
    return Hidden(
        conversation=context.id,
        batch=receipt.batch,
        items=receipt.items,
        hidden=receipt.messages_hidden,
        summaries=sum(slot.standin and slot not in left for slot in before),
        tokens_before=receipt.tokens_before,
        tokens_after=receipt.tokens_after,
    )


def show(hidden: Hidden, screen: Screen) -> None:
    tokens = f"{hidden.tokens_before:,} -> {hidden.tokens_after:,} tokens"
    went = [number(hidden.hidden, "message")] if hidden.hidden else []
    if hidden.summaries:
        went.append("what stood for other messages" if went else "what stood for messages")
    screen.line(("bold", f"Hidden: {' and '.join(went)}"), f", {tokens}.")
    for item in hidden.items:
        screen.line(f"  {item.handle}", ("dim", f"  {short_line(item.reason, 200)}"))
    show_undo(hidden.conversation, screen)


COMMAND = Command(
    name="hide",
    details="Tool calls are hidden with their results. Pins and the latest request are refused. "
    "Nothing is lost: refold unfold ID #41 shows a message, refold undo brings all of them back.",
    arguments=HideArguments,
    run=run,
    show=show,
)
