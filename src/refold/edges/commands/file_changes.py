"""Files that `restore`, `undo` and `redo` put back, as a person sees them."""

from __future__ import annotations

from collections.abc import Iterable

from refold.edges.commands.command import Screen
from refold.edges.commands.text import short_line
from refold.log.file_versions import FileChange

DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
PUT_BACK = {
    "create": "is there again",
    "change": "is as it was then",
    "remove": "was not there then: removed",
    "same": "is as it was already",
    "impossible": "is left alone",
}


def show_put_back(changes: Iterable[FileChange], screen: Screen, *, dry_run: bool = False) -> None:
    """What became of each file; in a dry run, what would change in it."""
    for one in changes:
        reason = f": {one.reason}" if one.reason else ""
        if dry_run and one.diff:
            show_changes([one], screen)
        else:
            screen.line(short_line(f"  {one.path} {PUT_BACK[one.change]}{reason}", 300))


def show_changes(changes: Iterable[FileChange], screen: Screen) -> None:
    """The differences of files, line by line."""
    for one in changes:
        show_diff(one.diff, screen)


def show_diff(diff: str, screen: Screen) -> None:
    """A unified diff, its lines colored by what they do."""
    for line in diff.splitlines():
        screen.line((DIFF_STYLES.get(line[:1], ""), line))
