"""`refold statusline`: one line about a conversation, or about what Claude Code says of its own.

The shell answers the plain form before it loads any command (`edges/statusline`); this is the same
for `--json`, help and completion.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges import statusline
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session

NAME = Meta(
    description="The conversation; by default what Claude Code gives on standard input, else the "
    "newest.",
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)
SHORT = Meta(description="Only how full the window is.")
COLOR = Meta(description="Yellow from 80%, red from 90%.")


class StatuslineArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] = ""
    short: Annotated[bool, SHORT] = False
    color: Annotated[bool, COLOR] = False


class StatusLine(Result, frozen=True, kw_only=True):
    """`line` is empty where there is nothing to tell."""

    line: str


def run(session: Session, arguments: StatuslineArguments) -> StatusLine:
    name, store = arguments.conversation, session.store_url or ""
    found = statusline.line(name, store, short=arguments.short, color=arguments.color)
    return StatusLine(line=found)


def show(found: StatusLine, screen: Screen) -> None:
    screen.out.write(f"{found.line}\n")


STATUSLINE = Command(
    name="statusline",
    details="Never fails: if there is nothing to show, the line is empty.",
    on="store",
    reads=True,
    arguments=StatuslineArguments,
    run=run,
    show=show,
)
