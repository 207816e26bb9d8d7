"""What waits for a person to accept or reject it. Neighbours: `fold` knows what waits, `semantic`
writes what was decided."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from refold.core.model import Memory
from refold.memory.entry import MemoryEntry
from refold.memory.fold import Version


def waiting_entry(version: Version, scope: str) -> MemoryEntry:
    """What waits in the inbox, as a caller sees it."""
    body = version.body
    return MemoryEntry(
        id=body.entry,
        content=body.content,
        scope=scope,
        tags=body.tags,
        metadata=body.metadata,
        trust=body.trust,
        source=body.source,
        created_ms=version.at_ms,
        updated_ms=version.at_ms,
        valid_from_ms=version.from_ms,
        seq=version.seq,
    )


def decided(waiting: Memory, content: str, *, state: Literal["", "rejected"]) -> Memory:
    """The next version of an entry that a person looked at."""
    version = waiting.version + 1
    return replace(waiting, version=version, content=content, trust="user", state=state)
