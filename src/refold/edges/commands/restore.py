"""`refold restore`, `refold checkpoint` and `refold fork`: back to a point, or a copy from there.

A restore reports its effects: messages and user requests switched off, calls that stay billed, and
files changed since by tool calls. Files stay as they are on disk unless `--files` restores them;
the difference is shown and confirmed first. Neighbour: `history` lists the points.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from refold.core.model import Usage
from refold.display import number
from refold.edges.chat.terminal import new_id
from refold.edges.commands.command import (
    POINT_HELP,
    POSITIONAL,
    TEXT,
    DryRun,
    Result,
    Screen,
    Yes,
    check_checkpoint,
    command,
    is_seq,
    point_seq,
    seq_of,
    short_line,
    show_undo,
)
from refold.edges.commands.history import Points, points_of
from refold.edges.commands.page import MessageRow, message_rows, show_messages
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.edges.commands.undo import Files, confirm_changes, show_put_back
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.undo import FileChange
from refold.tokens.models import dollars

FILES_SHOWN = 20
_EPOCH = re.compile("[0-9]{10,15}")


POINT = Meta(
    description=f"{POINT_HELP} Without one, the points are listed.",
    extra={"positional": True, "completes": "point"},
)
AT = Meta(
    description="As it was at this time: 2026-11-16T09:30, 90m (ago), or seconds since 1970.",
    extra={"metavar": "WHEN"},
)
FILE = Meta(description="Put this file back, and no other; may be repeated.")
ONLY_FILES = Meta(description="Put files back, and leave the page as it is.")


@command(
    "restore",
    details="The log keeps everything: refold undo takes it back. Files on disk are changed only "
    "with --files; each is kept first, and refold undo --files brings it back.",
)
def restore(
    session: Session,
    *,
    point: Annotated[str, POINT] | None = None,
    at: Annotated[str, AT] | None = None,
    dry_run: DryRun = False,
    files: Files = False,
    file: Annotated[tuple[str, ...], FILE] = (),
    only_files: Annotated[bool, ONLY_FILES] = False,
    yes: Yes = False,
) -> Restoration | Points:
    if point is not None and at is not None:
        raise Invalid("a point and --at exclude each other", hint="pass only one of them")
    if point is None and at is None:
        return points_of(session)
    wanted = file or files or only_files
    with session.context(writes=not dry_run) as context:
        head = context.view.head
        seq = point_seq(context.view, point or "") if at is None else _seq_at(context, at)
        differs = context.log.diff(seq)
        restored = context.restore(seq, dry_run=True, files=wanted)
        if not dry_run:
            planned = partial(context.files.changes, seq, only=file)
            is_asked = confirm_changes(session, restored.changes, planned, yes=yes)
            expect = head if is_asked else None
            if only_files:
                changes = context.files.put_back(seq, only=file, expect=expect)
                restored = replace(restored, changes=changes)
            else:
                restored = context.restore(seq, files=wanted, expect=expect)
    rows = partial(message_rows, session.store, context.id)
    return Restoration(
        conversation=context.id,
        dry_run=dry_run,
        point=point or at or "",
        seq=seq,
        only_files=only_files,
        is_there=seq == head,
        changes=tuple(restored.changes),
        off=() if only_files else rows(differs.added),
        back=() if only_files else rows(differs.removed),
        requests=() if only_files else rows(restored.requests),
        files=() if only_files else tuple(restored.files),
        billed=_billed([] if only_files else restored.calls),
    )


class Billed(Struct, frozen=True, kw_only=True):
    """The usage of model calls; `cost` is None if any price is unknown."""

    calls: int
    input: int
    output: int
    cost: float | None


class Restoration(Result, frozen=True, kw_only=True):
    """The effects of a restore to `seq`, done or planned: messages that leave the page or come
    back to it, user requests switched off, `files` changed and calls billed since. `changes` are
    the restored files; with `only_files` nothing else changes."""

    conversation: str
    dry_run: bool
    point: str
    seq: int
    only_files: bool = False
    is_there: bool = False  # the page was at `seq` already
    changes: tuple[FileChange, ...] = ()
    off: tuple[MessageRow, ...]
    back: tuple[MessageRow, ...]
    requests: tuple[MessageRow, ...]
    files: tuple[str, ...]
    billed: Billed

    def show(self, screen: Screen) -> None:
        if self.only_files:
            show_put_back(self.changes, screen, dry_run=self.dry_run)
            if not self.changes:
                screen.line("No file was written to since.")
            return
        if self.is_there and not self.changes:
            screen.line(f"{self.conversation} is at #{self.seq} already; nothing was changed.")
            return
        verb = "would be restored" if self.dry_run else "is restored"
        screen.line(("bold", f"{self.conversation} {verb} to #{self.seq}."))
        off, back = number(len(self.off), "message"), number(len(self.back), "message")
        screen.line(f"Off the page: {off}. Back on it: {back}.")
        if self.requests:
            screen.line(f"{number(len(self.requests), 'request')} of the user taken back:")
            show_messages(self.requests, screen)
        show_put_back(self.changes, screen, dry_run=self.dry_run)
        put_back = {one.path for one in self.changes}
        _show_files(tuple(file for file in self.files if file not in put_back), screen)
        _show_billed(self.billed, screen)
        if self.dry_run:
            words = ("--files",) if self.changes else ()
            again = screen.call("restore", self.conversation, str(self.seq), *words)
            screen.line(f"Nothing was changed. Do it with: {again}")
        else:
            show_undo(self.conversation, screen, files=bool(self.changes))


def _seq_at(context: Context, time: str) -> int:
    """The seq of the last event at a time."""
    when = int(time) if _EPOCH.fullmatch(time.strip()) else time_of(time)
    return context.restore(when, dry_run=True).seq if when is not None else 0


def _billed(calls: list[Usage]) -> Billed:
    costs = [call.cost for call in calls if call.cost is not None]
    return Billed(
        calls=len(calls),
        input=sum(call.input for call in calls),
        output=sum(call.output for call in calls),
        cost=sum(costs) if len(costs) == len(calls) else None,
    )


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


NAME = Meta(description="Its name; by default checkpoint-SEQ.", extra=TEXT)


@command(
    "checkpoint",
    details="You can restore any seq without a checkpoint; a name is easier to remember.",
)
def checkpoint(session: Session, *, name: Annotated[str, NAME] = "") -> Marked:
    check_checkpoint(name)
    with session.context(writes=True) as context:
        before = context.view.checkpoints
        seq = context.checkpoint(name)
    name = name or f"checkpoint-{seq}"
    return Marked(conversation=context.id, name=name, seq=seq, moved_from=before.get(name, 0))


class Marked(Result, frozen=True, kw_only=True):
    """`moved_from` is the former seq of a checkpoint with this name; 0 if there was none."""

    conversation: str
    name: str
    seq: int
    moved_from: int

    def show(self, screen: Screen) -> None:
        name = short_line(self.name, 80)
        moved = f", and no longer #{self.moved_from}" if self.moved_from else ""
        screen.line(("bold", f'"{name}"'), f" is {self.conversation} at #{self.seq}{moved}.")
        back = screen.call("restore", self.conversation, self.name)
        screen.line(("dim", f"Go back with: {back}"))


NEW = Meta(
    description="The id of the new conversation; by default one is made from the time.",
    extra=POSITIONAL,
)
FORK_AT = Meta(
    description=f"{POINT_HELP} By default, the end.",
    extra={"metavar": "POINT", "completes": "point"},
)


@command("fork", details="No event is copied. From there on, the two are independent.")
def fork(
    session: Session,
    *,
    new: Annotated[str, NEW] = "",
    at: Annotated[str, FORK_AT] = "",
) -> Forked:
    with session.context() as context:
        view = context.view
        if not view.slots:
            raise Invalid("there is nothing to fork yet", hint="ask something first")
        if not at and is_seq(new) and 1 <= seq_of(new) <= view.head:
            reason = f"{new} is an event of this conversation, not an id for another"
            raise Invalid(reason, hint=f"--at {new} forks there")
        seq = point_seq(view, at) if at else view.head
        with context.fork(new or new_id(session.store), at=seq) as forked:
            slots = len(forked.view.slots)
    return Forked(conversation=forked.id, parent=context.id, parent_seq=seq, slots=slots)


class Forked(Result, frozen=True, kw_only=True):
    """`conversation` is the new one; it branches off its `parent` at `parent_seq`."""

    conversation: str
    parent: str
    parent_seq: int
    slots: int

    def show(self, screen: Screen) -> None:
        origin = f" is a fork of {self.parent} at #{self.parent_seq}"
        screen.line(("bold", self.conversation), f"{origin}, with {number(self.slots, 'slot')}.")
        screen.line(f"{self.parent} is as it was.")
        screen.line(("dim", f"Undo with: {screen.call('delete', '', self.conversation)}"))
