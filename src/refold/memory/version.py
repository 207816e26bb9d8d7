"""One event of a memory, and an entry as it stood for a while. Neighbour: `fold` makes them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from refold.core.model import Memory, Trust
from refold.memory.claim import Claim

FOREVER_MS = 1 << 62
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
    `until_ms` is FOREVER_MS while nothing ended it; `heir` is the seq of what did."""

    versions: list[Version]
    until_ms: int = FOREVER_MS
    heir: int = 0

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

    def holds_at(self, at_ms: int) -> bool:
        return self.first.from_ms <= at_ms < self.until_ms
