"""Changing a file of another program: shown, asked for, written.

Neighbours: `hook` and `mcp` say what changes, `edges.hosts.host_file` writes it.
"""

from __future__ import annotations

from pathlib import Path

from refold.edges.commands.command import Result
from refold.edges.commands.session import Session
from refold.edges.hosts import host_file


class Changed(Result, frozen=True, kw_only=True):
    """`lines` is the change as a patch; empty if there was nothing to do."""

    file: str
    scope: str
    lines: tuple[str, ...] = ()


def change(
    session: Session, path: Path, before: bytes, after: str, *, yes: bool, of: str
) -> tuple[str, ...]:
    """Shows what changes in the file, asks, and writes it; gives the lines that changed."""
    lines = tuple(host_file.difference(before, after, str(path)))
    if session.screen is not None and not yes:
        for line in lines:
            session.screen.line(line)
    session.confirm(f"Change {path}?", yes, f"this changes the settings of {of}")
    host_file.write(path, before, after)
    return lines
