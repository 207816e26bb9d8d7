"""Vectors of entries that have nothing to do with their neighbours: those of a memory.

They are compared all at once, and kept in memory while the index grows: only new rows are read.
What is near is looked at closely for the nearest alone, so the price hardly grows with what is far.
Neighbours: `vectors` keeps the rows and puts words and nearness together, `numbers` does the
arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from refold.search import rank
from refold.search.embedders import Embedder
from refold.search.index import Index, Range, carried
from refold.search.numbers import Apart
from refold.search.vectors import Compared, Vectors, fused, least_near
from refold.search.words import Query

NEAREST_MAX = 1_000
_MADE = "SELECT name, value FROM facts WHERE name IN ('made', 'embedder', 'dimension')"
_AMONG = "SELECT id, pieces FROM vectors WHERE id IN carray(?) ORDER BY id"
_AFTER = "SELECT id, pieces FROM vectors WHERE id > ? AND id <= ? ORDER BY id"


class _Kept(Struct):
    """The vectors of a range, and by which facts of the index they are still valid."""

    made: object
    rows: Apart


class ApartVectors(Vectors):
    """The vectors of an index whose entries are apart."""

    def __init__(self, index: Index, embedder: Embedder) -> None:
        super().__init__(index, embedder)
        self.whole_max = self._numbers.apart_max
        self._kept: dict[Range, _Kept] = {}

    def compared(
        self,
        query: Query,
        found: Sequence[rank.Matches],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
        *,
        least: float | None = None,
    ) -> Compared:
        total, _ = self.index.size(ranges)
        asked = self._query_vector(query, found, total)
        if asked is None:
            return Compared(dict(scored), {})
        self._check_dimension(len(asked))
        near = self._rows_of(ranges[0], total, scored).nearest(asked, scored, NEAREST_MAX)
        if near is None:
            return Compared(dict(scored), {})
        if least is None:
            least = least_near(self.embedder, total, near.mean, near.deviation)
        weight = rank.APART_WEIGHT / (near.deviation or 1.0)
        rows = ((id, cosine, weight * (cosine - near.mean)) for id, cosine in near.cosines.items())
        return fused(scored, total, rows, least)

    def _rows_of(self, span: Range, total: int, scored: Mapping[int, float]) -> Apart:
        """All vectors of a range, or those of what the full text found where there are too
        many."""
        if total > self.whole_max:
            self._kept.pop(span, None)
            some = self._empty()
            _add(some, self.index.rows(_AMONG, (carried(scored),)))
            return some
        made = dict(self.index.rows(_MADE))
        kept = self._kept.get(span)
        if kept is None or kept.made != made:
            kept = self._kept[span] = _Kept(made, self._empty())
        first, last = span
        _add(kept.rows, self.index.rows(_AFTER, (max(first - 1, kept.rows.last), last)))
        return kept.rows

    def _empty(self) -> Apart:
        return self._numbers.apart(int(self._fact("dimension") or 0))

    def _forget(self) -> None:
        super()._forget()
        self._kept.clear()


def _add(rows: Apart, found: Sequence[tuple[int, bytes]]) -> None:
    rows.add([id for id, _ in found], [blob for _, blob in found])
