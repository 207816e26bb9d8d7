"""`refold redo`: brings back what was undone last, one step at a time."""

from __future__ import annotations

from msgspec.structs import asdict

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import show_undo
from refold.edges.commands.undo import (
    Step,
    StepArguments,
    confirm_files,
    past_of,
    show_step,
    take_step,
)


class Redone(Step, frozen=True, kw_only=True):
    redone: bool


def run(session: Session, arguments: StepArguments) -> Redone:
    if arguments.files:
        confirm_files(session, past_of(session).undone, yes=arguments.yes)
    step = take_step(session, lambda context: context.redo(files=arguments.files))
    return Redone(**asdict(step), redone=step.kind != "none")


def show(step: Redone, screen: Screen) -> None:
    if not step.redone:
        screen.line("There is nothing to redo.")
        return
    show_step(step, screen, done="Redone")
    if step.redo_steps:
        further = screen.call("redo", step.conversation)
        screen.line(("dim", f"Further with: {further}"))
    show_undo(step.conversation, screen, files=bool(step.changes))


COMMAND = Command(
    name="redo",
    details="What refold undo or refold revert switched off is on the page again.",
    arguments=StepArguments,
    run=run,
    show=show,
)
