"""`refold artifacts delete`: one artifact is removed for good. It asks first."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.artifacts import (
    ARTIFACT,
    RemovedItem,
    removed_item,
    stored_artifacts,
)
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line

YES = Meta(description="Do not ask.")


class DeleteArguments(Arguments, frozen=True, kw_only=True):
    artifact: Annotated[str, ARTIFACT]
    yes: Annotated[bool, YES] = False


class Deleted(Result, frozen=True, kw_only=True):
    """What was removed, and how many artifacts are left."""

    removed: RemovedItem
    left: int


def run(session: Session, arguments: DeleteArguments) -> Deleted:
    stored = stored_artifacts(session)
    name = short_line(arguments.artifact, 40)
    session.confirm(f"Remove {name} from {stored.id} for good?", arguments.yes)
    removed = stored.artifacts.remove(arguments.artifact)
    return Deleted(removed=removed_item(removed), left=stored.reader.count())


def show(deleted: Deleted, screen: Screen) -> None:
    removed = deleted.removed
    left = number(deleted.left, "artifact")
    screen.line(f"{removed.id} is removed, {removed.why}; {left} left.")


COMMAND = Command(
    name="artifacts delete",
    details="Its bytes stay if another conversation has it. The log still says what it was.",
    arguments=DeleteArguments,
    run=run,
    show=show,
)
