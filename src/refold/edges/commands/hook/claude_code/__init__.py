"""`refold hook claude-code`: what installing and uninstalling share.

The change is shown before it is made, and made when it is agreed to. Neighbour:
`edges.hooks.settings_file` has the change itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Result, Screen
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
    """`lines` is the change as a patch; empty if there was nothing to do. `kept` says what of
    others stands where ours would."""

    file: str
    lines: tuple[str, ...]
    kept: str = ""


def change(
    session: Session, path: Path, before: bytes, after: Settings, *, yes: bool, kept: str = ""
) -> Changed:
    """Shows what changes in the file, asks, and writes it."""
    is_same = after == settings_file.read(path)[0]
    text = settings_file.text_of(after, before)
    lines = () if is_same else tuple(settings_file.difference(before, text, str(path)))
    if lines:
        if session.screen is not None and not yes:
            show_lines(lines, session.screen)
        session.confirm(f"Change {path}?", yes, NOBODY_ASKED)
        settings_file.write(path, before, text)
    return Changed(file=str(path), lines=lines, kept=kept)


def show_lines(lines: tuple[str, ...], screen: Screen) -> None:
    for line in lines:
        screen.line(line)
