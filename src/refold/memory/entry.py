"""The entries of a memory: as a caller sees them, and as the fold builds them from events.

A `Version` is one event, a `Run` is an entry while it was true, with the versions merged into it; a
`MemoryEntry` is what a caller receives. A caller's arguments are checked here, before anything is
written. Neighbour: `fold` builds runs and entries.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from refold.checked import quoted
from refold.core.model import Memory, Trust
from refold.display import is_text
from refold.errors import Invalid
from refold.memory.claim import Claim

ID_PREFIX, ID_BYTES = "mem-", 8


def new_id() -> str:
    """The id of a new entry."""
    return f"{ID_PREFIX}{secrets.token_hex(ID_BYTES)}"


def is_whole(id: str) -> bool:
    """Whether an id is complete and of our own form, not the beginning of one."""
    digits = id.removeprefix(ID_PREFIX)
    is_long = id.startswith(ID_PREFIX) and len(digits) == 2 * ID_BYTES
    return is_long and set(digits) <= set("0123456789abcdef")


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One remembered fact. `score` is its quality as an answer, from 0 to 1, and `why` the reason;
    `count` is the number of times it was said. It is true from `valid_from_ms` until
    `valid_until_ms`, or still if that is None. `rivals` are entries with another value for the same
    thing, or with the same predecessor: code cannot tell which of them is right. `replaces` are
    entries that this one was declared to replace; while it is in the inbox, they are still true. An
    entry from a tool, an import or a rule `waits` until a person accepts it; until then no model
    sees it. `source` is a conversation and a seq."""

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
    seq: int = 0  # of its newest event, in the log of its scope

    @property
    def created(self) -> datetime:
        """The time it was first said."""
        return datetime.fromtimestamp(self.created_ms / 1_000, UTC)

    @property
    def updated(self) -> datetime:
        """The time it was last said or changed."""
        return datetime.fromtimestamp(self.updated_ms / 1_000, UTC)

    @property
    def is_current(self) -> bool:
        """Whether nothing has ended it."""
        return self.valid_until_ms is None


class Forgotten(Struct, frozen=True, kw_only=True):
    """The result of `forget`: the forgotten entries, and the numbers of erased events, of messages
    that showed them, and of summaries of those. `shown_in` has the last two for each conversation.
    `mentions` are messages with the same words that stay: a conversation and a seq. `out_of_reach`
    lists other places that may still have them."""

    entries: tuple[str, ...] = ()
    events: int = 0
    messages: int = 0
    summaries: int = 0
    shown_in: tuple[tuple[str, int, int], ...] = ()
    mentions: tuple[tuple[str, int], ...] = ()
    out_of_reach: tuple[str, ...] = ("earlier exports", "backups of the files")

    def __add__(self, other: Forgotten) -> Forgotten:
        names = self.__struct_fields__
        both = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Forgotten(**both | {"out_of_reach": tuple(dict.fromkeys(both["out_of_reach"]))})


FOREVER_MS = 1 << 62
TRUSTED: tuple[Trust, ...] = ("user", "model", "tool", "import")  # most first
ACCEPTED: tuple[Trust, ...] = ("user", "model")  # others wait until a person accepts them


class Version(Struct, frozen=True, gc=False):
    """One event of an entry: its seq, time, body and claim."""

    seq: int
    at_ms: int
    body: Memory
    claim: Claim

    @property
    def from_ms(self) -> int:
        """The start of its validity: the caller's, else the time it was said."""
        return self.body.valid_from_ms or self.at_ms

    @property
    def is_accepted(self) -> bool:
        return self.body.trust in ACCEPTED


class Run(Struct):
    """An entry while it was true: its first version, and the versions merged into it. `until_ms` is
    FOREVER_MS while nothing ended it; `heir` is the seq of its successor, and `is_declared` says
    that the successor was declared to replace it."""

    versions: list[Version]
    until_ms: int = FOREVER_MS
    heir: int = 0
    is_declared: bool = False

    @property
    def first(self) -> Version:
        return self.versions[0]

    @property
    def entry(self) -> str:
        return self.first.body.entry

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tag for one in self.versions for tag in one.body.tags))

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of all versions; the later one wins."""
        return {key: one for each in self.versions for key, one in each.body.metadata.items()}

    @property
    def version(self) -> int:
        """The number of its own newest version, ignoring versions merged into it."""
        newest = self.versions[-1].body
        if newest.entry == self.entry:
            return newest.version
        return max(one.body.version for one in self.versions if one.body.entry == self.entry)

    @property
    def trust(self) -> Trust:
        """The highest trust among its versions."""
        return min((one.body.trust for one in self.versions), key=TRUSTED.index)

    @property
    def replaces(self) -> tuple[str, ...]:
        """The entries that it replaces."""
        return tuple(dict.fromkeys(id for one in self.versions for id in one.body.replaces))

    def holds_at(self, at_ms: int) -> bool:
        return self.first.from_ms <= at_ms < self.until_ms

    def shown(self, **more: Any) -> MemoryEntry:
        """The entry for a caller, with the fields that only the fold knows."""
        newest = self.versions[-1]
        given = dict[str, Any](
            id=self.entry,
            content=newest.body.content,
            tags=self.tags,
            metadata=self.metadata,
            count=len({one.body.entry for one in self.versions}),
            version=self.version,
            trust=self.trust,
            source=next((one.body.source for one in self.versions if one.body.source), None),
            updated_ms=newest.at_ms,
            valid_from_ms=self.first.from_ms,
            valid_until_ms=None if self.until_ms == FOREVER_MS else self.until_ms,
            replaces=self.replaces,
            waits=not self.first.is_accepted,
            seq=newest.seq,
        )
        return MemoryEntry(**(given | more))

    def end(self, by: Version, *, is_declared: bool = False) -> None:
        """Ends it by a successor, unless it ended earlier. If a declared successor was already true
        before it, it was never true."""
        until_ms = max(by.from_ms, self.first.from_ms) if is_declared else by.from_ms
        if until_ms < self.until_ms:
            self.until_ms, self.heir, self.is_declared = until_ms, by.seq, is_declared

    def says_the_same(self, other: Version) -> bool:
        """Whether a version would be merged into this run, and so cannot end it."""
        is_alike = self.first.is_accepted == other.is_accepted
        return is_alike and is_same(self.first.claim, other.claim)


def is_same(one: Claim, other: Claim) -> bool:
    """Whether two claims have the same value for the same thing."""
    if one.about != other.about:
        return False
    return one.value == other.value if one.about else one.said == other.said


CONTENT_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX = 20_000, 100, 50


def content_checked(content: str) -> str:
    """The stripped text of an entry; Invalid if it is empty, too long, or not writable."""
    text = content.strip()
    if not text or len(text) > CONTENT_CHARS_MAX:
        said = f"the content has {len(text):,} characters"
        raise Invalid(said, hint=f"from 1 to {CONTENT_CHARS_MAX:,}; keep long texts as artifacts")
    if not is_text(text):
        raise Invalid(
            "the content contains an unpaired surrogate", hint="give text that UTF-8 can hold"
        )
    return text


def tags_checked(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags, without duplicates."""
    out = tuple(dict.fromkeys(tags))
    if len(out) > TAGS_MAX:
        raise Invalid(f"{len(out)} tags are too many", hint=f"at most {TAGS_MAX}")
    for tag in out:
        if not tag.strip() or len(tag) > TAG_CHARS_MAX or not is_text(tag):
            hint = f"a text of 1 to {TAG_CHARS_MAX} characters"
            raise Invalid(f"{quoted(tag)} is not a tag", hint=hint)
    return out


def source_checked(
    source: int | tuple[str, int] | None, conversation: str
) -> tuple[str, int] | None:
    """The source of an entry; a seq alone belongs to the conversation of the memory."""
    if source is None or isinstance(source, tuple):
        return source
    if not conversation:
        raise Invalid(
            f"source={source} names no conversation", hint="give a conversation and a seq"
        )
    return conversation, source
