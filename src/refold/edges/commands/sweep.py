"""`refold sweep`: old conversations are removed for good, by age and by number. It asks first, and
can be tried with a dry run."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import UNSET, Meta, field

from refold.conversations import deleter
from refold.display import number
from refold.edges.commands.command import Arguments, Command
from refold.edges.commands.removal import Removal, show
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.log.log import now_ms

DAYS = Meta(description="Remove only conversations without a new event for this many days.", ge=0)
KEEP = Meta(description="Keep this many of the newest conversations, however old.", ge=0)
DRY_RUN = Meta(description="Say what would be removed, and remove nothing.")
YES = Meta(description="Do not ask.")


class SweepArguments(Arguments, frozen=True, kw_only=True):
    days: Annotated[float, DAYS] | None = field(name="older_than", default=None)
    keep: Annotated[int, KEEP] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False
    yes: Annotated[bool, YES] = False


def run(session: Session, arguments: SweepArguments) -> Removal:
    if arguments.days is None and arguments.keep is None:
        raise Invalid("a sweep needs a limit", hint="--older-than DAYS, --keep NUMBER, or both")
    sweep = partial(
        deleter.sweep,
        session.store,
        older_than_days=arguments.days,
        keep=arguments.keep,
        now_ms=now_ms(),
    )
    done = sweep(dry_run=True)
    is_dry = arguments.dry_run or not done.removed
    if not is_dry:
        session.confirm(
            f"Remove {number(len(done.removed), 'conversation')} for good?", arguments.yes
        )
        done = sweep()
    return Removal(
        removed=UNSET if is_dry else done.removed,
        would_be_removed=done.removed if is_dry else UNSET,
        contents=done.contents,
        left=done.left,
        notes=done.notes,
    )


COMMAND = Command(
    name="sweep",
    on="store",
    arguments=SweepArguments,
    run=run,
    show=show,
)
