"""Vectors beside the full text: what was said in other words.

A message is cut into pieces of 1,000 characters; each has a vector of length one, kept in half
precision. How near a message is to a query is the best of its pieces and of itself among its
neighbours (as in `rank`, only between short messages). The words of the query weigh by how rare
they are: a name that every message carries would swamp the rest. Neighbours: `vector_upkeep` brings
the texts, `embedders` says what an embedder is, `numbers` does the arithmetic.

Vectors of entries that have nothing to do with their neighbours: those of a memory.

They are compared all at once, and kept in memory while the index grows: only new rows are read.
What is near is looked at closely for the nearest alone, so the price hardly grows with what is far.
Neighbours: `vectors` keeps the rows and puts words and nearness together, `numbers` does the
arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import log, sqrt

from msgspec import Struct

from refold.display import failure
from refold.errors import RefoldError, Unavailable
from refold.search import database, rank
from refold.search.embedders import Embedder, is_additive, name_of
from refold.search.index import KIND_MASK, POSITION_BITS, POSITION_MASK, Index, Range, carried
from refold.search.numbers import EMPTY, Apart, Loaded, Nearness, Rows, Vector, numbers
from refold.search.rank import inverse_document_frequency
from refold.search.snippets import KINDS
from refold.search.words import Query

PIECE_CHARS, PIECES_MAX = 1_000, 8
COMMON_SHARE = 0.15
NOISE_MARGIN = 0.7  # deviations above what the nearest of so many reaches by chance
QUIET_RARITY = 1.5  # what a stop word says of a message, about
EMBEDDED_KINDS = ("message", "artifact")
_CODES = ",".join(str(KINDS.index(kind)) for kind in EMBEDDED_KINDS)
_MISSING = f" FROM lanes WHERE embedded < rows AND number & {KIND_MASK} IN ({_CODES})"
_AMONG = "SELECT id, pieces FROM vectors WHERE id IN carray(?) ORDER BY id"
_BETWEEN = "SELECT id, pieces FROM vectors WHERE id BETWEEN ? AND ? ORDER BY id"
# Whoever holds vectors in memory sees by `made` that there are others now.
_FORGET = """
DELETE FROM vectors; UPDATE lanes SET embedded = 0; DELETE FROM facts WHERE name = 'dimension';
INSERT OR REPLACE INTO facts VALUES ('made', hex(randomblob(8)))
"""


class DimensionChanged(Unavailable):
    """The embedder gives vectors of another size than before; those that there were are gone."""


class Compared(Struct, frozen=True):
    """The scores of full text and vectors together, and the cosine of each that was compared."""

    scores: dict[int, float]
    cosines: dict[int, float]


class Vectors:
    """The vectors of an index by one embedder, made for `batch` entries at a time."""

    batch = 200

    def __init__(self, index: Index, embedder: Embedder) -> None:
        self.index, self.embedder = index, embedder
        self._numbers = numbers()
        self.whole_max = self._numbers.whole_max
        self._cached: tuple[object, Loaded] | None = None

    # --- adding ---

    def missing(self, most: int) -> list[int]:
        """Entries that have no vector yet."""
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
        """How many entries have no vector yet."""
        return int(self.index.connection.execute(f"SELECT total(rows - embedded){_MISSING}").get)

    def add(self, ids: Sequence[int], texts: Mapping[int, str]) -> None:
        """Stores the vectors of these entries, which are the next of their lanes; one without a
        text has none."""
        rows = self._rows({id: texts[id] for id in ids if texts.get(id, "").strip()})
        lasts = {id >> POSITION_BITS: id for id in ids}
        grown = [((id & POSITION_MASK) + 1, lane) for lane, id in lasts.items()]
        connection = self.index.connection
        with database.transaction(connection):
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?,?)", rows)
            connection.executemany("UPDATE lanes SET embedded = ? WHERE number = ?", grown)

    def _rows(self, texts: Mapping[int, str]) -> list[tuple[int, bytes]]:
        """The vectors of these texts as they are stored, the pieces of each one after another."""
        if not texts:
            return []
        pieces = {id: pieces_of(text) for id, text in texts.items()}
        vectors = self._embed([piece for of_one in pieces.values() for piece in of_one])
        self._check_dimension(len(vectors[0]))
        counts = [len(of_one) for of_one in pieces.values()]
        return list(zip(pieces, self._numbers.blobs(vectors, counts)))

    def _embed(self, texts: list[str]) -> Rows:
        """Vectors as they come."""
        with asking():
            return self._numbers.rows(self.embedder(texts), len(texts))

    def remove(self, ids: Sequence[int]) -> None:
        """Nothing to do: the rows of these entries go with them."""

    def adopt_embedder(self) -> str:
        """Removes the vectors of another embedder. Gives a notice if there were any."""
        known, name = self._fact("embedder"), name_of(self.embedder)
        if known == name:
            return ""
        self._forget()
        self._set_fact("embedder", name)
        return f"vectors of {known} are made again by {name}" if known else ""

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
                f"the embedder gave vectors of {dimension} numbers, before of {known}",
                hint="they are made again",
            )

    def _fact(self, name: str) -> str:
        value = self.index.connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).get
        return str(value or "")

    def _set_fact(self, name: str, value: str) -> None:
        self.index.connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # --- finding ---

    def wholes(self, ids: Sequence[int]) -> dict[int, Vector]:
        """What each of these entries says as a whole: one vector of length one, if it has any."""
        dimension = int(self._fact("dimension") or 0)
        rows = self.index.rows(_AMONG, (carried(ids),)) if dimension else []
        return {id: self._whole(blob, dimension) for id, blob in rows}

    def _whole(self, blob: bytes, dimension: int) -> Vector:
        return self._numbers.whole(blob, dimension)

    def compared(
        self,
        query: Query,
        found: Sequence[rank.Matches],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
        *,
        least: float | None = None,
    ) -> Compared:
        """The scores of the full text and the nearness of vectors, put together by how far each
        stands out. What has none of the words must have the cosine `least`, if that is given."""
        total, _ = self.index.size(ranges)
        loaded = self._load(ranges, total, scored)
        near = self._nearness(loaded, query, found, total) if len(loaded.ids) else None
        if near is None:
            return Compared(dict(scored), {})
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
        """How near each entry is to the query; None if the query has no vector."""
        asked = self._query_vector(query, found, total)
        if asked is None:
            return None
        self._check_dimension(len(asked))
        return loaded.nearness(asked)

    def _weight(self, loaded: Loaded) -> float:
        """How much nearness counts against the full text."""
        return rank.VECTOR_WEIGHT

    def _leanings(
        self, query: Query, ranges: Sequence[Range], ids: Sequence[int]
    ) -> Mapping[int, float]:
        """By how much entries count more or less than their nearness says."""
        return {}

    def _query_vector(
        self, query: Query, found: Sequence[rank.Matches], total: int
    ) -> Vector | None:
        """The vector of the query, of length one; None if it has none."""
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
        return self._numbers.unit_sum(self._embed(list(weights)), list(weights.values()))

    def _load(self, ranges: Sequence[Range], total: int, scored: Mapping[int, float]) -> Loaded:
        """The vectors to compare with: all in these ranges, or those of what the full text
        found."""
        execute = self.index.connection.execute
        if total > self.whole_max:
            ids = rank.around(set(scored), 2)
            return self._arranged(self.index.rows(_AMONG, (carried(ids),)))
        key = (tuple(ranges), execute("SELECT sum(embedded) FROM lanes").get)
        if self._cached is None or self._cached[0] != key:
            rows: list[tuple[int, bytes]] = []
            for span in ranges:
                rows += self.index.rows(_BETWEEN, span)
            self._cached = key, self._arranged(sorted(rows))
        return self._cached[1]

    def _arranged(self, rows: list[tuple[int, bytes]]) -> Loaded:
        ids = [id for id, _ in rows]
        dimension = int(self._fact("dimension") or 0)
        if not rows or not dimension:
            return EMPTY
        blobs = [blob for _, blob in rows]
        return self._numbers.loaded(ids, blobs, dimension, self._are_short_messages(ids))

    def _are_short_messages(self, ids: list[int]) -> list[bool]:
        sizes = self.index.sizes(ids)
        message = KINDS.index("message")
        return [
            id >> POSITION_BITS & KIND_MASK == message
            and sizes.get(id, rank.SHORT_WORDS + 1) <= rank.SHORT_WORDS
            for id in ids
        ]


@contextmanager
def asking() -> Iterator[None]:
    """Unavailable if an embedder, which is the caller's code, fails in here."""
    try:
        yield
    except RefoldError:
        raise
    except Exception as error:
        raise Unavailable(f"the embedder failed: {failure(error)}") from error


def entries_by_word(query: Query, found: Sequence[rank.Matches]) -> dict[str, int]:
    """In how many entries each single word of the query occurs."""
    pairs = zip(query.terms, found)
    return {term.text: one.entries for term, one in pairs if " " not in term.text}


def fused(
    scored: Mapping[int, float],
    total: int,
    rows: Iterable[tuple[int, float, float]],
    least: float,
) -> Compared:
    """The scores of the full text, as deviations, with what nearness adds to them: `rows` have an
    id, its cosine, and what that is worth. What has none of the words must be near on its own:
    something is always nearest, also to nonsense."""
    mean, deviation = rank.spread(scored, max(total, len(scored)))
    out = {id: (score - mean) / deviation for id, score in scored.items()}
    without_words = -mean / deviation
    cosines: dict[int, float] = {}
    for id, cosine, worth in rows:
        if id in out or cosine >= least:
            cosines[id] = cosine
            out[id] = out.get(id, without_words) + worth
    return Compared(out, cosines)


def least_near(embedder: Embedder, count: int, mean: float, deviation: float) -> float:
    """How near something must be that has none of the words. The nearest of n that mean nothing
    stands about √(2 ln n) deviations above their mean; with the margin, 19 of 20 queries of
    nonsense find nothing, measured in talks of 30 to 3,000 messages. An embedder that knows its
    least cosine finds more at the same price."""
    known = getattr(embedder, "threshold", None)
    if known is not None:
        return float(known)
    return mean + (sqrt(2 * log(count)) + NOISE_MARGIN) * deviation


def pieces_of(text: str) -> list[str]:
    """What of a text gets vectors of its own."""
    end = min(len(text), PIECE_CHARS * PIECES_MAX)
    return [text[at : at + PIECE_CHARS] for at in range(0, end, PIECE_CHARS)]


NEAREST_MAX = 1_000
_MADE = "SELECT name, value FROM facts WHERE name IN ('made', 'embedder', 'dimension')"
_APART_VECTORS_AMONG = "SELECT id, pieces FROM vectors WHERE id IN carray(?) ORDER BY id"
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
            _add(some, self.index.rows(_APART_VECTORS_AMONG, (carried(scored),)))
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
