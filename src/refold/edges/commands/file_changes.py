"""Files that `restore`, `undo` and `redo` put back, as a person sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refold.edges.commands.command import Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line
from refold.errors import Invalid
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


def confirm_changes(session: Session, changes: Iterable[FileChange], *, yes: bool) -> None:
    """Asks before files are put back, with what that changes in front of whoever is asked."""
    going = [one for one in changes if one.change not in ("same", "impossible")]
    if not going or yes:
        return
    screen = session.screen
    if screen is not None and not screen.json_output:
        show_changes(going, screen)
        if screen.ask(_question(going)):
            return
    raise Invalid("nothing was changed", hint="--yes puts files back without a question")


def _question(changes: Sequence[FileChange]) -> str:
    removed = sum(one.change == "remove" for one in changes)
    back = len(changes) - removed
    asked = [
        f"put {number(back, 'file')} back" if back else "",
        f"remove {number(removed, 'file')}" if removed else "",
    ]
    return " and ".join(filter(None, asked)).capitalize() + "?"


def show_changes(changes: Iterable[FileChange], screen: Screen) -> None:
    """The differences of files, line by line."""
    for one in changes:
        show_diff(one.diff, screen)


def show_diff(diff: str, screen: Screen) -> None:
    """A unified diff, its lines colored by what they do."""
    for line in diff.splitlines():
        screen.line((DIFF_STYLES.get(line[:1], ""), line))
