"""`refold history`: the compactions of a conversation, its points, and the difference between two.

A receipt is one compaction: its batch, strategy and savings, and whether it was undone. Points are
checkpoints, every tenth message, and the positions before a change of the page. Neighbours:
`restore` goes back to a point, `undo` takes a batch back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from refold.display import local_moment, number, plural
from refold.edges.commands.command import (
    POINT_HELP,
    Limit,
    Result,
    Screen,
    batch_noun,
    command,
    point_seq,
    short_line,
    show_undo,
)
from refold.edges.commands.page import MessageRow, message_rows, show_messages
from refold.edges.commands.session import Session
from refold.edges.commands.undo import show_diff
from refold.errors import Invalid
from refold.log.message_states import Batch
from refold.log.restore_points import EVERY, HOURS, KEEP, Point
from refold.log.undo import FileChange

NAMES_SHOWN = 20


FIRST = Meta(
    description=f"A compaction. With --diff: {POINT_HELP[0].lower()}{POINT_HELP[1:]}",
    extra={"positional": True, "metavar": "A", "completes": "point"},
)
LAST = Meta(
    description="With --diff: the other point; by default the end.",
    extra={"positional": True, "metavar": "B", "completes": "point"},
)
POINTS = Meta(description="The points that restore can go back to.")
DIFF = Meta(description="How the page at A differs from the page at B, and the files with it.")
EVERY_HELP = Meta(description="With --points: also after every this many messages.", ge=0)


@command(
    "history",
    details="Without an option, lists the compactions, their savings, and which are undone.",
    reads=True,
)
def history(
    session: Session,
    *,
    first: Annotated[str, FIRST] | None = None,
    last: Annotated[str, LAST] | None = None,
    points: Annotated[bool, POINTS] = False,
    diff: Annotated[bool, DIFF] = False,
    every: Annotated[int, EVERY_HELP] = EVERY,
    limit: Limit | None = None,
) -> Result:
    if points and diff:
        raise Invalid("--points and --diff exclude each other", hint="refold history --help")
    if diff and first is None:
        raise Invalid("--diff compares points", hint="refold history ID A B --diff")
    if first is not None and not diff:
        with session.context() as context:
            chosen = tuple(one for one in context.log.batches() if one.id == first)
        if not chosen or last is not None or points:
            hint = "refold history ID lists the compactions; two points need --diff"
            raise Invalid(f"{short_line(first, 60)} is not a compaction", hint=hint)
        return Receipts(conversation=context.id, batches=chosen)
    if first is not None:
        return _compared(session, first, last)
    if points:
        return points_of(session, every=every, limit=limit)
    with session.context() as context:
        batches = tuple(context.log.batches())
    return Receipts(conversation=context.id, batches=batches[-limit:] if limit else batches)


class Receipts(Result, frozen=True, kw_only=True):
    """The compactions, oldest first."""

    conversation: str
    batches: tuple[Batch, ...]

    def show(self, screen: Screen) -> None:
        id = self.conversation
        if not self.batches:
            screen.line(f"{id} was never compacted.")
            return
        heads = ("BATCH", "KIND", ">SEQ", "AT", "BY", ">EDITS", ">TOKENS", "STATE")
        rows = [
            (
                batch.id,
                batch_noun(batch.purpose),
                f"#{batch.seq}",
                local_moment(batch.at_ms),
                short_line(batch.strategy, 60),
                f"{batch.edits:,}",
                f"{batch.tokens_before:,} -> {batch.tokens_after:,}",
                "undone" if not batch.live else "covered" if batch.covered_by else "live",
            )
            for batch in self.batches
        ]
        screen.table(heads, rows)
        live = [batch for batch in self.batches if batch.live]
        undone = len(self.batches) - len(live)
        screen.line(f"{_counted(live)} on the page, {undone:,} undone.")
        if any(batch.covered_by for batch in live):
            screen.line("The messages of a covered one come back once the later ones are undone.")
        if live:
            screen.line(("dim", f"Take one back with: {screen.call('undo', id, 'BATCH')}"))
            show_undo(id, screen)
        if len(self.batches) == 1:
            [one] = self.batches
            points = (str(one.seq - 1), str(one.seq + one.edits - 1))
            more = screen.call("history", id, *points, "--diff")
            screen.line(("dim", f"What it changed: {more}"))


def _counted(batches: Sequence[Batch]) -> str:
    """`2 compactions, 1 hide`."""
    counts: list[str] = []
    for noun, count in Counter(batch_noun(batch.purpose) for batch in batches).items():
        first, space, rest = noun.partition(" ")
        counts.append(f"{number(count, first)}{space}{rest}")
    return ", ".join(counts) or "Nothing"


# --- points ---


class Points(Result, frozen=True, kw_only=True):
    """The points, newest first. A checkpoint has a `name`."""

    conversation: str
    head: int
    points: tuple[Point, ...]

    def show(self, screen: Screen) -> None:
        id = self.conversation
        if self.points:
            heads = (">SEQ", ">MESSAGES", "POINT", "AT")
            # People look for the names they gave, so checkpoints come first.
            ordered = sorted(self.points, key=lambda point: not point.name)
            rows = [
                (
                    f"#{point.seq}",
                    f"{point.messages:,}",
                    f'"{short_line(point.name, 80)}"' if point.name else point.reason,
                    local_moment(point.at_ms),
                )
                for point in ordered
            ]
            screen.table(heads, rows)
        else:
            makes = screen.call("checkpoint", id, "NAME")
            screen.line(f"{id} has no listed points; {makes} makes one.")
        every = f"POINT is a name, or any seq from 1 to {self.head}"
        back = screen.call("restore", id, "POINT", "--dry-run")
        screen.line(("dim", f"Go back with: {back} ({every})"))


def points_of(session: Session, *, every: int = EVERY, limit: int | None = None) -> Points:
    """The points of the conversation; `limit` is the maximum number of unnamed ones."""
    keep, hours = (KEEP, HOURS) if limit is None else (limit, 0.0)
    with session.context() as context:
        found = context.log.points(every=every, keep=keep, hours=hours)
        head = context.view.head
    return Points(conversation=context.id, head=head, points=tuple(found))


# --- two points compared ---


class Compared(Result, frozen=True, kw_only=True):
    """The difference between the pages at `first` and `last`: messages added, removed, and shown
    with other edits; batches, artifacts and changed files in between. `changes` are the diffs of
    files that were saved before writes; a file not written since is compared with its current
    content in this folder."""

    conversation: str
    first: int
    last: int
    added: tuple[MessageRow, ...]
    removed: tuple[MessageRow, ...]
    changed: tuple[MessageRow, ...]
    batches: tuple[str, ...]
    artifacts: tuple[str, ...]
    files: tuple[str, ...]
    changes: tuple[FileChange, ...] = ()

    def show(self, screen: Screen) -> None:
        places = f"{self.conversation} #{self.first} -> #{self.last}"
        added, removed = len(self.added), len(self.removed)
        messages = plural("message", added + removed + len(self.changed))
        counts = f"+{added:,} -{removed:,} ~{len(self.changed):,} {messages}"
        screen.line(("bold", places), f": {counts} on the page")
        show_messages(self.added, screen, "+ ")
        show_messages(self.removed, screen, "- ")
        show_messages(self.changed, screen, "~ ")
        _show_names("compaction", self.batches, screen)
        _show_names("artifact", self.artifacts, screen)
        _show_names("changed file", self.files, screen)
        _show_changes(self.changes, screen)


def _compared(session: Session, start: str, end: str | None) -> Compared:
    with session.context() as context:
        view = context.view
        first = point_seq(view, start)
        last = view.head if end is None else point_seq(view, end)
        found = context.log.diff(first, last)
        changes = context.files.diff(first, last)
    store, id = session.store, context.id
    return Compared(
        conversation=id,
        first=first,
        last=last,
        added=message_rows(store, id, found.added),
        removed=message_rows(store, id, found.removed),
        changed=message_rows(store, id, found.changed),
        batches=found.batches,
        artifacts=found.artifacts,
        files=found.files,
        changes=tuple(one for one in changes if one.change != "same"),
    )


def _show_changes(changes: tuple[FileChange, ...], screen: Screen) -> None:
    """Prints the number of changed files and lines, and their diffs."""
    if changes:
        # The first two lines of a diff name the file.
        lines = [line for one in changes for line in one.diff.splitlines()[2:]]
        more, fewer = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        counts = f"+{more:,} -{fewer:,} {plural('line', more + fewer)}"
        screen.line(f"{number(len(changes), 'file')} of this folder: {counts}")
    for one in changes:
        if one.change == "impossible":
            screen.line(short_line(f"  {one.path} cannot be compared: {one.reason}", 300))
        else:
            show_diff(one.diff, screen)


def _show_names(what: str, names: tuple[str, ...], screen: Screen) -> None:
    if not names:
        return
    shown = ", ".join(short_line(name, 100) for name in names[:NAMES_SHOWN])
    more = f", +{len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    screen.line(f"{number(len(names), what)}: {shown}{more}")
