"""The vectors of an index, kept up to date by an embedder that may fail.

An embedder is the caller's code, or a server elsewhere. When it fails, that is reported, the answer
is by full text alone, and it is not asked again for a while. Neighbours: `vectors` keeps and
compares them, `sources` reads the texts, `searcher` asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from refold.errors import Denied, Invalid, Unavailable, sentence
from refold.search import database, sources
from refold.search.apart_vectors import ApartVectors
from refold.search.embedders import Embedder
from refold.search.index import Index, Range
from refold.search.numbers import Vector
from refold.search.rank import Matches
from refold.search.transformer import Transformer
from refold.search.upkeep import Progress, Tell
from refold.search.vectors import Compared, DimensionChanged, Vectors
from refold.search.words import Query
from refold.stores.protocol import Store

SEARCH_VECTORS, SEARCH_VECTORS_S = 10_000, 10.0
INDEX_VECTORS = 200
EMBEDDER_PAUSE_S = 60.0
_LEFT = "{:,} entries have no vectors yet: search again, or run {}"
MakeVectors = Callable[[Index, Embedder], Vectors]
FAILURES = (Unavailable, Invalid, Denied)


class VectorUpkeep:
    """The vectors of one store's index by one embedder; none at all without an embedder.
    `tell(name, reason)` is called with what a user should know."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        tell: Tell,
        kind: MakeVectors | None = None,
    ) -> None:
        self._store, self._embedder, self._tell = store, embedder, tell
        self._kind = kind or _vectors
        self._vectors: Vectors | None = None
        self._failed_s = -EMBEDDER_PAUSE_S

    def fused(
        self,
        index: Index,
        query: Query,
        found: Sequence[Matches],
        scored: dict[int, float],
        ranges: Sequence[Range],
    ) -> Mapping[int, float]:
        """The scores, with the nearness of vectors in them where there are vectors."""
        return self.compared(index, query, found, scored, ranges).scores or scored

    def compared(
        self,
        index: Index,
        query: Query,
        found: Sequence[Matches],
        scored: dict[int, float],
        ranges: Sequence[Range],
        least: float | None = None,
    ) -> Compared:
        """The same, with the cosines."""
        if not self.is_ready():
            return Compared(scored, {})
        try:
            with database.translated(index.path):
                vectors = self._caught_up(index, SEARCH_VECTORS)
                left = vectors.missing_count() if index.is_writable else 0
                if left:
                    self._tell("index-behind", _LEFT.format(left, index.remedy))
                try:
                    return vectors.compared(query, found, scored, ranges, least=least)
                except DimensionChanged as error:
                    self._tell("embedder-changed", sentence(error))
                    vectors = self._caught_up(index, SEARCH_VECTORS)
                    return vectors.compared(query, found, scored, ranges, least=least)
        except FAILURES as error:
            self.pause(error)
            return Compared(scored, {})

    def wholes(self, index: Index, ids: Sequence[int]) -> dict[int, Vector]:
        """One vector for each of these entries that has one."""
        if not self.is_ready():
            return {}
        with database.translated(index.path):
            return self._vectors_of(index).wholes(ids)

    def complete(self, index: Index, progress: Progress, done: int) -> None:
        """Makes all vectors that are missing. Progress counts on from the events that are done."""
        left = None
        while self.is_ready():
            try:
                with database.translated(index.path):
                    missing = self._caught_up(index, INDEX_VECTORS).missing_count()
            except FAILURES as error:
                self.pause(error)
                return
            if not missing or missing == left:
                return
            left = missing
            progress(done, done + left)

    def remove(self, index: Index, ids: Sequence[int]) -> None:
        """Removes the vectors of entries that are kept elsewhere; those of the index go with
        their rows."""
        if ids and self._embedder is not None:
            self._vectors_of(index).remove(ids)

    def is_ready(self) -> bool:
        """Whether there is an embedder, and it has not failed just now."""
        if self._embedder is None:
            return False
        return time.monotonic() - self._failed_s >= EMBEDDER_PAUSE_S

    def pause(self, error: Exception) -> None:
        """Leaves the embedder alone for a while, and tells why."""
        self._failed_s = time.monotonic()
        self._tell("embedder-failed", f"{sentence(error)}; this answer is by full text alone")

    def _caught_up(self, index: Index, budget: int) -> Vectors:
        """The vectors, up to date except for what exceeds the budget or takes too long."""
        vectors = self._vectors_of(index)
        try:
            return self._added(vectors, index, budget)
        except DimensionChanged as error:
            self._tell("embedder-changed", sentence(error))
            return self._added(vectors, index, budget)

    def _added(self, vectors: Vectors, index: Index, budget: int) -> Vectors:
        end_s = time.monotonic() + SEARCH_VECTORS_S
        while budget > 0 and index.is_writable and time.monotonic() < end_s:
            ids = vectors.missing(min(vectors.batch, budget))
            if not ids:
                break
            vectors.add(ids, sources.texts_of(self._store, index.entries(ids)))
            budget -= len(ids)
        return vectors

    def _vectors_of(self, index: Index) -> Vectors:
        """The vectors of this index. Those of another embedder are removed first, which is
        reported."""
        if self._vectors is not None and self._vectors.index is index:
            return self._vectors
        assert self._embedder is not None
        self._vectors = self._kind(index, self._embedder)
        notice = self._vectors.adopt_embedder() if index.is_writable else ""
        if notice:
            self._tell("embedder-changed", notice)
        return self._vectors


def _vectors(index: Index, embedder: Embedder) -> Vectors:
    if not isinstance(embedder, Transformer):
        return ApartVectors(index, embedder) if index.apart else Vectors(index, embedder)
    embedder.check()
    from refold.search.group_vectors import GroupVectors

    return GroupVectors(index, embedder)
