"""`refold pin`: keeps messages on the page verbatim, through every compaction.

`refold unpin`: lets compactions take messages that were pinned.

`refold hide`: chosen messages leave the page, and stay in the log.

It is one batch that `undo` takes back, so it does not ask. Tool pairs go whole; what went beside
what was named is said.

`refold clear`: an empty page, but for the system prompt, the tools and the pins.

Nothing is removed: it is one batch that `undo` takes back. It asks all the same, because an agent
that works on an empty page does not know what it did; and it offers a backup. The backup is written
first; if that fails, the page stays.
"""

from __future__ import annotations

import os
import re
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from refold.conversations.exporter import export_file
from refold.core.plan import Item
from refold.edges.commands.command import (
    MESSAGES,
    POSITIONAL,
    Arguments,
    Command,
    Result,
    Screen,
    check_checkpoint,
    number,
    seq_of,
    short_line,
    show_undo,
)
from refold.edges.commands.session import Session
from refold.edges.commands.show import named_messages
from refold.edges.commands.undo import PageChange, page_size, sizes, sizes_text
from refold.engine.context import Context


class PinArguments(Arguments, frozen=True, kw_only=True):
    seqs: Annotated[tuple[str, ...], MESSAGES]


class Pinned(Result, frozen=True, kw_only=True):
    """`changed` are the messages that were pinned or unpinned now, with their tool pairs; `pins`
    are all that are pinned."""

    conversation: str
    asked: tuple[int, ...]
    changed: tuple[int, ...]
    pins: tuple[int, ...]


def run_pin(session: Session, arguments: PinArguments) -> Pinned:
    return set_pins(session, arguments, on=True)


def set_pins(session: Session, arguments: PinArguments, *, on: bool) -> Pinned:
    """Pins or unpins. All messages are looked for before anything is written."""
    seqs = tuple(seq_of(text) for text in arguments.seqs)
    with session.context(writes=True) as context:
        named_messages(session.store, context.id, seqs)
        before = context.view.pins
        # What is so already is not written again.
        for seq in seqs:
            is_pinned = seq in context.view.pins
            if on and not is_pinned:
                context.pin(seq)
            if is_pinned and not on:
                context.pin(seq, on=False)
        after = context.view.pins
    changed = tuple(sorted(before ^ after))
    return Pinned(conversation=context.id, asked=seqs, changed=changed, pins=tuple(sorted(after)))


def show_pin(pinned: Pinned, screen: Screen) -> None:
    show_pins(pinned, screen, done="Pinned", back="unpin")


def show_pins(pinned: Pinned, screen: Screen, *, done: str, back: str) -> None:
    """What was done, what is pinned now, and the command that takes it back."""
    if pinned.changed:
        pairs = " (with tool pairs)" if set(pinned.changed) - set(pinned.asked) else ""
        screen.line(("bold", f"{done}: "), f"{_names(pinned.changed)}{pairs}.")
    else:
        screen.line("Nothing was changed: it already was so.")
    screen.line(f"Pins of {pinned.conversation} now: {_names(pinned.pins) or 'none'}.")
    if pinned.changed:
        undo = screen.call(back, pinned.conversation, *map(str, pinned.changed))
        screen.line(("dim", f"Undo with: {undo}"))


def _names(seqs: tuple[int, ...]) -> str:
    return ", ".join(f"#{seq}" for seq in seqs)


PIN = Command(
    name="pin",
    details="A tool call and its result are pinned together.",
    arguments=PinArguments,
    run=run_pin,
    show=show_pin,
)


def run_unpin(session: Session, arguments: PinArguments) -> Pinned:
    return set_pins(session, arguments, on=False)


def show_unpin(pinned: Pinned, screen: Screen) -> None:
    show_pins(pinned, screen, done="Unpinned", back="pin")


UNPIN = Command(
    name="unpin",
    details="A tool call and its result are unpinned together.",
    arguments=PinArguments,
    run=run_unpin,
    show=show_unpin,
)


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


def run_hide(session: Session, arguments: HideArguments) -> Hidden:
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


def show_hide(hidden: Hidden, screen: Screen) -> None:
    tokens = f"{hidden.tokens_before:,} -> {hidden.tokens_after:,} tokens"
    went = [number(hidden.hidden, "message")] if hidden.hidden else []
    if hidden.summaries:
        went.append("what stood for other messages" if went else "what stood for messages")
    screen.line(("bold", f"Hidden: {' and '.join(went)}"), f", {tokens}.")
    for item in hidden.items:
        screen.line(f"  {item.handle}", ("dim", f"  {short_line(item.reason, 200)}"))
    show_undo(hidden.conversation, screen)


HIDE = Command(
    name="hide",
    details="Tool calls are hidden with their results. Pins and the latest request are refused. "
    "Nothing is lost: refold unfold ID #41 shows a message, refold undo brings all of them back.",
    arguments=HideArguments,
    run=run_hide,
    show=show_hide,
)


BACKUPS_MAX = 1_000

BACKUP = Meta(
    description="First write the whole conversation to this file, as refold export does. It must "
    "not exist yet.",
    extra={"metavar": "FILE"},
)
CHECKPOINT = Meta(description="A name for the place before.", extra={"metavar": "NAME"})


YES = Meta(description="Do not ask.")


class ClearArguments(Arguments, frozen=True, kw_only=True):
    backup: Annotated[str, BACKUP] | None = None
    checkpoint: Annotated[str, CHECKPOINT] = ""
    yes: Annotated[bool, YES] = False


class Cleared(PageChange, frozen=True, kw_only=True):
    """The slots that are left are pins and system messages."""

    backup: str | UnsetType = UNSET


def run_clear(session: Session, arguments: ClearArguments) -> Cleared:
    check_checkpoint(arguments.checkpoint)
    with session.context(writes=True) as context:
        before = page_size(context)
        backup = _agreed(session, context, arguments)
        if backup is not None:
            export_file(session.store, context.id, backup, format="json")
        context.clear(checkpoint=arguments.checkpoint)
        after = page_size(context)
    written = UNSET if backup is None else backup
    return Cleared(conversation=context.id, **sizes(before, after), backup=written)


def _agreed(session: Session, context: Context, arguments: ClearArguments) -> str | None:
    """The backup to write, if there is to be one; asks unless that was answered already."""
    if arguments.yes:
        return arguments.backup
    messages = number(len(context.view.slots), "message")
    session.confirm(
        f"Take {messages} off the page of {context.id}?", yes=False, reason="clear asks first"
    )
    if arguments.backup is not None:
        return arguments.backup
    file = _free_name(context.id)
    return file if session.ask(f"Write the whole conversation to {file} first?") else None


def _free_name(id: str) -> str:
    """A name that no file in the current folder has."""
    plain = re.sub(r"[^\w.-]", "_", id)[:100]
    names = (f"{plain}-backup{count or ''}.json" for count in range(BACKUPS_MAX))
    return next((name for name in names if not os.path.lexists(name)), f"{plain}.json")


def show_clear(cleared: Cleared, screen: Screen) -> None:
    if cleared.backup is not UNSET:
        screen.line(f"Backup: {cleared.backup}; {screen.call('import')} reads it again.")
    if cleared.slots_before == cleared.slots_after:
        screen.line(f"Nothing was done: the page of {cleared.conversation} is clear already.")
        return
    screen.line(("bold", f"Cleared {cleared.conversation}"), f": {sizes_text(cleared)}.")
    show_undo(cleared.conversation, screen)


CLEAR = Command(
    name="clear",
    details="Pins, system prompt and tools stay. Nothing is lost: refold undo takes it back.",
    arguments=ClearArguments,
    run=run_clear,
    show=show_clear,
)
