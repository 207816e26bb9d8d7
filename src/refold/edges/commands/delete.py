"""`refold delete`: conversations are removed for good. It asks first."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.conversations.deleter import delete
from refold.edges.commands.command import Arguments, Command
from refold.edges.commands.removal import Removal, show
from refold.edges.commands.session import Session

NAMES = Meta(
    description="The conversations.",
    min_length=1,
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)
YES = Meta(description="Do not ask.")


class DeleteArguments(Arguments, frozen=True, kw_only=True):
    conversations: Annotated[tuple[str, ...], NAMES]
    yes: Annotated[bool, YES] = False


class Deletion(Removal, frozen=True, kw_only=True):
    @property
    def outcome(self) -> str:
        """A conversation that was named and had to stay is a conflict."""
        return "conflict" if self.left else "ok"


def run(session: Session, arguments: DeleteArguments) -> Deletion:
    store = session.store
    ids = [store.conversation(session.find(name)).id for name in arguments.conversations]
    session.confirm(f"Remove {', '.join(ids)} for good?", arguments.yes)
    done = delete(store, ids)
    return Deletion(removed=done.removed, contents=done.contents, left=done.left, notes=done.notes)


COMMAND = Command(
    name="delete",
    details="Also removes the artifacts that only they have, and their entries in the search "
    "index.",
    on="store",
    arguments=DeleteArguments,
    run=run,
    show=show,
)
