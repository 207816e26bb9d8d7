"""`refold clear`: an empty page, but for the system prompt, the tools and the pins.

Nothing is removed: it is one batch that `undo` takes back, so it does not ask. With a backup, the
whole conversation is written to a file first; if that fails, the page stays.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from refold.conversations.exporter import export_file
from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.page_change import PageChange, page_size, sizes, sizes_text
from refold.edges.commands.position import check_checkpoint
from refold.edges.commands.session import Session
from refold.edges.commands.text import show_undo

BACKUP = Meta(
    description="First write the whole conversation to this file, as refold export does. It must "
    "not exist yet.",
    extra={"metavar": "FILE"},
)
CHECKPOINT = Meta(description="A name for the place before.", extra={"metavar": "NAME"})


class ClearArguments(Arguments, frozen=True, kw_only=True):
    backup: Annotated[str, BACKUP] | None = None
    checkpoint: Annotated[str, CHECKPOINT] = ""


class Cleared(PageChange, frozen=True, kw_only=True):
    """The slots that are left are pins and system messages."""

    backup: str | UnsetType = UNSET


def run(session: Session, arguments: ClearArguments) -> Cleared:
    check_checkpoint(arguments.checkpoint)
    with session.context(writes=True) as context:
        if arguments.backup is not None:
            export_file(session.store, context.id, arguments.backup, format="json")
        before = page_size(context)
        context.clear(checkpoint=arguments.checkpoint)
        after = page_size(context)
    backup = UNSET if arguments.backup is None else arguments.backup
    return Cleared(conversation=context.id, **sizes(before, after), backup=backup)


def show(cleared: Cleared, screen: Screen) -> None:
    if cleared.backup is not UNSET:
        screen.line(f"Backup: {cleared.backup}; refold import reads it again.")
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
