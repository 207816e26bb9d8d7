"""`refold redo`: brings back what was undone last, one step at a time."""

from __future__ import annotations

from msgspec.structs import asdict

from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, show_undo
from refold.edges.commands.undo import Step, show_step, take_step
from refold.engine.context import Context


class Redone(Step, frozen=True, kw_only=True):
    redone: bool


def run(session: Session, arguments: Arguments) -> Redone:
    step = take_step(session, Context.redo)
    return Redone(**asdict(step), redone=step.kind != "none")


def show(step: Redone, screen: Screen) -> None:
    if not step.redone:
        screen.line("There is nothing to redo.")
        return
    show_step(step, screen, done="Redone")
    if step.redo_steps:
        left = number(step.redo_steps, "step")
        further = screen.call("redo", step.conversation)
        screen.line(("dim", f"Further with: {further} ({left} left)"))
    show_undo(step.conversation, screen)


COMMAND = Command(
    name="redo",
    details="What refold undo or refold revert switched off is on the page again.",
    arguments=Arguments,
    run=run,
    show=show,
)
