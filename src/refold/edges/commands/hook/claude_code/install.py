"""`refold hook claude-code install`: Claude Code calls refold after tools and compactions."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.hook.claude_code import Changed, ScopeArguments, change
from refold.edges.commands.session import Session
from refold.edges.hooks import ABOVE_CHARS, settings_file
from refold.edges.hooks.settings_file import with_hooks
from refold.edges.hosts import host_file

ABOVE = Meta(
    description="The size, in characters, from which an output becomes an artifact.",
    ge=1_000,
    le=10_000_000,
)
NO_STATUSLINE = Meta(description="Leave the status line alone.")


class InstallArguments(ScopeArguments, frozen=True, kw_only=True):
    above: Annotated[int, ABOVE] = ABOVE_CHARS
    no_statusline: Annotated[bool, NO_STATUSLINE] = False


def run(session: Session, arguments: InstallArguments) -> Changed:
    is_shared = arguments.scope == "project"
    program = shlex.quote(host_file.program(is_shared=is_shared))
    line = "" if arguments.no_statusline else f"{program} statusline --color"
    command = settings_file.hook_command(arguments.above, session.store_url, program)
    return change(session, arguments, partial(with_hooks, command=command, status_line=line))


def show(changed: Changed, screen: Screen) -> None:
    if not changed.lines:
        screen.line(f"{changed.file} has the hooks already.")
        return
    screen.line(f"Claude Code calls refold from its next session on ({changed.file}).")
    undo = screen.call("hook claude-code uninstall", "", "--scope", changed.scope)
    screen.line(f"Undo with: {undo}")


COMMAND = Command(
    name="hook claude-code install",
    details="Large tool outputs become artifacts before they are sent, sessions are kept in the "
    "store, and after a compaction the model gets back what was decided.",
    on="store",
    arguments=InstallArguments,
    run=run,
    show=show,
)
