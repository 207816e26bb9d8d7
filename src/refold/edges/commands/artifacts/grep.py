"""`refold artifacts grep`: which lines of the artifacts match."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from refold.artifacts.artifacts import Matches
from refold.edges.commands.artifacts import ARTIFACT, stored_artifacts
from refold.edges.commands.command import POSITIONAL, Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number

PATTERN = Meta(description="The text to look for.", extra=POSITIONAL)
REGEX = Meta(description="The pattern is a regular expression.", extra={"short": "-e"})
IGNORE_CASE = Meta(description="Ignore upper and lower case.", extra={"short": "-i"})
LIMIT = Meta(description="At most this many lines.", ge=1, le=1_000)
WAIT = Meta(description="At most this many seconds.", ge=0.1, le=60.0)


class GrepArguments(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, PATTERN]
    artifact: Annotated[str, ARTIFACT] | None = None
    regex: Annotated[bool, REGEX] = False
    ignore_case: Annotated[bool, IGNORE_CASE] = False
    limit: Annotated[int, LIMIT] = 50
    wait: Annotated[float, WAIT] = 10.0


class GrepLine(Struct, frozen=True, kw_only=True):
    artifact: str
    line: int
    text: str


class Grepped(Result, frozen=True, kw_only=True):
    """`ended` says why the search stopped early, if it did."""

    conversation: str
    lines: tuple[GrepLine, ...]
    ended: str


def run(session: Session, arguments: GrepArguments) -> Grepped:
    stored = stored_artifacts(session)
    found = stored.artifacts.grep(
        arguments.pattern,
        arguments.artifact or "",
        regex=arguments.regex,
        ignore_case=arguments.ignore_case,
        limit=arguments.limit,
        wait_s=arguments.wait,
    )
    lines: list[GrepLine] = []
    for one in found:
        lines += _lines(one)
    ended = "; ".join(one.grepped.ended for one in found if one.grepped.ended)
    return Grepped(conversation=stored.id, lines=tuple(lines), ended=ended)


def _lines(found: Matches) -> list[GrepLine]:
    """The lines that match in one artifact."""
    lines = found.grepped.lines
    return [GrepLine(artifact=found.handle, line=one.number, text=one.text) for one in lines]


def show(grepped: Grepped, screen: Screen) -> None:
    for line in grepped.lines:
        screen.line(("cyan", f"{line.artifact}:{line.line}: "), line.text)
    count = f"{number(len(grepped.lines), 'line')} found"
    if grepped.ended:
        screen.line(("yellow", f"{count}; {grepped.ended}, there may be more."))
    elif not grepped.lines:
        screen.line(("yellow", f"{count}."))


COMMAND = Command(
    name="artifacts grep",
    reads=True,
    arguments=GrepArguments,
    run=run,
    show=show,
)
