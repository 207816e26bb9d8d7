"""`refold hook claude-code`: what installing and uninstalling share.

The change is shown before it is made, and made when it is agreed to. Neighbour:
`edges.hooks.settings_file` has the change itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Result
from refold.edges.commands.session import Session
from refold.edges.hooks import settings_file
from refold.edges.hooks.settings_file import Scope, Settings

NOBODY_ASKED = "this changes the settings of Claude Code"
SCOPE = Meta(
    description="Whose settings: yours in this project, those of the project, or yours everywhere."
)
YES = Meta(description="Change the settings without asking.")


class ScopeArguments(Arguments, frozen=True, kw_only=True):
    scope: Annotated[Scope, SCOPE] = "local"
    yes: Annotated[bool, YES] = False


class Changed(Result, frozen=True, kw_only=True):
    """`lines` is the change as a patch; empty if there was nothing to do."""

    file: str
    scope: Scope
    lines: tuple[str, ...]


Edit = Callable[[Settings], Settings]


def change(session: Session, arguments: ScopeArguments, edit: Edit) -> Changed:
    """Shows what changes in the file, asks, and writes it."""
    path = settings_file.place_of(arguments.scope)
    settings, before = settings_file.read(path)
    after = edit(settings)
    if after == settings:
        return Changed(file=str(path), scope=arguments.scope, lines=())
    text = settings_file.text_of(after, before)
    lines = tuple(settings_file.difference(before, text, str(path)))
    if session.screen is not None and not arguments.yes:
        for line in lines:
            session.screen.line(line)
    session.confirm(f"Change {path}?", arguments.yes, NOBODY_ASKED)
    settings_file.write(path, before, text)
    return Changed(file=str(path), scope=arguments.scope, lines=lines)
