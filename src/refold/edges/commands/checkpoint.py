"""`refold checkpoint`: gives the place that a conversation is at a name."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import TEXT, Arguments, Command, Result, Screen
from refold.edges.commands.position import check_checkpoint
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line

NAME = Meta(description="Its name; by default checkpoint-SEQ.", extra=TEXT)


class CheckpointArguments(Arguments, frozen=True, kw_only=True):
    name: Annotated[str, NAME] = ""


class Marked(Result, frozen=True, kw_only=True):
    """`moved_from` is where a checkpoint of this name was before; 0 if there was none."""

    conversation: str
    name: str
    seq: int
    moved_from: int


def run(session: Session, arguments: CheckpointArguments) -> Marked:
    check_checkpoint(arguments.name)
    with session.context(writes=True) as context:
        before = context.view.checkpoints
        seq = context.checkpoint(arguments.name)
        name = arguments.name or f"checkpoint-{seq}"
    return Marked(conversation=context.id, name=name, seq=seq, moved_from=before.get(name, 0))


def show(marked: Marked, screen: Screen) -> None:
    name = short_line(marked.name, 80)
    moved = f", and no longer #{marked.moved_from}" if marked.moved_from else ""
    screen.line(("bold", f'"{name}"'), f" is {marked.conversation} at #{marked.seq}{moved}.")
    back = screen.call("restore", marked.conversation, marked.name)
    screen.line(("dim", f"Go back with: {back}"))


COMMAND = Command(
    name="checkpoint",
    details="You can restore any seq without a checkpoint; a name is easier to remember.",
    arguments=CheckpointArguments,
    run=run,
    show=show,
)
