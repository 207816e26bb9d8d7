"""What `delete` and `sweep` give back: which conversations are gone, and which had to stay."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from refold.edges.commands.command import Result, Screen
from refold.edges.commands.text import number


class Removal(Result, frozen=True, kw_only=True):
    """`removed` is what is gone, `would_be_removed` what a dry run names; `contents` counts the
    artifacts that went with them. `left` says why a conversation had to stay."""

    removed: tuple[str, ...] | UnsetType = UNSET
    would_be_removed: tuple[str, ...] | UnsetType = UNSET
    contents: int
    left: dict[str, str]
    notes: tuple[str, ...]


def show(removal: Removal, screen: Screen) -> None:
    if removal.would_be_removed is not UNSET:
        ids, verb = removal.would_be_removed, "would be removed"
    else:
        ids, verb = removal.removed or (), "removed"
    names = f": {', '.join(ids)}" if ids else ""
    artifacts = ""
    if removal.contents:
        artifacts = f", and {number(removal.contents, 'artifact')} that nobody else has"
    screen.line(f"{len(ids):,} {verb}{names}{artifacts}.")
    for id, reason in removal.left.items():
        screen.line(f"{id} stays: {reason}")
    for note in removal.notes:
        screen.line(("yellow", note))
