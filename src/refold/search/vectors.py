"""Vectors beside the full text: what was said in other words.

A message is cut into pieces of 1,000 characters; each has a vector of length one, kept in half
precision. How near a message is to a query is the best of its pieces and of itself among its
neighbours (as in `rank`, only between short messages). The words of the query weigh by how rare
they are: a name that every message carries would swamp the rest. Only here is numpy imported, and
only when there is an embedder. Neighbours: `vector_upkeep` brings the texts, `embedders` says what
an embedder is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any

from msgspec import Struct

from refold.errors import Invalid, RefoldError, Unavailable
from refold.search import database, rank
from refold.search.bm25 import rarity
from refold.search.embedders import Embedder, is_additive, name_of
from refold.search.hits import KINDS
from refold.search.index import KIND_MASK, POSITION_BITS, POSITION_MASK, Index, Range, carried
from refold.search.words import Query

PIECE_CHARS, PIECES_MAX = 1_000, 8
# Up to so many entries are all compared; of more, only those that the full text found.
WHOLE_MAX = 50_000
COMMON_SHARE = 0.15
NOISE_MARGIN = 0.7  # deviations above what the nearest of so many reaches by chance
QUIET_RARITY = 1.5  # what a stop word says of a message, about
EMBEDDED_KINDS = ("message", "artifact")
_CODES = ",".join(str(KINDS.index(kind)) for kind in EMBEDDED_KINDS)
_MISSING = f" FROM lanes WHERE embedded < rows AND number & {KIND_MASK} IN ({_CODES})"
_AMONG = "SELECT id, pieces FROM vectors WHERE id IN carray(?) ORDER BY id"
_BETWEEN = "SELECT id, pieces FROM vectors WHERE id BETWEEN ? AND ? ORDER BY id"
_FORGET = """
DELETE FROM vectors; UPDATE lanes SET embedded = 0; DELETE FROM facts WHERE name = 'dimension'
"""


class Loaded(Struct, frozen=True):
    """The vectors of some entries: all pieces, where each entry's begin, and every entry among
    its neighbours."""

    ids: Any
    pieces: Any
    starts: Any
    contexts: Any

    def nearness(self, asked: Any) -> Any:
        """The cosine of each entry with a vector: the best of its pieces and its context."""
        import numpy

        best = numpy.maximum.reduceat(self.pieces @ asked, self.starts)
        return numpy.maximum(best, self.contexts @ asked)


class Vectors:
    """The vectors of an index by one embedder."""

    def __init__(self, index: Index, embedder: Embedder) -> None:
        self.index, self.embedder = index, embedder
        self._cached: tuple[Any, Loaded] | None = None

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
        vectors = _units(self._embed([piece for of_one in pieces.values() for piece in of_one]))
        self._check_dimension(vectors.shape[1])
        rows = []
        at = 0
        for id, of_one in pieces.items():
            end = at + len(of_one)
            rows.append((id, vectors[at:end].astype("<f2").tobytes()))
            at = end
        return rows

    def _embed(self, texts: list[str]) -> Any:
        """Vectors as they come; Unavailable if the embedder, the caller's code, gives none."""
        import numpy

        try:
            vectors = numpy.asarray(self.embedder(texts), dtype=numpy.float32)
        except RefoldError:
            raise
        except Exception as error:
            raise Unavailable(f"the embedder failed: {type(error).__name__}: {error}") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not numpy.isfinite(vectors).all():
            raise Invalid(
                f"the embedder gave {vectors.shape} for {len(texts)} texts",
                hint="one finite vector for each text",
            )
        return vectors

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
            raise Unavailable(
                f"the embedder gave vectors of {dimension} numbers, before of {known}",
                hint="they are made again",
            )

    def _fact(self, name: str) -> str:
        value = self.index.connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).get
        return str(value or "")

    def _set_fact(self, name: str, value: str) -> None:
        self.index.connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # --- finding ---

    def fused(
        self,
        query: Query,
        found: Sequence[rank.Matches],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
    ) -> dict[int, float]:
        """The scores of the full text and the nearness of vectors, put together by how far each
        stands out."""
        total, _ = self.index.size(ranges)
        loaded = self._load(ranges, total, scored)
        asked = self._query_vector(query, found, total)
        if asked is None or not len(loaded.ids):
            return dict(scored)
        self._check_dimension(asked.shape[0])
        near = loaded.nearness(asked)
        mean, deviation = rank.spread(scored, max(total, len(scored)))
        standardized = {id: (score - mean) / deviation for id, score in scored.items()}
        # What has none of the words must be near on its own: something is always nearest, also to
        # nonsense.
        close = near >= least_near(near, self.embedder)
        worth = rank.VECTOR_WEIGHT * (near - near.mean()) / (near.std() or 1.0)
        _add_nearness(standardized, loaded.ids, worth, close, without_words=-mean / deviation)
        return standardized

    def _query_vector(self, query: Query, found: Sequence[rank.Matches], total: int) -> Any:
        """The vector of the query, of length one; None if it has none."""
        entries = _entries_by_word(query, found)
        if is_additive(self.embedder):
            weights = {word: rarity(count, total) for word, count in entries.items()}
            weights.update(dict.fromkeys(query.quiet, QUIET_RARITY))
            return _unit(self._weighted_sum(weights))
        rare = [word for word, count in entries.items() if count <= COMMON_SHARE * total]
        return _unit(self._embed([" ".join(rare) or query.text])[0])

    def _weighted_sum(self, weights: Mapping[str, float]) -> Any:
        vectors = self._embed(list(weights)) if weights else []
        return sum(weight * vector for weight, vector in zip(weights.values(), vectors))

    def _load(self, ranges: Sequence[Range], total: int, scored: Mapping[int, float]) -> Loaded:
        """The vectors to compare with: all in these ranges, or those of what the full text
        found."""
        execute = self.index.connection.execute
        if total > WHOLE_MAX:
            ids = rank.around(set(scored), 2)
            return self._arranged(execute(_AMONG, (carried(ids),)).fetchall())
        key = (tuple(ranges), execute("SELECT sum(embedded) FROM lanes").get)
        if self._cached is None or self._cached[0] != key:
            rows: list[Any] = []
            for span in ranges:
                rows += execute(_BETWEEN, span).fetchall()
            self._cached = key, self._arranged(sorted(rows))
        return self._cached[1]

    def _arranged(self, rows: list[Any]) -> Loaded:
        import numpy

        ids = numpy.array([id for id, _ in rows], dtype=numpy.int64)
        dimension = int(self._fact("dimension") or 0)
        if not rows or not dimension:
            return Loaded(ids[:0], None, None, None)
        pieces, starts = _unpacked([blob for _, blob in rows], dimension)
        return Loaded(ids, pieces, starts, self._contexts(ids, pieces[starts]))

    def _contexts(self, ids: Any, firsts: Any) -> Any:
        """Every short entry with a share of its short neighbours, of length one."""
        short = self._are_short_messages(ids)
        out = firsts.copy()
        for step, share in rank.NEIGHBOURS:
            here, there = slice(None, -step), slice(step, None)
            if step < 0:
                here, there = slice(-step, None), slice(None, step)
            beside = short[here] & short[there] & (ids[there] - ids[here] == step)
            out[here] += share * beside[:, None] * firsts[there]
        return _units(out)

    def _are_short_messages(self, ids: Any) -> Any:
        import numpy

        sizes = self.index.sizes(ids.tolist())
        words = numpy.array([sizes.get(id, rank.SHORT_WORDS + 1) for id in ids.tolist()])
        kinds = ids >> POSITION_BITS & KIND_MASK
        return (words <= rank.SHORT_WORDS) & (kinds == KINDS.index("message"))


def _entries_by_word(query: Query, found: Sequence[rank.Matches]) -> dict[str, int]:
    """In how many entries each single word of the query occurs."""
    pairs = zip(query.terms, found)
    return {term.text: one.entries for term, one in pairs if " " not in term.text}


def _add_nearness(
    scores: dict[int, float], ids: Any, worth: Any, close: Any, *, without_words: float
) -> None:
    """Adds what its nearness is worth to each score, and the entries that are close but have none
    of the words."""
    for id, value, is_close in zip(ids.tolist(), worth.tolist(), close.tolist()):
        if id in scores or is_close:
            scores[id] = scores.get(id, without_words) + value


def least_near(near: Any, embedder: Embedder) -> float:
    """How near something must be that has none of the words. The nearest of n that mean nothing
    stands about √(2 ln n) deviations above their mean; with the margin, 19 of 20 queries of
    nonsense find nothing, measured in talks of 30 to 3,000 messages. An embedder that knows its
    least cosine finds more at the same price."""
    known = getattr(embedder, "threshold", None)
    if known is not None:
        return float(known)
    deviations = sqrt(2 * log(len(near))) + NOISE_MARGIN
    return float(near.mean() + deviations * near.std())


def _unpacked(blobs: list[bytes], dimension: int) -> tuple[Any, Any]:
    """All vectors in one array, and where those of each blob begin."""
    import numpy

    flat = numpy.frombuffer(b"".join(blobs), dtype="<f2")
    counts = numpy.array([len(blob) // (2 * dimension) for blob in blobs])
    starts = numpy.concatenate([[0], numpy.cumsum(counts)[:-1]])
    return flat.reshape(-1, dimension).astype(numpy.float32), starts


def pieces_of(text: str) -> list[str]:
    """What of a text gets vectors of its own."""
    end = min(len(text), PIECE_CHARS * PIECES_MAX)
    return [text[at : at + PIECE_CHARS] for at in range(0, end, PIECE_CHARS)]


def _units(vectors: Any) -> Any:
    """The vectors, each of length one."""
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / numpy.maximum(lengths, 1e-9)


def _unit(vector: Any) -> Any:
    import numpy

    length = float(numpy.linalg.norm(vector))
    return vector / length if length else None
