"""`refold statusline`: one line about a conversation, or about the session of Claude Code.

The shell answers the plain form before it loads any command (`edges/statusline`); this is the same
for `--json`, help and completion.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges import statusline
from refold.edges.commands.command import Result, Screen, command
from refold.edges.commands.session import Session


class StatusLine(Result, frozen=True, kw_only=True):
    """`line` is empty if there is no conversation."""

    line: str

    def show(self, screen: Screen) -> None:
        screen.out.write(f"{self.line}\n")


@command(
    "statusline",
    details="Never fails: if there is nothing to show, the line is empty.",
    on="store",
    reads=True,
)
def status_line(
    session: Session,
    *,
    conversation: Annotated[
        str,
        Meta(
            description="The conversation; by default what Claude Code gives on standard input, "
            "else the newest.",
            extra={"positional": True, "metavar": "ID", "completes": "conversation"},
        ),
    ] = "",
    short: Annotated[bool, Meta(description="Only how full the window is.")] = False,
    color: Annotated[bool, Meta(description="Yellow from 80%, red from 90%.")] = False,
) -> StatusLine:
    store = session.store_url or ""
    return StatusLine(line=statusline.line(conversation, store, short=short, color=color))
