"""`refold artifacts`: the outputs that are kept, what they hold, which of their lines match, and
removing them.

Outputs are named by id, and only in the conversation that has them.
"""

from __future__ import annotations

from msgspec import Meta, Struct

from refold.artifacts.cleanup import Item
from refold.artifacts.outputs import Outputs, outputs_of
from refold.edges.commands.session import Session

ARTIFACT = Meta(
    description="The id of the output.", extra={"positional": True, "metavar": "ARTIFACT"}
)


class RemovedItem(Struct, frozen=True, kw_only=True):
    """One output that was removed, or could not be; `why` says so."""

    id: str
    name: str
    size_bytes: int
    at_ms: int
    conversations: tuple[str, ...]
    why: str


def outputs_asked(session: Session) -> Outputs:
    """The outputs of the conversation asked for; NotFound if it does not exist."""
    return outputs_of(session.store, session.conversation)


def removed_item(item: Item) -> RemovedItem:
    return RemovedItem(
        id=item.artifact.id,
        name=item.artifact.name,
        size_bytes=item.artifact.size_bytes,
        at_ms=item.at_ms,
        conversations=item.conversations,
        why=item.why,
    )
