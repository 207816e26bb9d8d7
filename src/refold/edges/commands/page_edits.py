"""`refold pin`, `refold hide` and `refold clear`: manual changes of the page.

Nothing is removed: `undo` reverts the edits, `pin --off` the pins. Tool calls and their results go
together. `clear` still asks first, because an agent with an empty page no longer knows what it did,
and offers a backup; if that fails, the page stays.
"""

from __future__ import annotations

import os
import re
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from refold.conversations.exporter import export_file
from refold.core.plan import Item
from refold.display import number
from refold.edges.commands.command import (
    MESSAGES,
    POSITIONAL,
    Result,
    Screen,
    Yes,
    check_checkpoint,
    command,
    seq_of,
    short_line,
    show_undo,
)
from refold.edges.commands.page import named_messages
from refold.edges.commands.session import Session
from refold.edges.commands.undo import PageChange, page_size, sizes, sizes_text
from refold.engine.context import Context

BACKUPS_MAX = 1_000


OFF = Meta(description="Unpin them: compactions may take them again.")


@command("pin", details="A tool call and its result are pinned and unpinned together.")
def pin(
    session: Session,
    *,
    seqs: Annotated[tuple[str, ...], MESSAGES],
    off: Annotated[bool, OFF] = False,
) -> Pinned:
    asked = tuple(seq_of(text) for text in seqs)
    with session.context(writes=True) as context:
        # All messages are looked up before anything is written.
        named_messages(session.store, context.id, asked)
        before = context.view.pins
        for seq in asked:
            if (seq in context.view.pins) == off:
                context.pin(seq, on=not off)
        after = context.view.pins
    return Pinned(
        conversation=context.id,
        asked=asked,
        changed=tuple(sorted(before ^ after)),
        pins=tuple(sorted(after)),
        is_off=off,
    )


class Pinned(Result, frozen=True, kw_only=True):
    """`changed` are the messages that were pinned or unpinned now, with their tool pairs; `pins`
    are all that are pinned."""

    conversation: str
    asked: tuple[int, ...]
    changed: tuple[int, ...]
    pins: tuple[int, ...]
    is_off: bool = False

    def show(self, screen: Screen) -> None:
        if self.changed:
            pairs = " (with tool pairs)" if set(self.changed) - set(self.asked) else ""
            done = "Unpinned" if self.is_off else "Pinned"
            screen.line(("bold", f"{done}: "), f"{_names(self.changed)}{pairs}.")
        else:
            screen.line("Nothing changed.")
        screen.line(f"Pins of {self.conversation} now: {_names(self.pins) or 'none'}.")
        if self.changed:
            words = [*map(str, self.changed), *([] if self.is_off else ["--off"])]
            back = screen.call("pin", self.conversation, *words)
            screen.line(("dim", f"Undo with: {back}"))


def _names(seqs: tuple[int, ...]) -> str:
    return ", ".join(f"#{seq}" for seq in seqs)


FIRST = Meta(
    description="The first message, as 41 or #41.", extra={**POSITIONAL, "metavar": "FIRST"}
)
LAST = Meta(
    description="The last message; without it, only the first is hidden.",
    extra={**POSITIONAL, "metavar": "LAST"},
)


@command(
    "hide",
    details="Tool calls are hidden with their results. Pins and the latest request are refused. "
    "Nothing is lost: refold show ID #41 shows a message, refold undo brings all of them back.",
)
def hide(
    session: Session,
    *,
    first: Annotated[str, FIRST],
    last: Annotated[str, LAST] | None = None,
) -> Hidden:
    start = seq_of(first)
    end = start if last is None else seq_of(last)
    with session.context(writes=True) as context:
        before = context.view.slots
        receipt = context.hide(start, end)
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


class Hidden(Result, frozen=True, kw_only=True):
    """`batch` can be reverted; `items` are the hidden spans, each with its reason. `hidden` counts
    messages, `summaries` hidden stand-ins."""

    conversation: str
    batch: str
    items: tuple[Item, ...]
    hidden: int
    summaries: int
    tokens_before: int
    tokens_after: int

    def show(self, screen: Screen) -> None:
        tokens = f"{self.tokens_before:,} -> {self.tokens_after:,} tokens"
        went = [number(self.hidden, "message")] if self.hidden else []
        if self.summaries:
            went.append("what stood for other messages" if went else "what stood for messages")
        screen.line(("bold", f"Hidden: {' and '.join(went)}"), f", {tokens}.")
        for item in self.items:
            screen.line(f"  {item.handle}", ("dim", f"  {short_line(item.reason, 200)}"))
        show_undo(self.conversation, screen)


BACKUP = Meta(
    description="First write the whole conversation to this file, as refold export does. It must "
    "not exist yet.",
    extra={"metavar": "FILE"},
)
CHECKPOINT = Meta(description="A name for the place before.", extra={"metavar": "NAME"})


@command(
    "clear",
    details="Pins, system prompt and tools stay. Nothing is lost: refold undo takes it back.",
)
def clear(
    session: Session,
    *,
    backup: Annotated[str, BACKUP] | None = None,
    checkpoint: Annotated[str, CHECKPOINT] = "",
    yes: Yes = False,
) -> Cleared:
    check_checkpoint(checkpoint)
    with session.context(writes=True) as context:
        before, head = page_size(context), context.view.head
        if not yes:
            backup = _agreed(session, context, backup)
        if backup is not None:
            export_file(session.store, context.id, backup, format="json")
        context.clear(checkpoint=checkpoint, expect=None if yes else head)
        after = page_size(context)
    written = UNSET if backup is None else backup
    return Cleared(conversation=context.id, **sizes(before, after), backup=written)


class Cleared(PageChange, frozen=True, kw_only=True):
    """The remaining slots are pins and system messages."""

    backup: str | UnsetType = UNSET

    def show(self, screen: Screen) -> None:
        if self.backup is not UNSET:
            screen.line(f"Backup: {self.backup}; {screen.call('import')} reads it again.")
        if self.slots_before == self.slots_after:
            screen.line(f"Nothing was done: the page of {self.conversation} is clear already.")
            return
        screen.line(("bold", f"Cleared {self.conversation}"), f": {sizes_text(self)}.")
        show_undo(self.conversation, screen)


def _agreed(session: Session, context: Context, backup: str | None) -> str | None:
    """Asks for confirmation, and offers a backup if none is named; returns its file."""
    messages = number(len(context.view.slots), "message")
    session.confirm(
        f"Take {messages} off the page of {context.id}?", yes=False, reason="clear asks first"
    )
    if backup is not None:
        return backup
    file = _free_name(context.id)
    return file if session.ask(f"Write the whole conversation to {file} first?") else None


def _free_name(id: str) -> str:
    """A file name that is unused in the current folder."""
    plain = re.sub(r"[^\w.-]", "_", id)[:100]
    names = (f"{plain}-backup{count or ''}.json" for count in range(BACKUPS_MAX))
    return next((name for name in names if not os.path.lexists(name)), f"{plain}.json")
