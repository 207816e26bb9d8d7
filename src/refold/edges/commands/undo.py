"""`refold undo`: takes the newest compaction or restore back."""

from __future__ import annotations

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session


class Undone(Result, frozen=True, kw_only=True):
    """What was undone: a compaction's `batch`, or the event `seq` of a restore; 0 if nothing."""

    conversation: str
    undone: bool
    batch: str
    seq: int
    slots_before: int
    slots_after: int


def run(session: Session, arguments: Arguments) -> Undone:
    with session.context(writes=True) as context:
        before = context.view
        undone = context.undo()
        after = context.view
    return Undone(
        conversation=context.id,
        undone=bool(undone),
        batch=undone.batch,
        seq=undone.seq,
        slots_before=len(before.slots),
        slots_after=len(after.slots),
    )


def show(result: Undone, screen: Screen) -> None:
    if not result.undone:
        screen.line("There is nothing to undo.")
        return
    what = f"the compaction {result.batch}" if result.batch else f"#{result.seq}"
    sizes = f"The page had {result.slots_before:,} slots and has {result.slots_after:,} now."
    screen.line(f"Undone: {what}. {sizes}")


COMMAND = Command(
    name="undo",
    details="Running undo again goes one step further back.",
    arguments=Arguments,
    run=run,
    show=show,
)
