"""`refold restore`: takes the page of a conversation back to what it was.

It says what that switches off: messages, what the user asked for, calls that stay billed, and
files that tool calls changed since, which stay as they are on disk. Without a point it lists the
points.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, convert

from refold.core.model import Usage
from refold.edges.commands import points
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.events import MessageRow, message_rows, show_messages
from refold.edges.commands.position import POINT_HELP, point_seq
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line, show_undo
from refold.tokens.models import dollars

POINT = Meta(
    description=f"{POINT_HELP} Without one, the points are listed.",
    extra={"positional": True, "completes": "point"},
)
DRY_RUN = Meta(description="Say what would be switched off, and change nothing.")
FILES_SHOWN = 20


class RestoreArguments(Arguments, frozen=True, kw_only=True):
    point: Annotated[str, POINT] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False


class Billed(Struct, frozen=True, kw_only=True):
    """What calls of the model cost; `cost` is None if the price of one is not known."""

    calls: int
    input: int
    output: int
    cost: float | None


class Restoration(Result, frozen=True, kw_only=True):
    """What a restore to `seq` did, or would do: messages that leave the page and that come back
    to it, requests of the user that are switched off, `files` changed since, calls billed
    since."""

    conversation: str
    dry_run: bool
    point: str
    seq: int
    off: tuple[MessageRow, ...]
    back: tuple[MessageRow, ...]
    requests: tuple[MessageRow, ...]
    files: tuple[str, ...]
    billed: Billed


def run(session: Session, arguments: RestoreArguments) -> Restoration | points.Points:
    if arguments.point is None:
        return points.run(session, convert({}, points.PointsArguments))
    return _restore(session, arguments.point, dry_run=arguments.dry_run)


def _restore(session: Session, point: str, *, dry_run: bool) -> Restoration:
    with session.context(writes=not dry_run) as context:
        seq = point_seq(context.view, point)
        differs = context.log.diff(seq)
        told = context.restore(seq, dry_run=dry_run)
    store, id = session.store, context.id
    return Restoration(
        conversation=id,
        dry_run=dry_run,
        point=point,
        seq=seq,
        off=message_rows(store, id, differs.added),
        back=message_rows(store, id, differs.removed),
        requests=message_rows(store, id, told.requests),
        files=tuple(told.files),
        billed=_billed(told.calls),
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


def show(result: Restoration | points.Points, screen: Screen) -> None:
    if isinstance(result, points.Points):
        points.show(result, screen)
    else:
        _show_restoration(result, screen)


def _show_restoration(done: Restoration, screen: Screen) -> None:
    verb = "would be restored" if done.dry_run else "is restored"
    screen.line(("bold", f"{done.conversation} {verb} to #{done.seq}."))
    off, back = number(len(done.off), "message"), number(len(done.back), "message")
    screen.line(f"Off the page: {off}. Back on it: {back}.")
    if done.requests:
        screen.line(f"{number(len(done.requests), 'request')} of the user taken back:")
        show_messages(done.requests, screen)
    _show_files(done.files, screen)
    _show_billed(done.billed, screen)
    if done.dry_run:
        again = screen.call("restore", done.conversation, str(done.seq))
        screen.line(f"Nothing was changed. Do it with: {again}")
    else:
        show_undo(done.conversation, screen)


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
        screen.line(f"{number(billed.calls, 'call')} since stay billed: {tokens}.")


COMMAND = Command(
    name="restore",
    details="The log keeps everything: refold undo comes back. Files on disk are not touched.",
    arguments=RestoreArguments,
    run=run,
    show=show,
)
