"""What a store that finds words itself offers to search: entries of terms, and questions to them.

Only a store that a team shares has this: one index for all, kept where the logs are. Neighbours:
`protocol` is what every store is, `search.served` asks, `postgres.terms` answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class TermEntry(Struct, frozen=True, kw_only=True):
    """One entry of a search index: where it stands, what is known of it, and, on the way in, the
    terms it has with their places. Entries of one conversation and lane have positions that count
    up; neighbours are beside each other."""

    conversation: str
    lane: int
    position: int
    seq: int
    at_ms: int
    words: int
    role: str
    tools: str
    author: str
    start: int
    asks: bool
    is_own: bool
    terms: Mapping[str, Sequence[int]] = {}


class TermMark(Struct, frozen=True, kw_only=True):
    """How far a conversation is in a search index, and what it was forked from."""

    head: int
    chain: bytes
    parent: str
    parent_seq: int


class TermLane(Struct, frozen=True, kw_only=True):
    """How many entries a lane has had, the sum of their lengths with what they borrow, and the
    lengths of its last two."""

    entries: int = 0
    context_words: float = 0.0
    last_words: tuple[int, ...] = ()


class Phrases(Struct, frozen=True):
    """Any of these, each a sequence of terms; the last of them perhaps only as a beginning."""

    phrases: tuple[tuple[str, ...], ...]
    is_prefix: bool = False


class Sought(Struct, frozen=True, kw_only=True):
    """What is looked for: all of these, in these lanes, of those entries that pass."""

    all_of: tuple[Phrases, ...]
    lanes: tuple[int, ...]
    role: str | None = None
    tool: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    without_own: bool = False


Scope = Mapping[str, int] | None  # conversations and their last seq to look at; None: everywhere
TermPlace = tuple[str, int, int]  # conversation, lane, position


class Terms(Protocol):
    """A search index that a store keeps beside its logs: derived, and never asked by an append. It
    matches and counts; what is found, and in which order, is for `refold.search` to say."""

    def marks(self, conversations: Sequence[str] | None = None) -> dict[str, TermMark]:
        """How far these conversations are, or all of them."""
        ...

    def enter(self, conversation: str, mark: TermMark) -> None:
        """Makes a conversation known, unless it is."""
        ...

    def lanes(self, conversation: str) -> dict[int, TermLane]:
        """The lanes of a conversation."""
        ...

    def add(
        self,
        conversation: str,
        entries: Sequence[TermEntry],
        lanes: Mapping[int, TermLane],
        *,
        after: int,
        head: int,
        chain: bytes,
    ) -> bool:
        """Adds entries and moves the mark, all or nothing. False if the mark is not at `after`."""
        ...

    def forget(self, conversations: Sequence[str]) -> None:
        """Removes everything of these conversations."""
        ...

    def erase(self, conversation: str, seqs: Sequence[int]) -> None:
        """Removes the entries of these events."""
        ...

    def size(self, scope: Scope) -> tuple[int, float]:
        """How many entries there are, and the sum of their lengths with what they borrow."""
        ...

    def authors(self, scope: Scope) -> dict[str, int]:
        """Who speaks, and how often."""
        ...

    def postings(self, sought: Sought, scope: Scope, most: int) -> list[tuple[TermPlace, int]]:
        """The newest entries that match, and how often."""
        ...

    def entries(self, places: Sequence[TermPlace]) -> list[TermEntry]:
        """Those entries that there are, without their terms."""
        ...
