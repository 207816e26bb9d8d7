"""`refold pin`: keeps messages on the page verbatim, through every compaction."""

from __future__ import annotations

from typing import Annotated

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.events import named_messages
from refold.edges.commands.position import MESSAGES, seq_of
from refold.edges.commands.session import Session


class PinArguments(Arguments, frozen=True, kw_only=True):
    seqs: Annotated[tuple[str, ...], MESSAGES]


class Pinned(Result, frozen=True, kw_only=True):
    """`changed` are the messages that were pinned or unpinned now, with their tool pairs; `pins`
    are all that are pinned."""

    conversation: str
    asked: tuple[int, ...]
    changed: tuple[int, ...]
    pins: tuple[int, ...]


def run(session: Session, arguments: PinArguments) -> Pinned:
    return set_pins(session, arguments, on=True)


def set_pins(session: Session, arguments: PinArguments, *, on: bool) -> Pinned:
    """Pins or unpins. All messages are looked for before anything is written."""
    seqs = tuple(seq_of(text) for text in arguments.seqs)
    with session.context(writes=True) as context:
        named_messages(session.store, context.id, seqs)
        before = context.view.pins
        # What is so already is not written again.
        for seq in seqs:
            is_pinned = seq in context.view.pins
            if on and not is_pinned:
                context.pin(seq)
            if is_pinned and not on:
                context.unpin(seq)
        after = context.view.pins
    changed = tuple(sorted(before ^ after))
    return Pinned(conversation=context.id, asked=seqs, changed=changed, pins=tuple(sorted(after)))


def show(pinned: Pinned, screen: Screen) -> None:
    show_pins(pinned, screen, done="Pinned", back="unpin")


def show_pins(pinned: Pinned, screen: Screen, *, done: str, back: str) -> None:
    """What was done, what is pinned now, and the command that takes it back."""
    if pinned.changed:
        pairs = " (with tool pairs)" if set(pinned.changed) - set(pinned.asked) else ""
        screen.line(("bold", f"{done}: "), f"{_names(pinned.changed)}{pairs}.")
    else:
        screen.line("Nothing was changed: it already was so.")
    screen.line(f"Pins of {pinned.conversation} now: {_names(pinned.pins) or 'none'}.")
    if pinned.changed:
        undo = screen.call(back, pinned.conversation, *map(str, pinned.changed))
        screen.line(("dim", f"Undo with: {undo}"))


def _names(seqs: tuple[int, ...]) -> str:
    return ", ".join(f"#{seq}" for seq in seqs)


COMMAND = Command(
    name="pin",
    details="A tool call and its result are pinned together.",
    arguments=PinArguments,
    run=run,
    show=show,
)
