"""`refold erase`: what was said goes for good, here and, by the next sync, everywhere."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.conversations.eraser import erase, erased
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.position import seq_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.errors import Invalid

SEQS = Meta(
    description="The events, by seq: 41 or #41. Without any, what is erased already is shown.",
    extra={"positional": True, "metavar": "SEQ"},
)
ALL = Meta(description="Erase everything that the conversation says.")
YES = Meta(description="Do not ask.")


class EraseArguments(Arguments, frozen=True, kw_only=True):
    seqs: Annotated[tuple[str, ...], SEQS] = ()
    all: Annotated[bool, ALL] = False
    yes: Annotated[bool, YES] = False


class EraseResult(Result, frozen=True, kw_only=True):
    """What is erased, by seq; how many summaries, memories and contents went now because of it;
    and the devices that said they erased it too, by seq."""

    conversation: str
    seqs: tuple[int, ...]
    derived: int
    contents: int
    confirmed: dict[int, tuple[str, ...]]
    notes: tuple[str, ...]


def run(session: Session, arguments: EraseArguments) -> EraseResult:
    id = session.conversation
    seqs = [seq_of(text) for text in arguments.seqs]
    if seqs and arguments.all:
        raise Invalid("--all erases every event, and some are named", hint="give one of the two")
    if seqs or arguments.all:
        what = "everything" if arguments.all else number(len(seqs), "event")
        session.confirm(
            f"Erase {what} of {id} for good, on every device that syncs?", arguments.yes
        )
        found = erase(session.store, id, None if arguments.all else seqs)
    else:
        found = erased(session.store, id)
    return EraseResult(
        conversation=id,
        seqs=found.seqs,
        derived=found.derived,
        contents=found.contents,
        confirmed=found.confirmed,
        notes=found.notes,
    )


def show(result: EraseResult, screen: Screen) -> None:
    if not result.seqs:
        screen.line(f"Nothing of {result.conversation} is erased.")
        return
    screen.line(f"{number(len(result.seqs), 'event')} of {result.conversation} erased.")
    if result.derived or result.contents:
        made = number(result.derived, "text")
        screen.line(
            f"With them went {made} made of them, and {number(result.contents, 'content')}."
        )
    devices: dict[str, int] = {}
    for names in result.confirmed.values():
        for name in names:
            devices[name] = devices.get(name, 0) + 1
    for name, count in sorted(devices.items()):
        screen.line(("green", "confirmed"), f" {name}: {number(count, 'event')}")
    for note in result.notes:
        screen.note(note)


COMMAND = Command(
    name="erase",
    details="The envelope stays, and the page keeps its shape. Summaries, memories and contents "
    "made of it go too. Other devices erase it when they sync, and say so: refold erase ID shows "
    "which have. What was exported or backed up is not reached.",
    arguments=EraseArguments,
    run=run,
    show=show,
)
