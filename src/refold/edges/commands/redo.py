"""`refold redo`: brings back what was undone last, one step at a time."""

from __future__ import annotations

from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.page_change import page_size, sizes
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, show_undo
from refold.edges.commands.undo import Step, past_of, show_step


class Redone(Step, frozen=True, kw_only=True):
    redone: bool


def run(session: Session, arguments: Arguments) -> Redone:
    with session.context(writes=True) as context:
        before = page_size(context)
        done = context.redo()
        after = page_size(context)
    past = past_of(session)
    return Redone(
        conversation=context.id,
        redone=bool(done),
        kind=done.kind,
        batch=done.batch,
        seq=done.seq,
        made_room=done.made_room,
        undo_steps=len(past.standing),
        redo_steps=len(past.undone),
        **sizes(before, after),
    )


def show(step: Redone, screen: Screen) -> None:
    if not step.redone:
        screen.line("There is nothing to redo.")
        return
    show_step(step, screen, done="Redone")
    if step.redo_steps:
        left = number(step.redo_steps, "step")
        screen.line(("dim", f"Further with: refold redo {step.conversation} ({left} left)"))
    show_undo(step.conversation, screen)


COMMAND = Command(
    name="redo",
    details="What refold undo or refold revert switched off is on the page again.",
    arguments=Arguments,
    run=run,
    show=show,
)
