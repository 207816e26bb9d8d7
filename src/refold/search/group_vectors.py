"""Vectors of word groups beside the full text: every word of a query is looked for by its meaning.

One vector of a whole message loses what its words say; with one for every three words a question
finds "my automobile needs new brakes" by `car` and by `repair`. In talk, which is short messages,
they weigh more than the full text, so who is named by the query and who only asks counts here as
well. Weights and handicaps were chosen by cross-validation over the talks of `bench/locomo.py`; for
the long messages of agents, by `bench/recall.py`.
Neighbours: `vectors` keeps the rows, `transformer` makes them, `groups` does the arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from refold.search import finding, groups, rank
from refold.search.bm25 import rarity
from refold.search.index import Index, Range
from refold.search.numbers import EMPTY, Loaded, Nearness, Vector
from refold.search.transformer import Transformer
from refold.search.vectors import (
    COMMON_SHARE,
    QUIET_RARITY,
    Vectors,
    asking,
    entries_by_word,
)
from refold.search.words import Query

COMMON_MIN = 5  # a word of fewer entries is not common, however few entries there are
WHOLE_MAX, BATCH = 20_000, 32
_WORD = re.compile(r"\w+")


class GroupVectors(Vectors):
    """The vectors of an index by a transformer: some rows for each entry."""

    batch = BATCH

    def __init__(self, index: Index, embedder: Transformer) -> None:
        super().__init__(index, embedder)
        self._transformer, self.whole_max = embedder, WHOLE_MAX

    def _rows(self, texts: Mapping[int, str]) -> list[tuple[int, bytes]]:
        if not texts:
            return []
        with asking():
            grouped = self._transformer.grouped(list(texts.values()))
        self._check_dimension(grouped[0].shape[1])
        return list(zip(texts, groups.blobs(grouped)))

    def _arranged(self, rows: list[tuple[int, bytes]]) -> Loaded:
        dimension = int(self._fact("dimension") or 0)
        if not rows or not dimension:
            return EMPTY
        ids = [id for id, _ in rows]
        blobs = [blob for _, blob in rows]
        short = self._are_short_messages(ids)
        return groups.Groups(ids, blobs, dimension, short, apart=self.index.apart)

    def _whole(self, blob: bytes, dimension: int) -> Vector:
        return groups.whole(blob, dimension)

    def _nearness(
        self, loaded: Loaded, query: Query, found: Sequence[rank.Matches], total: int
    ) -> Nearness | None:
        if not isinstance(loaded, groups.Groups):
            return None
        counts = {word.lower(): count for word, count in entries_by_word(query, found).items()}
        with asking():
            words, rows = self._transformer.words_of(telling_text(query.text, counts, total))
        self._check_dimension(rows.shape[1])
        weights = [
            rarity(counts[word], total) if word in counts else QUIET_RARITY
            for word in map(str.lower, words)
        ]
        return loaded.near_words(rows, weights)

    def _weight(self, loaded: Loaded) -> float:
        if self.index.apart:
            return rank.GROUP_WEIGHT_APART
        share = loaded.short_share if isinstance(loaded, groups.Groups) else 0.0
        return rank.GROUP_WEIGHT_WORK + share * (rank.GROUP_WEIGHT_TALK - rank.GROUP_WEIGHT_WORK)

    def _leanings(
        self, query: Query, ranges: Sequence[Range], ids: Sequence[int]
    ) -> Mapping[int, float]:
        return finding.leanings(self.index, query, ranges, ids)


def telling_text(text: str, counts: Mapping[str, int], total: int) -> str:
    """A query without its common words: a name that many messages carry would color all others.
    The rest stays the sentence it is."""
    common = max(COMMON_MIN, COMMON_SHARE * total)

    def kept(word: re.Match[str]) -> str:
        return "" if counts.get(word[0].lower(), 0) > common else word[0]

    left = _WORD.sub(kept, text)
    return left if _WORD.search(left) else text
