"""Vectors of word groups, in addition to the full text: each word of a query is matched by its
meaning.

One vector for a whole message loses the meaning of its words; with one for every three words, `car`
and `repair` find "my automobile needs new brakes". A group is a row of bytes without its length.
Each word counts by its best group in every entry, measured in deviations over all entries; short
messages borrow from short neighbours, at a handicap. The sum over the words, weighted by rarity, is
the nearness. Weights and handicaps come from cross-validation over `bench/locomo.py` for talk, and
`bench/recall.py` for agents. Neighbours: `vectors` keeps the rows, `bert` computes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy

from refold.patterns import regex
from refold.search import index_query, rank
from refold.search.embedders import Transformer, Vector
from refold.search.index import Index, Range
from refold.search.rank import GROUP_HANDICAPS, inverse_document_frequency
from refold.search.vector_arithmetic import LENGTH_MIN, Loaded, Nearness, lending_pairs, units
from refold.search.vectors import COMMON_SHARE, QUIET_RARITY, Vectors, entries_by_word, guarded
from refold.search.words import Query

COMMON_MIN = 5  # entries; a word in fewer entries is not common, however few there are in all
COMPARED_MAX, BATCH = 20_000, 32
BLOCK_ROWS = 8_192
INTEGER_MAX = 127
_WORD = regex(r"\w+")


class GroupVectors(Vectors):
    """The vectors of an index by a transformer: several rows for each entry."""

    batch = BATCH
    compared_max = COMPARED_MAX

    def __init__(self, index: Index, embedder: Transformer) -> None:
        super().__init__(index, embedder)
        self._transformer = embedder

    def _rows(self, texts: Mapping[int, str]) -> list[tuple[int, bytes]]:
        if not texts:
            return []
        with guarded():
            grouped = self._transformer.grouped(list(texts.values()))
        self._check_dimension(grouped[0].shape[1])
        return list(zip(texts, blobs(grouped)))

    def _arranged(
        self, ids: list[int], blobs: list[bytes], dimension: int, short: list[bool]
    ) -> Loaded:
        return Groups(ids, blobs, dimension, short, standalone=self.index.standalone)

    def _mean(self, blob: bytes, dimension: int) -> Vector:
        rows = numpy.frombuffer(blob, dtype="i1").reshape(-1, dimension).astype(numpy.float32)
        mean: list[float] = units(units(rows).sum(axis=0, keepdims=True))[0].tolist()
        return mean

    def _nearness(
        self, loaded: Loaded, query: Query, found: Sequence[rank.Matches], total: int
    ) -> Nearness:
        assert isinstance(loaded, Groups)
        counts = {word.lower(): count for word, count in entries_by_word(query, found).items()}
        with guarded():
            words, rows = self._transformer.words_of(distinctive_text(query.text, counts, total))
        self._check_dimension(rows.shape[1])
        weights = [
            inverse_document_frequency(counts[word], total) if word in counts else QUIET_RARITY
            for word in map(str.lower, words)
        ]
        return loaded.near_words(rows, weights)

    def _weight(self, loaded: Loaded) -> float:
        assert isinstance(loaded, Groups)
        if self.index.standalone:
            return rank.GROUP_WEIGHT_STANDALONE
        talk = rank.GROUP_WEIGHT_TALK - rank.GROUP_WEIGHT_WORK
        return rank.GROUP_WEIGHT_WORK + loaded.short_share * talk

    def _leanings(
        self, query: Query, ranges: Sequence[Range], ids: Sequence[int]
    ) -> Mapping[int, float]:
        return index_query.leanings(self.index, query, ranges, ids)


def distinctive_text(text: str, counts: Mapping[str, int], total: int) -> str:
    """A query without its common words: a name in many messages would color all other words.
    The rest stays a sentence."""
    common = max(COMMON_MIN, COMMON_SHARE * total)
    left = _WORD.sub(lambda word: "" if counts.get(word[0].lower(), 0) > common else word[0], text)
    return left if _WORD.search(left) else text


def blobs(entries: Sequence[Any]) -> list[bytes]:
    """The groups of each entry in stored form: a byte per number."""
    out = []
    for rows in entries:
        scale = INTEGER_MAX / numpy.maximum(numpy.abs(rows).max(axis=1, keepdims=True), LENGTH_MIN)
        out.append(numpy.rint(rows * scale).astype("i1").tobytes())
    return out


class Groups:
    """The groups of some entries. `short` entries borrow from short neighbours unless all are
    `standalone`; standalone entries are sentences, which also count as a whole."""

    def __init__(
        self,
        ids: list[int],
        stored: Sequence[bytes],
        dimension: int,
        short: Sequence[bool],
        *,
        standalone: bool = False,
    ) -> None:
        self.ids, self._standalone = ids, standalone
        self._rows = numpy.frombuffer(b"".join(stored), dtype="i1").reshape(-1, dimension)
        counts = [len(blob) // dimension for blob in stored]
        self._starts = numpy.concatenate([[0], numpy.cumsum(counts)[:-1]]).astype(numpy.int64)
        self._short = numpy.array(short)
        self.short_share = float(self._short.mean())

    def nearness(self, query: Vector) -> Nearness:
        """Nearness of each entry to a single word."""
        return self.near_words(numpy.array([query]), [1.0])

    def near_words(self, words: Any, weights: Sequence[float]) -> Nearness:
        """Nearness of each entry to these words, by their weights."""
        best = numpy.maximum.reduceat(self._cosines(words), self._starts, axis=0)
        shares = numpy.asarray(weights) / max(sum(weights), LENGTH_MIN)
        deviations = numpy.maximum(best.std(axis=0), LENGTH_MIN)
        outstanding = (best - best.mean(axis=0)) / deviations
        if self._standalone:
            sentence = units(words.mean(axis=0)[None])[0]
            near = _deviations(outstanding @ shares) + _deviations(self._means @ sentence)
        else:
            near = self._with_neighbours(outstanding) @ shares
        return _nearness(near, own=_nearness(best @ shares))

    @cached_property
    def _means(self) -> Any:
        """The mean of each entry's groups: the entry as a whole."""
        rows = self._rows.astype(numpy.float32)
        return units(numpy.add.reduceat(units(rows), self._starts, axis=0))

    def _cosines(self, words: Any) -> Any:
        """The cosine of every group with every word, in blocks: floats take four times the room."""
        out = numpy.empty((len(self._rows), len(words)), dtype=numpy.float32)
        for start in range(0, len(out), BLOCK_ROWS):
            rows = self._rows[start : start + BLOCK_ROWS].astype(numpy.float32)
            lengths = numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), LENGTH_MIN)
            out[start : start + BLOCK_ROWS] = rows @ words.T / lengths
        return out

    def _with_neighbours(self, best: Any) -> Any:
        out = best.copy()
        ids = numpy.array(self.ids, dtype=numpy.int64)
        for handicap, here, there, lends in lending_pairs(ids, self._short, GROUP_HANDICAPS):
            lent = numpy.where(lends[:, None], best[there] - handicap, -numpy.inf)
            numpy.maximum(out[here], lent, out=out[here])
        return out


def _deviations(values: Any) -> Any:
    """Distance of each value from the mean, in deviations."""
    return (values - values.mean()) / max(float(values.std()), LENGTH_MIN)


def _nearness(values: Any, own: Nearness | None = None) -> Nearness:
    return Nearness(values.tolist(), float(values.mean()), float(values.std()), own)
