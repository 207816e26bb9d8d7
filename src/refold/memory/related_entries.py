"""Related entries: true entries that may be about the same thing as a new one, for a caller or a
writer who knows whether the fact has changed.

Nearness comes from the vectors, above the threshold of the embedder, or from a large share of rare
words. Nothing is decided here. Neighbours: `finder` finds, `succession` compares vectors,
`later_mentions` compares words, `semantic` offers `near`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from refold.core.model import Memory
from refold.memory.claim import claim_of
from refold.memory.entry import MemoryEntry, Run, Version
from refold.memory.finder import Finder, IndexQuery
from refold.memory.journal import Journal
from refold.memory.succession import Likeness

QUERY_WORDS_MAX, CANDIDATES_MAX = 60, 40
SENTENCES_MAX, HITS_EACH = 60, 5  # sentences to search for, and hits of each
WORDS_NEAR = 0.15  # least cosine of words weighted by rarity; measured on the lives in bench
_WORD = re.compile(r"\w+")


def near(
    journal: Journal, finder: Finder, run: Run, limit: int, *, accepted: bool
) -> list[MemoryEntry]:
    """The true entries that may be about the same thing, the nearest first, with their nearness as
    score. With `accepted`, pending entries are left out."""
    words = _WORD.findall(run.versions[-1].body.content)[:QUERY_WORDS_MAX]
    if not words or not limit:
        return []
    entries = journal.glance(finder)
    asked = IndexQuery(query=" ".join(words), most=CANDIDATES_MAX)
    seqs = [found.seq for found in finder.found(journal.id, asked)]
    now_ms = journal.now_ms()
    known = {one.body.entry for one in run.versions} | set(run.replaces)
    runs = {one.first.seq: one for one in map(entries.run_at, seqs) if one is not None}
    others = [
        one
        for one in runs.values()
        if one.holds_at(now_ms)
        and one.entry not in known
        and (one.first.is_accepted or not accepted)
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
    """Up to `limit` true entries that may be about these sentences, without pending entries,
    because they are for a model."""
    entries, now_ms = journal.glance(finder), journal.now_ms()
    least = finder.least_near()
    known: dict[str, Run] = {}
    for sentence in islice((one for one in sentences if _WORD.search(one)), SENTENCES_MAX):
        words = " ".join(_WORD.findall(sentence)[:QUERY_WORDS_MAX])
        said = Run([Version(0, 0, Memory(entry="", content=sentence), claim_of(sentence))])
        for found in islice(
            finder.found(journal.id, IndexQuery(query=words, most=CANDIDATES_MAX)), HITS_EACH
        ):
            run = entries.run_at(found.seq)
            if run is None or not run.first.is_accepted or not run.holds_at(now_ms):
                continue
            shared = entries.shared(said, run, frozenset()).rest
            if shared >= WORDS_NEAR or (found.cosine is not None and found.cosine >= least):
                known.setdefault(run.entry, run)
    return [entries.entry(run, journal.scope) for run in islice(known.values(), limit)]
