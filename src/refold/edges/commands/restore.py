"""`refold restore`: takes the page of a conversation back to what it was.

It says what that switches off: messages, what the user asked for, calls that stay billed, and
files that tool calls changed since. Those stay as they are on disk, unless they are to be put back
as well: then what that changes is shown and asked for. Without a point it lists the points.

`refold points`: the places that `restore` can go back to.

`refold checkpoint`: gives the place that a conversation is at a name.

`refold fork`: a new conversation that shares the log of another up to a point.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from refold import decoding
from refold.core.model import Usage, View
from refold.display import moment
from refold.edges.chat.terminal import new_id
from refold.edges.commands.command import (
    POINT_HELP,
    POSITIONAL,
    TEXT,
    Arguments,
    Command,
    Result,
    Screen,
    check_checkpoint,
    is_seq,
    number,
    point_seq,
    seq_of,
    short_line,
    show_undo,
)
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.edges.commands.show import MessageRow, message_rows, show_messages
from refold.edges.commands.undo import confirm_changes, show_put_back
from refold.errors import Invalid
from refold.log.points import EVERY, HOURS, KEEP, Point
from refold.log.undo import FileChange
from refold.tokens.models import dollars

if TYPE_CHECKING:
    from refold.engine.context import Context

POINT = Meta(
    description=f"{POINT_HELP} Without one, the points are listed.",
    extra={"positional": True, "completes": "point"},
)
AT = Meta(
    description="As it was at this time: 2026-11-16T09:30, 90m (ago), or seconds since 1970.",
    extra={"metavar": "WHEN"},
)
DRY_RUN = Meta(description="Say what would be switched off, and change nothing.")
FILES = Meta(description="Also put the files of this folder back that were kept before writes.")
FILE = Meta(description="Put this file back, and no other; may be repeated.")
ONLY_FILES = Meta(description="Put files back, and leave the page as it is.")
YES = Meta(description="Do not ask before files are put back.")
FILES_SHOWN = 20
_EPOCH = re.compile("[0-9]{10,15}")


class RestoreArguments(Arguments, frozen=True, kw_only=True):
    point: Annotated[str, POINT] | None = None
    at: Annotated[str, AT] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False
    files: Annotated[bool, FILES] = False
    file: Annotated[tuple[str, ...], FILE] = ()
    only_files: Annotated[bool, ONLY_FILES] = False
    yes: Annotated[bool, YES] = False

    @property
    def wanted(self) -> bool | tuple[str, ...]:
        """Which files are to be put back."""
        return self.file or self.files or self.only_files


class Billed(Struct, frozen=True, kw_only=True):
    """What calls of the model cost; `cost` is None if the price of one is not known."""

    calls: int
    input: int
    output: int
    cost: float | None


class Restoration(Result, frozen=True, kw_only=True):
    """What a restore to `seq` did, or would do: messages that leave the page and that come back
    to it, requests of the user that are switched off, `files` changed since, calls billed
    since. `changes` are the files that were put back, or would be; with `only_files` nothing
    else was done."""

    conversation: str
    dry_run: bool
    point: str
    seq: int
    only_files: bool = False
    changes: tuple[FileChange, ...] = ()
    off: tuple[MessageRow, ...]
    back: tuple[MessageRow, ...]
    requests: tuple[MessageRow, ...]
    files: tuple[str, ...]
    billed: Billed


def run_restore(session: Session, arguments: RestoreArguments) -> Restoration | Points:
    point, at = arguments.point, arguments.at
    if point is not None and at is not None:
        raise Invalid("a point and --at exclude each other", hint="give one of them")
    if point is None and at is None:
        return run_points(session, decoding.convert({}, PointsArguments))
    return _restore(session, arguments)


def _restore(session: Session, arguments: RestoreArguments) -> Restoration:
    dry_run, wanted = arguments.dry_run, arguments.wanted
    with session.context(writes=not dry_run) as context:
        seq = _seq(context, arguments)
        differs = context.log.diff(seq)
        told = context.restore(seq, dry_run=True, files=wanted)
        if not dry_run:
            confirm_changes(session, told.changes, yes=arguments.yes)
            if arguments.only_files:
                context.files.put_back(seq, only=arguments.file)
            else:
                told = context.restore(seq, files=wanted)
    store, id = session.store, context.id
    if arguments.only_files:
        return _of_files(arguments, id, seq, told.changes)
    return Restoration(
        conversation=id,
        dry_run=dry_run,
        point=arguments.point or arguments.at or "",
        seq=seq,
        changes=tuple(told.changes),
        off=message_rows(store, id, differs.added),
        back=message_rows(store, id, differs.removed),
        requests=message_rows(store, id, told.requests),
        files=tuple(told.files),
        billed=_billed(told.calls),
    )


def _seq(context: Context, arguments: RestoreArguments) -> int:
    """The seq of the point, or of the last event until the time."""
    if arguments.at is None:
        return point_seq(context.view, arguments.point or "")
    said = arguments.at.strip()
    when = int(said) if _EPOCH.fullmatch(said) else time_of(said)
    return context.restore(when, dry_run=True).seq if when is not None else 0


def _of_files(
    arguments: RestoreArguments, id: str, seq: int, changes: Sequence[FileChange]
) -> Restoration:
    """What is said of a restore that only put files back."""
    return Restoration(
        conversation=id,
        dry_run=arguments.dry_run,
        point=arguments.point or arguments.at or "",
        seq=seq,
        only_files=True,
        changes=tuple(changes),
        off=(),
        back=(),
        requests=(),
        files=(),
        billed=_billed([]),
    )


def _billed(calls: list[Usage]) -> Billed:
    costs = [call.cost for call in calls if call.cost is not None]
    return Billed(
        calls=len(calls),
        input=sum(call.input for call in calls),
        output=sum(call.output for call in calls),
        cost=sum(costs) if len(costs) == len(calls) else None,
    )


# --- shown ---


def show_restore(result: Restoration | Points, screen: Screen) -> None:
    if isinstance(result, Points):
        show_points(result, screen)
    else:
        _show_restoration(result, screen)


def _show_restoration(done: Restoration, screen: Screen) -> None:
    if done.only_files:
        show_put_back(done.changes, screen, dry_run=done.dry_run)
        if not done.changes:
            screen.line("No file was written to since.")
        return
    verb = "would be restored" if done.dry_run else "is restored"
    screen.line(("bold", f"{done.conversation} {verb} to #{done.seq}."))
    off, back = number(len(done.off), "message"), number(len(done.back), "message")
    screen.line(f"Off the page: {off}. Back on it: {back}.")
    if done.requests:
        screen.line(f"{number(len(done.requests), 'request')} of the user taken back:")
        show_messages(done.requests, screen)
    show_put_back(done.changes, screen, dry_run=done.dry_run)
    put_back = {one.path for one in done.changes}
    _show_files(tuple(file for file in done.files if file not in put_back), screen)
    _show_billed(done.billed, screen)
    if done.dry_run:
        words = ("--files",) if done.changes else ()
        again = screen.call("restore", done.conversation, str(done.seq), *words)
        screen.line(f"Nothing was changed. Do it with: {again}")
    else:
        show_undo(done.conversation, screen, files=bool(done.changes))


def _show_files(files: tuple[str, ...], screen: Screen) -> None:
    if not files:
        return
    screen.line(f"{number(len(files), 'file')} changed since, left as on disk:")
    for file in files[:FILES_SHOWN]:
        screen.line(f"  {short_line(file, 200)}")
    if len(files) > FILES_SHOWN:
        screen.line(f"  ... +{len(files) - FILES_SHOWN:,} more")


def _show_billed(billed: Billed, screen: Screen) -> None:
    if billed.calls:
        tokens = (
            f"{number(billed.input, 'token')} in, {billed.output:,} out, {dollars(billed.cost)}"
        )
        verb = "stays" if billed.calls == 1 else "stay"
        screen.line(f"{number(billed.calls, 'call')} since then {verb} billed: {tokens}.")


RESTORE = Command(
    name="restore",
    details="The log keeps everything: refold undo takes it back. Files on disk are changed only "
    "with --files; each is kept first, and refold undo --files brings it back.",
    arguments=RestoreArguments,
    run=run_restore,
    show=show_restore,
)


EVERY_HELP = Meta(
    description="Also list a point after every this many messages; 0 lists none.", ge=0
)
KEEP_HELP = Meta(description="List at least this many points without a name, however old.", ge=0)
HOURS_HELP = Meta(description="List the points without a name of the last this many hours.", ge=0)


class PointsArguments(Arguments, frozen=True, kw_only=True):
    every: Annotated[int, EVERY_HELP] = EVERY
    keep: Annotated[int, KEEP_HELP] = KEEP
    hours: Annotated[float, HOURS_HELP] = HOURS


class Points(Result, frozen=True, kw_only=True):
    """Newest first. A point has a `name` if it is a checkpoint."""

    conversation: str
    head: int
    points: tuple[Point, ...]


def run_points(session: Session, arguments: PointsArguments) -> Points:
    with session.context() as context:
        found = context.log.points(
            every=arguments.every, keep=arguments.keep, hours=arguments.hours
        )
        head = context.view.head
    return Points(conversation=context.id, head=head, points=tuple(found))


def show_points(result: Points, screen: Screen) -> None:
    id = result.conversation
    if result.points:
        heads = (">SEQ", ">MESSAGES", "POINT", "AT")
        # What somebody gave a name is what they look for.
        ordered = sorted(result.points, key=lambda point: not point.name)
        screen.table(heads, [_cells(point) for point in ordered])
    else:
        makes = screen.call("checkpoint", id, "NAME")
        screen.line(f"{id} has no listed points; {makes} makes one.")
    every = f"POINT is a name, or any seq from 1 to {result.head}"
    back = screen.call("restore", id, "POINT", "--dry-run")
    screen.line(("dim", f"Go back with: {back} ({every})"))


def _cells(point: Point) -> tuple[str, ...]:
    name = f'"{short_line(point.name, 80)}"' if point.name else point.reason
    return f"#{point.seq}", f"{point.messages:,}", name, moment(point.at_ms)


POINTS = Command(
    name="points",
    details="Checkpoints by name first, then the end of every tenth message, and the places before "
    "a compaction, messages hidden by hand, an undo or a restore.",
    reads=True,
    arguments=PointsArguments,
    run=run_points,
    show=show_points,
)


NAME = Meta(description="Its name; by default checkpoint-SEQ.", extra=TEXT)


class CheckpointArguments(Arguments, frozen=True, kw_only=True):
    name: Annotated[str, NAME] = ""


class Marked(Result, frozen=True, kw_only=True):
    """`moved_from` is where a checkpoint of this name was before; 0 if there was none."""

    conversation: str
    name: str
    seq: int
    moved_from: int


def run_checkpoint(session: Session, arguments: CheckpointArguments) -> Marked:
    check_checkpoint(arguments.name)
    with session.context(writes=True) as context:
        before = context.view.checkpoints
        seq = context.checkpoint(arguments.name)
        name = arguments.name or f"checkpoint-{seq}"
    return Marked(conversation=context.id, name=name, seq=seq, moved_from=before.get(name, 0))


def show_checkpoint(marked: Marked, screen: Screen) -> None:
    name = short_line(marked.name, 80)
    moved = f", and no longer #{marked.moved_from}" if marked.moved_from else ""
    screen.line(("bold", f'"{name}"'), f" is {marked.conversation} at #{marked.seq}{moved}.")
    back = screen.call("restore", marked.conversation, marked.name)
    screen.line(("dim", f"Go back with: {back}"))


CHECKPOINT = Command(
    name="checkpoint",
    details="You can restore any seq without a checkpoint; a name is easier to remember.",
    arguments=CheckpointArguments,
    run=run_checkpoint,
    show=show_checkpoint,
)


NEW = Meta(
    description="The id of the new conversation; by default one is made from the time.",
    extra=POSITIONAL,
)
FORK_AT = Meta(
    description=f"{POINT_HELP} By default, the end.",
    extra={"metavar": "POINT", "completes": "point"},
)


class ForkArguments(Arguments, frozen=True, kw_only=True):
    new: Annotated[str, NEW] | None = None
    at: Annotated[str, FORK_AT] | None = None


class Forked(Result, frozen=True, kw_only=True):
    """`conversation` is the new one; it left its `parent` at `parent_seq`."""

    conversation: str
    parent: str
    parent_seq: int
    slots: int


def run_fork(session: Session, arguments: ForkArguments) -> Forked:
    with session.context() as context:
        view = context.view
        _check_meant(view, arguments)
        seq = view.head if arguments.at is None else point_seq(view, arguments.at)
        with context.fork(arguments.new or new_id(session.store), at=seq) as new:
            slots = len(new.view.slots)
    return Forked(conversation=new.id, parent=context.id, parent_seq=seq, slots=slots)


def _check_meant(view: View, arguments: ForkArguments) -> None:
    """Invalid for a fork of nothing, and for a point where the new id stands."""
    if not view.slots:
        raise Invalid("there is nothing to fork yet", hint="ask something first")
    new = arguments.new or ""
    if arguments.at is None and is_seq(new) and 1 <= seq_of(new) <= view.head:
        reason = f"{new} is an event of this conversation, not an id for another"
        raise Invalid(reason, hint=f"--at {new} forks there")


def show_fork(forked: Forked, screen: Screen) -> None:
    origin = f" is a fork of {forked.parent} at #{forked.parent_seq}"
    screen.line(("bold", forked.conversation), f"{origin}, with {number(forked.slots, 'slot')}.")
    screen.line(f"{forked.parent} is as it was.")
    screen.line(("dim", f"Undo with: {screen.call('delete', '', forked.conversation)}"))


FORK = Command(
    name="fork",
    details="No event is copied. From there on, the two are independent.",
    arguments=ForkArguments,
    run=run_fork,
    show=show_fork,
)
