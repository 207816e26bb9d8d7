"""`refold delete` and `refold sweep`: conversations go for good. On a terminal both ask first; nothing else here does.

What is gone cannot be brought back, so a sweep can be tried with `--dry-run`, and a pipe must say `--yes`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from refold.edges.cli.options import command, named, opened_store, store_option
from refold.edges.cli.screen import Screen
from refold.errors import Invalid

if TYPE_CHECKING:
    from refold.sessions import Swept

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@command("delete", click.argument("conversations", metavar="ID...", nargs=-1, required=True), yes_option, store_option)
def delete_(screen: Screen, conversations: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Removes conversations for good."""
    with opened_store(store) as there:
        ids = [there.conversation(named(there, name)).id for name in conversations]
        _confirm(screen, f"Remove {', '.join(ids)} for good?", yes)
        for id in ids:
            there.delete(id)
    if screen.json_output:
        screen.emit({"removed": ids})
    else:
        screen.line(f"Removed: {', '.join(ids)}.")


@command(
    "sweep",
    click.option("--older-than", "days", type=click.FloatRange(min=0), help="Days without a new event."),
    click.option("--keep", type=click.IntRange(min=0), help="So many of the newest stay."),
    click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing."),
    yes_option,
    store_option,
)
def sweep_(
    screen: Screen, days: float | None, keep: int | None, dry_run: bool, yes: bool, store: str | None
) -> None:  # fmt: skip
    """Removes old conversations for good, by age and by number."""
    from refold.log import now_ms
    from refold.sessions import swept

    with opened_store(store) as there:
        limits = {"older_than_days": days, "keep": keep, "now_ms": now_ms()}
        going = swept(there, **limits, dry_run=True)  # type: ignore[arg-type]
        if dry_run or not going.removed:
            _told(screen, going, "would be removed")
            return
        _confirm(screen, f"Remove {len(going.removed):,} conversations for good?", yes)
        _told(screen, swept(there, **limits), "removed")  # type: ignore[arg-type]


def _told(screen: Screen, done: Swept, what: str) -> None:
    if screen.json_output:
        screen.emit({what.replace(" ", "_"): list(done.removed), "left": done.left})
        return
    screen.line(f"{len(done.removed):,} {what}{': ' + ', '.join(done.removed) if done.removed else '.'}")
    for id, reason in done.left.items():
        screen.line(f"{id} stays: {reason}")


def _confirm(screen: Screen, question: str, yes: bool) -> None:
    if yes:
        return
    if screen.json_output or not sys.stdin.isatty():
        raise Invalid("this removes conversations for good", hint="say --yes if that is meant")
    if not click.confirm(question, default=False):
        raise click.Abort
