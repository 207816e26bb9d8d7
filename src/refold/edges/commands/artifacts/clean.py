"""`refold artifacts clean`: old artifacts are removed, of one conversation or of all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from refold.artifacts import cleanup
from refold.artifacts.cleanup import Quota
from refold.edges.commands.artifacts import RemovedItem, removed_item
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line, show_damage
from refold.errors import Invalid
from refold.log.log import now_ms

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
BYTES = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]{0,2})", re.IGNORECASE)
NAME = Meta(
    description="The conversation; by default all.", extra={"positional": True, "metavar": "ID"}
)
OLDER_THAN = Meta(description="Remove what is older: 30d, 12h.", extra={"metavar": "TIME"})
KEEP_BYTES = Meta(
    description="Remove the oldest until this much is left: 100MB.", extra={"metavar": "SIZE"}
)
KEEP_COUNT = Meta(description="Remove the oldest until this many are left.", ge=0)
DRY_RUN = Meta(description="Say what would be removed, and remove nothing.")


class CleanArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] | None = None
    older_than: Annotated[str, OLDER_THAN] | None = None
    keep_bytes: Annotated[str, KEEP_BYTES] | None = None
    keep_count: Annotated[int, KEEP_COUNT] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False


class Cleaned(Result, frozen=True, kw_only=True):
    """What was removed (or would be), and what was over the bounds but had to stay."""

    dry_run: bool
    size_bytes: int
    removed: tuple[RemovedItem, ...]
    kept: tuple[RemovedItem, ...]
    damaged: dict[str, str]

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"


def run(session: Session, arguments: CleanArguments) -> Cleaned:
    quota = _quota(arguments)
    name = arguments.conversation
    done = cleanup.clean(
        session.store,
        quota,
        conversation=None if name is None else session.find(name),
        now_ms=now_ms(),
        dry_run=arguments.dry_run,
    )
    return Cleaned(
        dry_run=arguments.dry_run,
        size_bytes=done.size_bytes,
        removed=tuple(map(removed_item, done.removed)),
        kept=tuple(map(removed_item, done.kept)),
        damaged=done.damaged,
    )


def _quota(arguments: CleanArguments) -> Quota:
    """What may stay, in seconds and bytes."""
    age, size = arguments.older_than, arguments.keep_bytes
    return Quota(
        older_than_s=None if age is None else amount(age, "time", SECONDS),
        keep_bytes=None if size is None else int(amount(size, "size", BYTES)),
        keep_count=arguments.keep_count,
    )


def amount(text: str, kind: str, units: Mapping[str, int]) -> float:
    """A number with a unit, such as `30d` or `1.5 MB`; Invalid if it is not one."""
    found = _AMOUNT.fullmatch(text.strip())
    unit = found[2].lower() if found else ""
    if found is None or unit not in units:
        known = ", ".join(f"10{name}" for name in units if name)
        reason = f"{short_line(text, 40)!r} is not a {kind} such as {known}"
        raise Invalid(reason, hint="refold artifacts clean --help")
    return float(found[1]) * units[unit]


def show(done: Cleaned, screen: Screen) -> None:
    for item in done.removed:
        _show_item("- ", item, screen)
    for item in done.kept:
        _show_item("  ", item, screen)
    screen.line(_totals(done))
    show_damage(done.damaged, screen)


def _totals(done: Cleaned) -> str:
    """`2 artifacts removed (4,096 bytes), 1 artifact over the bounds had to stay.`"""
    verb = "would be removed" if done.dry_run else "removed"
    removed = f"{number(len(done.removed), 'artifact')} {verb} ({number(done.size_bytes, 'byte')})"
    if not done.kept:
        return f"{removed}."
    return f"{removed}, {number(len(done.kept), 'artifact')} over the bounds had to stay."


def _show_item(mark: str, item: RemovedItem, screen: Screen) -> None:
    screen.line(("cyan", f"{mark}{item.id} "), short_line(f"{item.name}: {item.why}", 200))


COMMAND = Command(
    name="artifacts clean",
    details="Keeps what a page shows or names, what was stored by hand, and what is new.",
    on="store",
    arguments=CleanArguments,
    run=run,
    show=show,
)
