"""`refold unpin`: lets compactions take messages that were pinned."""

from __future__ import annotations

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.pin import PinArguments, Pinned, set_pins, show_pins
from refold.edges.commands.session import Session


def run(session: Session, arguments: PinArguments) -> Pinned:
    return set_pins(session, arguments, on=False)


def show(pinned: Pinned, screen: Screen) -> None:
    show_pins(pinned, screen, done="Unpinned", back="pin")


COMMAND = Command(
    name="unpin",
    details="A tool call and its result are unpinned together.",
    arguments=PinArguments,
    run=run,
    show=show,
)
