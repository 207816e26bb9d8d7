"""An entry of a memory as a caller sees it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from refold.core.model import Trust


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One thing that is remembered. `score` says how well it answers, from 0 to 1, and `why` by
    what; `count` how often it was said. It is true from `valid_from_ms` on, and until
    `valid_until_ms` unless that is None. `rivals` are entries that say something else about the
    same: code cannot tell which of them holds. `source` is a conversation and a seq."""

    id: str
    content: str
    scope: str = "project"
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    score: float = 1.0
    why: str = ""
    count: int = 1
    version: int = 1
    trust: Trust = "user"
    source: tuple[str, int] | None = None
    created_ms: int = 0
    updated_ms: int = 0
    valid_from_ms: int = 0
    valid_until_ms: int | None = None
    rivals: tuple[str, ...] = ()
    seq: int = 0  # of the newest event that it is made of, in the log of its scope

    @property
    def created(self) -> datetime:
        """When it was first said."""
        return datetime.fromtimestamp(self.created_ms / 1_000, UTC)

    @property
    def updated(self) -> datetime:
        """When it was said or changed last."""
        return datetime.fromtimestamp(self.updated_ms / 1_000, UTC)

    @property
    def is_current(self) -> bool:
        """Whether nothing has ended it."""
        return self.valid_until_ms is None


class Forgotten(Struct, frozen=True, kw_only=True):
    """What `forget` did: the entries whose words are gone, how many events were erased, and what
    is out of reach."""

    entries: tuple[str, ...]
    events: int
    messages: int = 0
    out_of_reach: tuple[str, ...] = ("earlier exports", "backups of the files")
