"""`refold fork`: a new conversation that shares the log of another up to a point."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.core.model import View
from refold.edges.chat.names import new_id
from refold.edges.commands.command import POSITIONAL, Arguments, Command, Result, Screen
from refold.edges.commands.position import POINT_HELP, is_seq, point_seq, seq_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.errors import Invalid

NEW = Meta(
    description="The id of the new conversation; by default one is made from the time.",
    extra=POSITIONAL,
)
AT = Meta(
    description=f"{POINT_HELP} By default, the end.",
    extra={"metavar": "POINT", "completes": "point"},
)


class ForkArguments(Arguments, frozen=True, kw_only=True):
    new: Annotated[str, NEW] | None = None
    at: Annotated[str, AT] | None = None


class Forked(Result, frozen=True, kw_only=True):
    """`conversation` is the new one; it left its `parent` at `parent_seq`."""

    conversation: str
    parent: str
    parent_seq: int
    slots: int


def run(session: Session, arguments: ForkArguments) -> Forked:
    with session.context() as context:
        view = context.view
        _check_meant(view, arguments)
        seq = view.head if arguments.at is None else point_seq(view, arguments.at)
        with context.fork(arguments.new or new_id(session.store), at=seq) as new:
            slots = len(new.view.slots)
    return Forked(conversation=new.id, parent=context.id, parent_seq=seq, slots=slots)


def _check_meant(view: View, arguments: ForkArguments) -> None:
    """Invalid for a fork of nothing, and for a point where the new id stands."""
    if not view.slots:
        raise Invalid("there is nothing to fork yet", hint="ask something first")
    new = arguments.new or ""
    if arguments.at is None and is_seq(new) and 1 <= seq_of(new) <= view.head:
        reason = f"{new} is an event of this conversation, not an id for another"
        raise Invalid(reason, hint=f"--at {new} forks there")


def show(forked: Forked, screen: Screen) -> None:
    origin = f" is a fork of {forked.parent} at #{forked.parent_seq}"
    screen.line(("bold", forked.conversation), f"{origin}, with {number(forked.slots, 'slot')}.")
    screen.line(f"{forked.parent} is as it was.")
    screen.line(("dim", f"Undo with: {screen.call('delete', '', forked.conversation)}"))


COMMAND = Command(
    name="fork",
    details="No event is copied. From there on, the two are independent.",
    arguments=ForkArguments,
    run=run,
    show=show,
)
