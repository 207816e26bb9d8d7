"""Vectors, in addition to the full text: they find messages with the same meaning in other words.

A message is cut into pieces of 1,000 characters, each with a vector. Its nearness to a query is
that of its best piece, or of the message blended with its neighbours if that is nearer (as in
`rank`, only between short messages). The words of a query are weighted by rarity: a name in every
message would swamp the rest. Entries of a memory are standalone: their vectors stay in memory while
the index grows, and only the nearest are ranked. Neighbours: `upkeep` feeds it text,
`vector_arithmetic` computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import log, sqrt
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from refold.display import failure
from refold.errors import RefoldError, Unavailable, install_hint
from refold.search import database, rank
from refold.search.embedders import Embedder, Vector, is_additive, name_of
from refold.search.index import KIND_MASK, POSITION_BITS, POSITION_MASK, Index, Range, carried
from refold.search.rank import inverse_document_frequency
from refold.search.snippets import KINDS
from refold.search.words import Query

if TYPE_CHECKING:
    from refold.search.vector_arithmetic import Loaded, Nearness, Numbers, StandalonePieces

PIECE_CHARS, PIECES_MAX = 1_000, 8
COMMON_SHARE = 0.15
NOISE_MARGIN = 0.7  # deviations above the nearest entry to expect by chance
QUIET_RARITY = 1.5  # the approximate information in a stop word
NEAREST_MAX = 1_000
EMBEDDED_KINDS = ("message", "artifact")
_CODES = ",".join(str(KINDS.index(kind)) for kind in EMBEDDED_KINDS)
_MISSING = f" FROM lanes WHERE embedded < rows AND number & {KIND_MASK} IN ({_CODES})"
_AMONG = "SELECT id, pieces FROM vectors WHERE id IN carray(?) ORDER BY id"
_BETWEEN = "SELECT id, pieces FROM vectors WHERE id BETWEEN ? AND ? ORDER BY id"
# A new `made` invalidates the vectors that other processes hold in memory.
_FORGET = """
DELETE FROM vectors; UPDATE lanes SET embedded = 0; DELETE FROM facts WHERE name = 'dimension';
INSERT OR REPLACE INTO facts VALUES ('made', hex(randomblob(8)))
"""
_MADE = "SELECT name, value FROM facts WHERE name IN ('made', 'embedder', 'dimension')"


class DimensionChanged(Unavailable):
    """The embedder's vectors have a new length; all earlier vectors were removed."""


class CombinedScores(Struct, frozen=True):
    """The combined scores of full text and vectors, and the cosine of each compared entry."""

    scores: dict[int, float]
    cosines: dict[int, float]


def numbers() -> Numbers:
    """The arithmetic of vectors. Raises Unavailable without numpy, which only vectors need."""
    try:
        from refold.search.vector_arithmetic import Numbers
    except ImportError as error:
        needed = "vectors need numpy: install the extra semantic"
        raise Unavailable(needed, hint=install_hint("semantic")) from error
    return Numbers()


class Vectors:
    """The vectors of an index by one embedder, made for `batch` entries at a time. All entries are
    compared up to `compared_max`; beyond that, only the matches of the full text."""

    batch = 200
    compared_max = 50_000

    def __init__(self, index: Index, embedder: Embedder) -> None:
        self.index, self.embedder = index, embedder
        self._cached: tuple[object, Loaded | None] | None = None

    @cached_property
    def _numbers(self) -> Numbers:
        return numbers()

    # --- adding ---

    def missing(self, most: int) -> list[int]:
        """Entries without a vector."""
        ids: list[int] = []
        lanes = self.index.connection.execute(f"SELECT number, embedded, rows{_MISSING}")
        for lane, embedded, rows in lanes:
            first = lane << POSITION_BITS
            last = min(rows, embedded + most - len(ids))
            ids += range(first + embedded, first + last)
            if len(ids) >= most:
                break
        return ids

    def missing_count(self) -> int:
        """The number of entries without a vector."""
        return int(self.index.connection.execute(f"SELECT total(rows - embedded){_MISSING}").get)

    def add(self, ids: Sequence[int], texts: Mapping[int, str]) -> None:
        """Stores the vectors of these entries, which are the next in their lanes; an entry without
        text gets none."""
        rows = self._rows({id: texts[id] for id in ids if texts.get(id, "").strip()})
        connection = self.index.connection
        with database.transaction(connection):
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?,?)", rows)
            self._mark_embedded(ids)

    def _mark_embedded(self, ids: Sequence[int]) -> None:
        lasts = {id >> POSITION_BITS: id for id in ids}
        grown = [((id & POSITION_MASK) + 1, lane) for lane, id in lasts.items()]
        update = "UPDATE lanes SET embedded = ? WHERE number = ?"
        self.index.connection.executemany(update, grown)

    def _rows(self, texts: Mapping[int, str]) -> list[tuple[int, bytes]]:
        """The vectors of these texts in stored form, the pieces of each in one blob."""
        if not texts:
            return []
        pieces = {id: pieces_of(text) for id, text in texts.items()}
        vectors = self._embed([piece for of_one in pieces.values() for piece in of_one])
        self._check_dimension(len(vectors[0]))
        counts = [len(of_one) for of_one in pieces.values()]
        return list(zip(pieces, self._numbers.blobs(vectors, counts)))

    def _embed(self, texts: list[str]) -> Any:
        """The embedder's vectors, not normalized, as rows of a matrix."""
        arithmetic = self._numbers
        with guarded():
            return arithmetic.rows(self.embedder(texts), len(texts))

    def remove(self, ids: Sequence[int]) -> None:
        """Does nothing: the index deletes vectors together with their entries."""

    def adopt_embedder(self) -> str:
        """Removes the vectors of another embedder. Returns a notice if there were any."""
        known, name = self._fact("embedder"), self._embedder_name()
        if known == name:
            return ""
        self._forget()
        self._set_fact("embedder", name)
        return f"vectors of {known} are made again by {name}" if known else ""

    def _embedder_name(self) -> str:
        return name_of(self.embedder)

    def _forget(self) -> None:
        self._cached = None
        self.index.connection.execute(_FORGET)

    def _check_dimension(self, dimension: int) -> None:
        known = self._fact("dimension")
        if not known:
            self._set_fact("dimension", str(dimension))
        elif known != str(dimension):
            self._forget()
            raise DimensionChanged(
                f"the embedder's vectors have {dimension} numbers now, not {known}",
                hint="they are made again",
            )

    @property
    def _dimension(self) -> int:
        """The length of the stored vectors; 0 if there are none."""
        return int(self._fact("dimension") or 0)

    def _fact(self, name: str) -> str:
        value = self.index.connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).get
        return str(value or "")

    def _set_fact(self, name: str, value: str) -> None:
        self.index.connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # --- comparing ---

    def means(self, ids: Sequence[int]) -> dict[int, Vector]:
        """The mean vector, of length one, of each of these entries that has vectors."""
        dimension = self._dimension
        rows = self.index.rows(_AMONG, (carried(ids),)) if dimension else []
        return {id: self._mean(blob, dimension) for id, blob in rows}

    def _mean(self, blob: bytes, dimension: int) -> Vector:
        return self._numbers.mean(blob, dimension)

    def compared(
        self,
        query: Query,
        found: Sequence[rank.Matches],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
        *,
        least: float | None = None,
    ) -> CombinedScores:
        """Combines the scores of the full text with nearness, each in deviations. An entry without
        any word of the query needs at least the cosine `least`, unless that is None."""
        total, _ = self.index.size(ranges)
        loaded = self._load(ranges, total, scored)
        near = self._nearness(loaded, query, found, total) if loaded is not None else None
        if loaded is None or near is None:
            return CombinedScores(dict(scored), {})
        own = near.own or near
        if least is None:
            least = least_near(self.embedder, len(own.values), own.mean, own.deviation)
        weight = self._weight(loaded) / (near.deviation or 1.0)
        leanings = self._leanings(query, ranges, loaded.ids)
        rows = (
            (id, cosine, weight * (value - near.mean) + leanings.get(id, 0.0))
            for id, value, cosine in zip(loaded.ids, near.values, own.values)
        )
        return fused(scored, total, rows, least)

    def _nearness(
        self, loaded: Loaded, query: Query, found: Sequence[rank.Matches], total: int
    ) -> Nearness | None:
        """Nearness of each entry to the query; None if the query has no vector."""
        vector = self._query_vector(query, found, total)
        return None if vector is None else loaded.nearness(vector)

    def _weight(self, loaded: Loaded) -> float:
        """The weight of nearness relative to the full text."""
        return rank.VECTOR_WEIGHT

    def _leanings(
        self, query: Query, ranges: Sequence[Range], ids: Sequence[int]
    ) -> Mapping[int, float]:
        """Corrections to the nearness of entries."""
        return {}

    def _query_vector(
        self, query: Query, found: Sequence[rank.Matches], total: int
    ) -> Vector | None:
        """The vector of the query, of length one; None if there is none."""
        entries = entries_by_word(query, found)
        if is_additive(self.embedder):
            weights = {
                word: inverse_document_frequency(count, total) for word, count in entries.items()
            }
            weights.update(dict.fromkeys(query.quiet, QUIET_RARITY))
        else:
            rare = [word for word, count in entries.items() if count <= COMMON_SHARE * total]
            weights = {" ".join(rare) or query.text: 1.0}
        if not weights:
            return None
        rows = self._embed(list(weights))
        vector: Vector | None = self._numbers.unit_sum(rows, list(weights.values()))
        if vector is not None:
            self._check_dimension(len(vector))
        return vector

    def _load(
        self, ranges: Sequence[Range], total: int, scored: Mapping[int, float]
    ) -> Loaded | None:
        """The vectors to compare with: all in these ranges, or only the matches of the full text;
        None if there are none."""
        if total > self.compared_max:
            ids = rank.around(set(scored), 2)
            return self._loaded(self.index.rows(_AMONG, (carried(ids),)))
        embedded = self.index.connection.execute("SELECT sum(embedded) FROM lanes").get
        key = (tuple(ranges), embedded)
        if self._cached is None or self._cached[0] != key:
            rows: list[tuple[int, bytes]] = []
            for span in ranges:
                rows += self.index.rows(_BETWEEN, span)
            self._cached = key, self._loaded(sorted(rows))
        return self._cached[1]

    def _loaded(self, rows: list[tuple[int, bytes]]) -> Loaded | None:
        dimension = self._dimension
        if not rows or not dimension:
            return None
        ids = [id for id, _ in rows]
        sizes = self.index.sizes(ids)
        message = KINDS.index("message")
        are_short_messages = [
            id >> POSITION_BITS & KIND_MASK == message
            and sizes.get(id, rank.SHORT_WORDS + 1) <= rank.SHORT_WORDS
            for id in ids
        ]
        return self._arranged(ids, [blob for _, blob in rows], dimension, are_short_messages)

    def _arranged(
        self, ids: list[int], blobs: list[bytes], dimension: int, short: list[bool]
    ) -> Loaded:
        return self._numbers.pieces(ids, blobs, dimension, short)


class StandaloneVectors(Vectors):
    """The vectors of an index with standalone entries."""

    compared_max = 200_000

    def __init__(self, index: Index, embedder: Embedder) -> None:
        super().__init__(index, embedder)
        # The vectors of each range, and the facts of the index that they depend on.
        self._kept: dict[Range, tuple[object, StandalonePieces]] = {}

    def compared(
        self,
        query: Query,
        found: Sequence[rank.Matches],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
        *,
        least: float | None = None,
    ) -> CombinedScores:
        total, _ = self.index.size(ranges)
        vector = self._query_vector(query, found, total)
        if vector is None:
            return CombinedScores(dict(scored), {})
        near = self._pieces(ranges[0], total, scored).nearest(vector, scored, NEAREST_MAX)
        if near is None:
            return CombinedScores(dict(scored), {})
        if least is None:
            least = least_near(self.embedder, total, near.mean, near.deviation)
        weight = rank.STANDALONE_WEIGHT / (near.deviation or 1.0)
        rows = ((id, cosine, weight * (cosine - near.mean)) for id, cosine in near.cosines.items())
        return fused(scored, total, rows, least)

    def _pieces(self, span: Range, total: int, scored: Mapping[int, float]) -> StandalonePieces:
        """All vectors of a range, or only the matches of the full text if there are too many."""
        if total > self.compared_max:
            self._kept.pop(span, None)
            matches = self._numbers.standalone_pieces(self._dimension)
            matches.add(self.index.rows(_AMONG, (carried(scored),)))
            return matches
        made = dict(self.index.rows(_MADE))
        known, pieces = self._kept.get(span, (None, None))
        if pieces is None or known != made:
            pieces = self._numbers.standalone_pieces(self._dimension)
            self._kept[span] = made, pieces
        first, last = span
        pieces.add(self.index.rows(_BETWEEN, (max(first, pieces.last_id + 1), last)))
        return pieces

    def _forget(self) -> None:
        super()._forget()
        self._kept.clear()


@contextmanager
def guarded() -> Iterator[None]:
    """Turns any failure of an embedder, which is the caller's code, into Unavailable."""
    try:
        yield
    except RefoldError:
        raise
    except Exception as error:
        raise Unavailable(f"the embedder failed: {failure(error)}") from error


def entries_by_word(query: Query, found: Sequence[rank.Matches]) -> dict[str, int]:
    """The number of entries in which each single word of the query occurs."""
    pairs = zip(query.terms, found)
    return {term.text: matches.entries for term, matches in pairs if " " not in term.text}


def fused(
    scored: Mapping[int, float], total: int, rows: Iterable[tuple[int, float, float]], least: float
) -> CombinedScores:
    """The scores of the full text, in deviations, plus nearness. `rows` have an id, its cosine, and
    its worth. An entry without any word of the query needs the cosine `least`, because even
    nonsense has a nearest entry."""
    mean, deviation = rank.spread(scored, max(total, len(scored)))
    out = {id: (score - mean) / deviation for id, score in scored.items()}
    without_words = -mean / deviation
    cosines: dict[int, float] = {}
    for id, cosine, worth in rows:
        if id in out or cosine >= least:
            cosines[id] = cosine
            out[id] = out.get(id, without_words) + worth
    return CombinedScores(out, cosines)


def least_near(embedder: Embedder, count: int, mean: float, deviation: float) -> float:
    """The least cosine of an entry without any word of the query. The nearest of n unrelated
    entries is about √(2 ln n) deviations above their mean; with the margin, 19 of 20 nonsense
    queries find nothing, measured in talks of 30 to 3,000 messages. An embedder with its own
    threshold finds more at the same error rate."""
    threshold = getattr(embedder, "threshold", None)
    if threshold is not None:
        return float(threshold)
    return mean + (sqrt(2 * log(count)) + NOISE_MARGIN) * deviation


def pieces_of(text: str) -> list[str]:
    """The pieces of the text that have vectors of their own."""
    end = min(len(text), PIECE_CHARS * PIECES_MAX)
    return [text[at : at + PIECE_CHARS] for at in range(0, end, PIECE_CHARS)]
