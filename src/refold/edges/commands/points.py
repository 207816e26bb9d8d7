"""`refold points`: the places that `restore` can go back to."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.log.points import EVERY, HOURS, KEEP, Point

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


def run(session: Session, arguments: PointsArguments) -> Points:
    with session.context() as context:
        found = context.log.points(
            every=arguments.every, keep=arguments.keep, hours=arguments.hours
        )
        head = context.view.head
    return Points(conversation=context.id, head=head, points=tuple(found))


def show(result: Points, screen: Screen) -> None:
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


COMMAND = Command(
    name="points",
    details="Checkpoints by name first, then the end of every tenth message, and the places before "
    "a compaction, messages hidden by hand, an undo or a restore.",
    reads=True,
    arguments=PointsArguments,
    run=run,
    show=show,
)
