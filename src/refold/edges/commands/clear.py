"""`refold clear`: an empty page, but for the system prompt, the tools and the pins.

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
from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.page_change import PageChange, page_size, sizes, sizes_text
from refold.edges.commands.position import check_checkpoint
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, show_undo
from refold.engine.context import Context

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


def run(session: Session, arguments: ClearArguments) -> Cleared:
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


def show(cleared: Cleared, screen: Screen) -> None:
    if cleared.backup is not UNSET:
        screen.line(f"Backup: {cleared.backup}; {screen.call('import')} reads it again.")
    if cleared.slots_before == cleared.slots_after:
        screen.line(f"Nothing was done: the page of {cleared.conversation} is clear already.")
        return
    screen.line(("bold", f"Cleared {cleared.conversation}"), f": {sizes_text(cleared)}.")
    show_undo(cleared.conversation, screen)


COMMAND = Command(
    name="clear",
    details="Pins, system prompt and tools stay. Nothing is lost: refold undo takes it back.",
    arguments=ClearArguments,
    run=run,
    show=show,
)
