"""`refold unfold`: the originals behind a handle, or the summary that stands for them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import line_span

HANDLE = Meta(
    description="A message (#41), a span (#41-58) or an artifact (art-...).",
    extra={"positional": True, "metavar": "HANDLE", "completes": "handle"},
)
LEVEL = Meta(
    description="Show less: the summary, as a line or a paragraph; without one, the beginning."
)
LINES = Meta(description="Only these lines of it, counted from 1.", extra={"metavar": "A-B"})

Level = Literal["line", "paragraph", "full"]


class UnfoldArguments(Arguments, frozen=True, kw_only=True):
    handle: Annotated[str, HANDLE]
    level: Annotated[Level, LEVEL] = "full"
    lines: Annotated[str, LINES] | None = None


class Unfolded(Result, frozen=True, kw_only=True):
    conversation: str
    handle: str
    level: str
    text: str
    asked: Level = "full"


def run(session: Session, arguments: UnfoldArguments) -> Unfolded:
    span = None if arguments.lines is None else line_span(arguments.lines)
    with session.context() as context:
        found = context.unfold(arguments.handle, level=arguments.level, lines=span)
    return Unfolded(
        conversation=context.id,
        handle=found.handle,
        level=found.level,
        text=found.text,
        asked=arguments.level,
    )


def show(unfolded: Unfolded, screen: Screen) -> None:
    if unfolded.level != unfolded.asked:
        screen.note(f"{unfolded.handle} has no levels: this is all of it.")
    screen.line(unfolded.text)


COMMAND = Command(
    name="unfold",
    reads=True,
    arguments=UnfoldArguments,
    run=run,
    show=show,
)
