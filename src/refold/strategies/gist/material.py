"""What a gist is made from: the messages to be folded as passages, how the names in them are used,
and what the rest of the page shows already.

Names are counted over the whole page in order: what can be seen, and what earlier gists noted.
Neighbours: `passages` reads the messages, `names` counts, `gist` chooses lines from this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import chain

from refold.core.model import Slot
from refold.strategies.brief import tokens_of
from refold.strategies.gist.choice import Kept, by_message
from refold.strategies.gist.lines import Passage, names_on
from refold.strategies.gist.names import Needs
from refold.strategies.gist.passages import Reader, chars_of


class Material:
    """What is folded, in runs. `kept` are the messages that stay whole, `frozen` the gists that
    stay as they are."""

    def __init__(
        self, reader: Reader, runs: list[list[Slot]], kept: Sequence[Slot], frozen: Sequence[Slot]
    ) -> None:
        self.runs, self.kept, self.frozen = runs, kept, frozen
        self.largest = max(runs, key=tokens_of, default=[])
        self.slots = [slot for run in runs for slot in run]
        self.read = {slot.seq: reader.read(slot) for slot in self.slots}
        self.passages = self.passages_of(self.slots)
        kept_passages = {slot.seq: [reader.shown(slot)] for slot in kept}
        page = sorted([*frozen, *self.slots, *kept], key=lambda slot: slot.seq)
        self.needs = _needs(page, self.read | kept_passages)
        self.shown = reader.shown_by_gists(frozen)
        for passages in kept_passages.values():
            self.shown.add(passages[0])

    def passages_of(self, run: Sequence[Slot]) -> list[Passage]:
        """The messages of a run; those that a gist stands for as well."""
        return [one for slot in run for one in self.read[slot.seq]]

    def odds(self) -> dict[str, float]:
        """How likely each name in what is folded is needed again."""
        lines = chain.from_iterable(one.names for one in self.passages)
        return self.needs.odds(set(chain.from_iterable(lines)))

    def needs_noted(self, kept: Kept) -> Needs:
        """What a later gist has to know of the names on the kept lines: what can be seen without
        what stays whole."""
        return self.needs_of(names_on(self.passages, by_message(kept)))

    def needs_of(self, names: Set[str]) -> Needs:
        """What is known of these names without what stays whole."""
        return _needs([*self.frozen, *self.slots], self.read, names)

    @property
    def chars(self) -> int:
        """How many characters the folded messages have."""
        return chars_of(self.passages)


def _needs(
    slots: Sequence[Slot], read: Mapping[int, Sequence[Passage]], only: Set[str] | None = None
) -> Needs:
    """What is known of the names in these slots, in order: what can be seen, and what earlier
    gists noted."""
    needs = Needs(only)
    for slot in slots:
        passages = read.get(slot.seq, ())
        noted = slot.summary.gist if slot.summary else None
        if noted:
            needs.now = max(needs.now, noted.now - len(passages))
        for one in passages:
            needs.observe(one.role, one.names)
        if noted:
            # What a gist noted beats what can be seen of it now, wherever it had seen more.
            needs.recall(noted.now, noted.names)
    return needs
