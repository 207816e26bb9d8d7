"""An entry of a memory as a caller sees it, and how its id is made."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from refold.core.model import Trust

ID_PREFIX, ID_BYTES = "mem-", 8


def new_id() -> str:
    """The id of a new entry."""
    return f"{ID_PREFIX}{secrets.token_hex(ID_BYTES)}"


def is_whole(id: str) -> bool:
    """Whether an id is one that a memory gives itself, and not the beginning of one."""
    digits = id.removeprefix(ID_PREFIX)
    is_long = id.startswith(ID_PREFIX) and len(digits) == 2 * ID_BYTES
    return is_long and set(digits) <= set("0123456789abcdef")


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One thing that is remembered. `score` says how well it answers, from 0 to 1, and `why` by
    what; `count` how often it was said. It is true from `valid_from_ms` on, and until
    `valid_until_ms` unless that is None. `rivals` are entries that say something else about the
    same, or replaced the same: code cannot tell which of them holds. `replaces` are entries that
    ended because somebody said that this one replaces them; as long as it waits in the inbox, they
    are still true. It `waits` while no person has accepted what only a tool, an import or a rule
    said: no model is shown it.
    `source` is a conversation and a seq."""

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
    replaces: tuple[str, ...] = ()
    waits: bool = False
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
    """What `forget` did: the entries whose words are gone, how many events of theirs were erased,
    how many messages that showed them, and how many summaries of those. `mentions` are messages
    that say the same words and stay: a conversation and a seq. `out_of_reach` says what else may
    still have them."""

    entries: tuple[str, ...] = ()
    events: int = 0
    messages: int = 0
    summaries: int = 0
    mentions: tuple[tuple[str, int], ...] = ()
    out_of_reach: tuple[str, ...] = ("earlier exports", "backups of the files")

    def __add__(self, other: Forgotten) -> Forgotten:
        """Both together."""
        return Forgotten(
            entries=self.entries + other.entries,
            events=self.events + other.events,
            messages=self.messages + other.messages,
            summaries=self.summaries + other.summaries,
            mentions=tuple(dict.fromkeys(self.mentions + other.mentions)),
            out_of_reach=tuple(dict.fromkeys(self.out_of_reach + other.out_of_reach)),
        )
