"""What may be about the same as an entry: shown to whoever has just stored it, who knows whether it
has changed.

Near is what the vectors say, by the threshold of the embedder; and without them, what shares much
of the rare words. The same is shown to a writer that takes facts from messages. Nothing is decided
here. Neighbours: `finder` finds, `succession` compares vectors and `followers` words, `semantic`
offers `near`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from refold.core.model import Memory
from refold.memory.claim import claim_of
from refold.memory.entry import MemoryEntry, Run, Version
from refold.memory.finder import Asked, Finder
from refold.memory.fold import Entries
from refold.memory.journal import Journal
from refold.memory.succession import Likeness

QUERY_WORDS_MAX, LOOKED_AT = 60, 40
SENTENCES_MAX, EACH = 60, 5  # that are looked for, and hits of each
WORDS_NEAR = 0.15  # the least cosine of words weighed by rarity; measured on the lives in bench
_WORD = re.compile(r"\w+")


def near(
    journal: Journal, finder: Finder, run: Run, limit: int, *, accepted: bool
) -> list[MemoryEntry]:
    """The entries that are true and may be about the same, the nearest first, each with its
    nearness as its score; if only what is `accepted` is wanted, nothing that waits."""
    words = _WORD.findall(run.versions[-1].body.content)[:QUERY_WORDS_MAX]
    if not words or not limit:
        return []
    entries = journal.glance(finder)
    asked = Asked(query=" ".join(words), most=LOOKED_AT)
    seqs = [found.seq for found in finder.found(journal.id, asked)]
    others = [
        one
        for one in _others(entries, run, seqs, journal.now_ms())
        if one.first.is_accepted or not accepted
    ]
    likeness = Likeness(finder, journal.id)
    likeness.read((run, *others))
    nearness = {
        other.entry: max(
            likeness.between(run, other) or 0.0,
            entries.shared(run, other, frozenset()).rest - WORDS_NEAR,
        )
        for other in others
    }
    found = [one for one in others if nearness[one.entry] > 0]
    found.sort(key=lambda one: nearness[one.entry], reverse=True)
    return [
        entries.entry(one, journal.scope, score=round(min(1.0, nearness[one.entry]), 4))
        for one in found[:limit]
    ]


def known_of(
    journal: Journal, finder: Finder, sentences: Iterable[str], limit: int
) -> list[MemoryEntry]:
    """The entries that are true and may be about what these sentences say, as many as the limit.
    What no person accepted is not among them: they are for a model."""
    entries, now_ms = journal.glance(finder), journal.now_ms()
    least = finder.least_near()
    known: dict[str, Run] = {}
    for sentence in islice((one for one in sentences if _WORD.search(one)), SENTENCES_MAX):
        words = " ".join(_WORD.findall(sentence)[:QUERY_WORDS_MAX])
        said = Run([Version(0, 0, Memory(entry="", content=sentence), claim_of(sentence))])
        for found in islice(finder.found(journal.id, Asked(query=words, most=LOOKED_AT)), EACH):
            run = entries.run_at(found.seq)
            if run is None or not run.first.is_accepted or not run.holds_at(now_ms):
                continue
            shared = entries.shared(said, run, frozenset()).rest
            if shared >= WORDS_NEAR or (found.cosine is not None and found.cosine >= least):
                known.setdefault(run.entry, run)
    return [entries.entry(run, journal.scope) for run in islice(known.values(), limit)]


def _others(entries: Entries, run: Run, seqs: Iterable[int], now_ms: int) -> list[Run]:
    """The entries of these events that are true now, but for what is the same, or replaced."""
    known = {one.body.entry for one in run.versions} | set(run.replaces)
    found = (entries.run_at(seq) for seq in seqs)
    is_other = {one.first.seq: one for one in found if one is not None and one.holds_at(now_ms)}
    return [one for one in is_other.values() if one.entry not in known]
