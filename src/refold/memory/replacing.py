"""Which entries are so no longer because somebody said what replaces them.

Whoever remembers something may know that a fact has changed; then it stands in the event itself,
and no rule has to guess it. It can be taken back with the event. What tools or imports said
replaces nothing that a person or a model said. Neighbours: `fold` ends what is replaced, `semantic`
takes `replaces=`.
"""

from __future__ import annotations

from collections.abc import Iterator

from refold.memory.bookmark import Row
from refold.memory.version import Run, Version

REPLACED_MAX = 50  # by one entry


class Replacers:
    """Versions by the entries that they replace."""

    def __init__(self) -> None:
        self._by_entry: dict[str, dict[int, Version]] = {}

    def add(self, version: Version) -> None:
        """Takes a version that holds."""
        for entry in version.body.replaces:
            self._by_entry.setdefault(entry, {})[version.seq] = version

    def remove(self, version: Version) -> None:
        """Forgets a version, if it was added."""
        for entry in version.body.replaces:
            self._by_entry.get(entry, {}).pop(version.seq, None)

    def of(self, version: Version) -> Iterator[Version]:
        """What replaces the entry of a version, and was said later or became true later: who says
        afterwards how it was before, or accepts that, does not make it true again."""
        for one in self._by_entry.get(version.body.entry, {}).values():
            is_later = one.seq > version.seq or one.from_ms > version.from_ms
            if is_later and (one.is_accepted or not version.is_accepted):
                yield one

    def end(self, run: Run, version: Version) -> None:
        """Ends an entry that a version is part of, if something replaces it."""
        for replacer in self.of(version):
            if not run.says_the_same(replacer):
                run.end(replacer, is_told=True)

    def rows(self) -> Iterator[Row]:
        """What a bookmark keeps of this."""
        for entry, versions in self._by_entry.items():
            yield from (("replacers", entry, seq) for seq in versions)

    def open(self, by_entry: dict[str, dict[int, Version]]) -> None:
        """Goes on from a bookmark."""
        self._by_entry = by_entry
