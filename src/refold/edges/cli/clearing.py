"""`refold delete` and `refold sweep`: conversations go for good. On a terminal both ask first.

What is gone cannot be brought back, so a sweep can be tried with `--dry-run`, and a pipe must say
`--yes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refold.edges.cli.options import command, confirm, named, opened_store, store_option, yes_option
from refold.edges.cli.screen import Screen, number

if TYPE_CHECKING:
    from refold.conversations.deleter import Deleted


@command(
    "delete",
    click.argument("conversations", metavar="ID...", nargs=-1, required=True),
    yes_option,
    store_option,
)
def delete_(screen: Screen, conversations: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Removes conversations for good.

    With them go the outputs that only they have, and what the search index knows of them.
    """
    from refold.conversations.deleter import delete
    from refold.errors import OUTCOMES, Conflict

    with opened_store(store) as there:
        ids = [there.conversation(named(there, name)).id for name in conversations]
        confirm(screen, f"Remove {', '.join(ids)} for good?", yes)
        done = delete(there, ids)
    _told(screen, done, "removed")
    if done.left:
        raise click.exceptions.Exit(OUTCOMES[Conflict.code][1])


@command(
    "sweep",
    click.option(
        "--older-than", "days", type=click.FloatRange(min=0), help="Days without a new event."
    ),
    click.option("--keep", type=click.IntRange(min=0), help="So many of the newest stay."),
    click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing."),
    yes_option,
    store_option,
)
def sweep_(
    screen: Screen,
    days: float | None,
    keep: int | None,
    dry_run: bool,
    yes: bool,
    store: str | None,
) -> None:
    """Removes old conversations for good, by age and by number."""
    from refold.conversations.deleter import sweep
    from refold.log.log import now_ms

    with opened_store(store) as there:
        limits = {"older_than_days": days, "keep": keep, "now_ms": now_ms()}
        going = sweep(there, **limits, dry_run=True)  # type: ignore[arg-type]
        if dry_run or not going.removed:
            _told(screen, going, "would be removed")
            return
        confirm(screen, f"Remove {len(going.removed):,} conversations for good?", yes)
        _told(screen, sweep(there, **limits), "removed")  # type: ignore[arg-type]


def _told(screen: Screen, done: Deleted, what: str) -> None:
    if screen.json_output:
        gone = {what.replace(" ", "_"): list(done.removed), "contents": done.contents}
        screen.emit({**gone, "left": done.left, "notes": list(done.notes)})
        return
    outputs = (
        f", and {number(done.contents, 'output')} that nobody else has" if done.contents else ""
    )
    screen.line(
        f"{len(done.removed):,} {what}{': ' + ', '.join(done.removed) if done.removed else ''}{outputs}."
    )
    for id, reason in done.left.items():
        screen.line(f"{id} stays: {reason}")
    for note in done.notes:
        screen.line(("yellow", note))
