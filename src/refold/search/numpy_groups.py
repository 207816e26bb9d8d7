"""Vectors of word groups beside the full text: every word of a query is looked for by its meaning.

One vector of a whole message loses what its words say; with one for every three words a question
finds "my automobile needs new brakes" by `car` and by `repair`. In talk, which is short messages,
they weigh more than the full text, so who is named by the query and who only asks counts here as
well. Weights and handicaps were chosen by cross-validation over the talks of `bench/locomo.py`; for
the long messages of agents, by `bench/recall.py`.
Neighbours: `vectors` keeps the rows, `transformer` makes them, `groups` does the arithmetic.

The arithmetic of word groups by numpy: which entries have the words of a query, or what means
the same.

A group is a row of small integers: a byte a number, its length left out. Each word of the query
looks for its best group in every entry. How much that stands out, in deviations over all entries,
is what the entry has of the word; of the messages beside a short one it takes what exceeds a
handicap. The sum over the words, each by how rare it is, is the nearness. Entries that stand apart
are sentences: there the whole sentence counts as much as its words. Neighbour:
`group_vectors` imports this when the first vectors are made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy

from refold.search import finding, rank
from refold.search.embedder import Transformer, units
from refold.search.index import Index, Range
from refold.search.numbers import EMPTY, LENGTH_MIN, Loaded, Nearness, Vector
from refold.search.rank import GROUP_HANDICAPS, inverse_document_frequency
from refold.search.vectors import COMMON_SHARE, QUIET_RARITY, Vectors, asking, entries_by_word
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
        return list(zip(texts, blobs(grouped)))

    def _arranged(self, rows: list[tuple[int, bytes]]) -> Loaded:
        dimension = int(self._fact("dimension") or 0)
        if not rows or not dimension:
            return EMPTY
        ids = [id for id, _ in rows]
        blobs = [blob for _, blob in rows]
        short = self._are_short_messages(ids)
        return Groups(ids, blobs, dimension, short, apart=self.index.apart)

    def _whole(self, blob: bytes, dimension: int) -> Vector:
        return mean_vector(blob, dimension)

    def _nearness(
        self, loaded: Loaded, query: Query, found: Sequence[rank.Matches], total: int
    ) -> Nearness | None:
        if not isinstance(loaded, Groups):
            return None
        counts = {word.lower(): count for word, count in entries_by_word(query, found).items()}
        with asking():
            words, rows = self._transformer.words_of(telling_text(query.text, counts, total))
        self._check_dimension(rows.shape[1])
        weights = [
            inverse_document_frequency(counts[word], total) if word in counts else QUIET_RARITY
            for word in map(str.lower, words)
        ]
        return loaded.near_words(rows, weights)

    def _weight(self, loaded: Loaded) -> float:
        if self.index.apart:
            return rank.GROUP_WEIGHT_APART
        share = loaded.short_share if isinstance(loaded, Groups) else 0.0
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


BLOCK_ROWS = 8_192
INTEGER_MAX = 127


def blobs(entries: Sequence[Any]) -> list[bytes]:
    """The groups of each entry as they are stored."""
    return [_integers(rows).tobytes() for rows in entries]


def mean_vector(blob: bytes, dimension: int) -> list[float]:
    """The groups of one entry as one vector of length one: their mean."""
    rows = numpy.frombuffer(blob, dtype="i1").reshape(-1, dimension).astype(numpy.float32)
    mean: list[float] = units(units(rows).sum(axis=0, keepdims=True))[0].tolist()
    return mean


def _integers(rows: Any) -> Any:
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    return numpy.rint(rows * (INTEGER_MAX / numpy.maximum(largest, LENGTH_MIN))).astype("i1")


class Groups:
    """The groups of some entries. `short` entries take from their short neighbours, unless they
    are `apart`."""

    def __init__(
        self,
        ids: list[int],
        stored: Sequence[bytes],
        dimension: int,
        short: Sequence[bool],
        *,
        apart: bool = False,
    ) -> None:
        self.ids, self._apart = ids, apart
        self._rows = numpy.frombuffer(b"".join(stored), dtype="i1").reshape(-1, dimension)
        counts = [len(blob) // dimension for blob in stored]
        self._starts = numpy.concatenate([[0], numpy.cumsum(counts)[:-1]]).astype(numpy.int64)
        self._places = numpy.array(ids, dtype=numpy.int64)
        self._short = numpy.array(short)
        self.short_share = float(self._short.mean())

    def nearness(self, asked: Vector) -> Nearness:
        """How near each entry is to one word."""
        return self.near_words(numpy.array([asked]), [1.0])

    def near_words(self, words: Any, weights: Sequence[float]) -> Nearness:
        """How near each entry is to these words, each by its weight."""
        best = numpy.maximum.reduceat(self._cosines(words), self._starts, axis=0)
        shares = numpy.asarray(weights) / max(sum(weights), LENGTH_MIN)
        deviations = numpy.maximum(best.std(axis=0), LENGTH_MIN)
        outstanding = (best - best.mean(axis=0)) / deviations
        lent = outstanding if self._apart else self._with_neighbours(outstanding)
        near = lent @ shares
        if self._apart:
            near = _deviations(near) + _deviations(self._means @ units(words.mean(axis=0)[None])[0])
        return _nearness(near, own=_nearness(best @ shares))

    @cached_property
    def _means(self) -> Any:
        """The mean of each entry's groups: what it says as a whole."""
        rows = self._rows.astype(numpy.float32)
        return units(numpy.add.reduceat(units(rows), self._starts, axis=0))

    def _cosines(self, words: Any) -> Any:
        """Every group with every word, some rows at a time: as floats they take four times the
        room."""
        out = numpy.empty((len(self._rows), len(words)), dtype=numpy.float32)
        for start in range(0, len(out), BLOCK_ROWS):
            rows = self._rows[start : start + BLOCK_ROWS].astype(numpy.float32)
            lengths = numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), LENGTH_MIN)
            out[start : start + BLOCK_ROWS] = rows @ words.T / lengths
        return out

    def _with_neighbours(self, best: Any) -> Any:
        out = best.copy()
        for step, handicap in GROUP_HANDICAPS:
            here, there = slice(None, -step), slice(step, None)
            if step < 0:
                here, there = slice(-step, None), slice(None, step)
            beside = self._short[here] & self._short[there]
            beside &= self._places[there] - self._places[here] == step
            lent = numpy.where(beside[:, None], best[there] - handicap, -numpy.inf)
            numpy.maximum(out[here], lent, out=out[here])
        return out


def _deviations(values: Any) -> Any:
    """By how many deviations each value stands out."""
    return (values - values.mean()) / max(float(values.std()), LENGTH_MIN)


def _nearness(values: Any, own: Nearness | None = None) -> Nearness:
    return Nearness(values.tolist(), float(values.mean()), float(values.std()), own)
