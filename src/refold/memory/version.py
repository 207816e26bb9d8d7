"""One event of a memory, and an entry as it stood for a while. Neighbour: `fold` makes them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from refold.core.model import Memory, Trust
from refold.memory.claim import Claim
from refold.memory.entry import MemoryEntry

FOREVER_MS = 1 << 62
TRUSTED: tuple[Trust, ...] = ("user", "model", "tool", "import")  # most first
ACCEPTED: tuple[Trust, ...] = ("user", "model")  # the others wait until a person accepts them


class Version(Struct, frozen=True, gc=False):
    """One event: where it stands, when it was written, what it says and claims."""

    seq: int
    at_ms: int
    body: Memory
    claim: Claim

    @property
    def from_ms(self) -> int:
        """From when it is true: as given, else from when it was said."""
        return self.body.valid_from_ms or self.at_ms

    @property
    def is_accepted(self) -> bool:
        return self.body.trust in ACCEPTED


class Run(Struct):
    """One entry as it stood for a while: the version that began it, and what was merged into it.
    `until_ms` is FOREVER_MS while nothing ended it; `heir` is the seq of what did, `is_told` if
    somebody said that it does."""

    versions: list[Version]
    until_ms: int = FOREVER_MS
    heir: int = 0
    is_told: bool = False

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
        """That of all versions; where they differ, the later one's."""
        return {key: one for each in self.versions for key, one in each.body.metadata.items()}

    @property
    def version(self) -> int:
        """The number of its own newest version, not of one that was merged into it."""
        newest = self.versions[-1].body
        if newest.entry == self.entry:
            return newest.version
        return max(one.body.version for one in self.versions if one.body.entry == self.entry)

    @property
    def trust(self) -> Trust:
        """That of the one who is trusted most among those who said it."""
        return min((one.body.trust for one in self.versions), key=TRUSTED.index)

    @property
    def replaces(self) -> tuple[str, ...]:
        """The entries that are so no longer since this is."""
        return tuple(dict.fromkeys(id for one in self.versions for id in one.body.replaces))

    def holds_at(self, at_ms: int) -> bool:
        return self.first.from_ms <= at_ms < self.until_ms

    def shown(self, **more: Any) -> MemoryEntry:
        """It as a caller sees it, with what only the fold knows."""
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

    def end(self, by: Version, *, is_told: bool = False) -> None:
        """Ends it by something else, if that was so before it ended. What is told to replace it
        may have been so before it was: then it never was."""
        until_ms = max(by.from_ms, self.first.from_ms) if is_told else by.from_ms
        if until_ms < self.until_ms:
            self.until_ms, self.heir, self.is_told = until_ms, by.seq, is_told

    def says_the_same(self, other: Version) -> bool:
        """Whether a version is one that is merged into this, and cannot end it."""
        is_alike = self.first.is_accepted == other.is_accepted
        return is_alike and is_same(self.first.claim, other.claim)


def is_same(one: Claim, other: Claim) -> bool:
    """Whether two claims say the same of the same."""
    if one.about != other.about:
        return False
    return one.value == other.value if one.about else one.said == other.said
