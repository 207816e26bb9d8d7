"""`refold hook claude-code`: what installing and uninstalling share.

The change is shown before it is made, and made when it is agreed to. Neighbour:
`edges.hooks.settings_file` has the change itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from refold.edges.commands import host_change
from refold.edges.commands.command import Arguments
from refold.edges.commands.host_change import Changed
from refold.edges.commands.session import Session
from refold.edges.hooks import settings_file
from refold.edges.hooks.settings_file import Scope
from refold.edges.hosts import host_file
from refold.edges.hosts.host_file import Settings

__all__ = ["Changed", "ScopeArguments", "change"]
SCOPE = Meta(
    description="Whose settings: yours in this project, those of the project, or yours everywhere."
)
YES = Meta(description="Change the settings without asking.")


class ScopeArguments(Arguments, frozen=True, kw_only=True):
    scope: Annotated[Scope, SCOPE] = "local"
    yes: Annotated[bool, YES] = False


Edit = Callable[[Settings], Settings]


def change(session: Session, arguments: ScopeArguments, edit: Edit) -> Changed:
    """Shows what changes in the file, asks, and writes it."""
    path = settings_file.place_of(arguments.scope)
    before = host_file.read(path)
    settings = host_file.json_in(before, path)
    after = edit(settings)
    lines: tuple[str, ...] = ()
    if after != settings:
        text = host_file.json_text(after, before)
        asked = arguments.yes
        lines = host_change.change(session, path, before, text, yes=asked, of="Claude Code")
    return Changed(file=str(path), scope=arguments.scope, lines=lines)
