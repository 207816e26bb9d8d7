"""`refold artifacts`: the artifacts that are kept, what they hold, which of their lines match, and
removing them.

Artifacts are named by id, and only in the conversation that has them.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Meta, Struct

from refold.artifacts.artifacts import Artifacts
from refold.artifacts.cleanup import CleanupItem
from refold.artifacts.reader import ArtifactReader
from refold.edges.commands.session import Session
from refold.log.open_log import OpenLog

ARTIFACT = Meta(
    description="The id of the artifact.",
    extra={"positional": True, "metavar": "ARTIFACT", "completes": "artifact"},
)


class RemovedItem(Struct, frozen=True, kw_only=True):
    """One artifact that was removed, or could not be; `why` says so."""

    id: str
    name: str
    size_bytes: int
    at_ms: int
    conversations: tuple[str, ...]
    why: str


class Stored(NamedTuple):
    """The artifacts of a stored conversation, and the reader of their contents."""

    id: str
    artifacts: Artifacts
    reader: ArtifactReader


def stored_artifacts(session: Session) -> Stored:
    """The artifacts of the conversation asked for; NotFound if it does not exist."""
    id = session.store.conversation(session.conversation).id
    log = OpenLog(session.store, id, session.config)
    reader = ArtifactReader(log)
    return Stored(id, Artifacts(log, reader), reader)


def removed_item(item: CleanupItem) -> RemovedItem:
    return RemovedItem(
        id=item.artifact.id,
        name=item.artifact.name,
        size_bytes=item.artifact.size_bytes,
        at_ms=item.at_ms,
        conversations=item.conversations,
        why=item.why,
    )
