"""Vectors beside the full text: what was said in other words.

A message is cut into pieces of 1,000 characters; each has a vector of length one, kept in half
precision. How near a message is to a query is the best of its pieces and of itself among its
neighbours (as in `rank`, only between short messages). The words of the query weigh by how rare
they are: a name that every message carries would swamp the rest. Only here is numpy imported, and
only when there is an embedder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any

from msgspec import Struct

from refold.errors import Invalid, RefoldError, Unavailable
from refold.search import database, rank
from refold.search.embedders import Embedder, name_of
from refold.search.hits import KINDS
from refold.search.index import KIND_BITS, POSITION_BITS, Index, Range, carried
from refold.search.words import Query

PIECE_CHARS, PIECES_MAX = 1_000, 8
WHOLE_MAX = (
    50_000  # entries that are compared one and all; of more, only those that the full text found
)
COMMON_SHARE = 0.15
NOISE_MARGIN = 0.7  # deviations above what the nearest of so many reaches by chance
QUIET_RARITY = 1.5  # what a stop word says of a message, about
EMBEDDED_KINDS = ("message", "artifact")
_CODES = ",".join(str(KINDS.index(kind)) for kind in EMBEDDED_KINDS)
_BEHIND = f" FROM lanes WHERE embedded < rows AND number & 7 IN ({_CODES})"


class Loaded(Struct, frozen=True):
    """The vectors of some entries: all pieces, where each entry's begin, and every entry among
    its neighbours."""

    ids: Any
    pieces: Any
    starts: Any
    contexts: Any


class Vectors:
    """The vectors of an index by one embedder."""

    def __init__(self, index: Index, embedder: Embedder) -> None:
        self.index, self.embedder = index, embedder
        self._cached: tuple[Any, Loaded] | None = None

    # --- taking in ---

    def behind(self, most: int) -> list[int]:
        """Entries that have no vector yet."""
        ids: list[int] = []
        for lane, embedded, rows in self.index.connection.execute(
            f"SELECT number, embedded, rows{_BEHIND}"
        ):
            first = lane << POSITION_BITS
            ids += range(first + embedded, first + min(rows, embedded + most - len(ids)))
            if len(ids) >= most:
                break
        return ids

    def behind_count(self) -> int:
        """How many entries have no vector yet."""
        return int(self.index.connection.execute(f"SELECT total(rows - embedded){_BEHIND}").get)

    def add(self, ids: Sequence[int], texts: Mapping[int, str]) -> None:
        """Keeps the vectors of these entries, which are the next of their lanes; one without a
        text has none."""
        pieces = {id: pieces_of(texts[id]) for id in ids if texts.get(id, "").strip()}
        rows, at = [], 0
        if pieces:
            vectors = _units(
                self._vectors([piece for of_one in pieces.values() for piece in of_one])
            )
            self._check_dimension(vectors.shape[1])
        for id, of_one in pieces.items():
            rows.append((id, vectors[at : at + len(of_one)].astype("<f2").tobytes()))
            at += len(of_one)
        lanes: dict[int, int] = {}
        for id in ids:
            lanes[id >> POSITION_BITS] = (id & (1 << POSITION_BITS) - 1) + 1
        with database.transaction(self.index.connection):
            self.index.connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?,?)", rows)
            grown = [(embedded, lane) for lane, embedded in lanes.items()]
            self.index.connection.executemany(
                "UPDATE lanes SET embedded = ? WHERE number = ?", grown
            )

    def _vectors(self, texts: list[str]) -> Any:
        """Vectors as they come; Unavailable if the embedder gives none: it is the caller's code."""
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

    def changed(self) -> str:
        """Forgets the vectors of another embedder. Says so, if there were any."""
        known, name = self._fact("embedder"), name_of(self.embedder)
        if known == name:
            return ""
        self._forget()
        self.index.connection.execute(
            "INSERT OR REPLACE INTO facts VALUES ('embedder', ?)", (name,)
        )
        return f"vectors of {known} are made anew by {name}" if known else ""

    def _forget(self) -> None:
        self._cached = None
        self.index.connection.execute(
            "DELETE FROM vectors; UPDATE lanes SET embedded = 0; DELETE FROM facts WHERE name = 'dimension'"
        )

    def _check_dimension(self, dimension: int) -> None:
        known = self._fact("dimension")
        if known == str(dimension):
            return
        if known:
            self._forget()
            raise Unavailable(
                f"the embedder gave vectors of {dimension} numbers, before of {known}",
                hint="they are made anew",
            )
        self.index.connection.execute(
            "INSERT OR REPLACE INTO facts VALUES ('dimension', ?)", (str(dimension),)
        )

    def _fact(self, name: str) -> str:
        value = self.index.connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).get
        return str(value or "")

    # --- finding ---

    def fused(
        self,
        query: Query,
        found: Sequence[rank.Found],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
    ) -> dict[int, float]:
        """The scores of the full text and the nearness of vectors, put together by how far each
        stands out."""
        total, _ = self.index.size(ranges)
        loaded = self._loaded(ranges, total, scored)
        asked = self._asked(query, found, total)
        if asked is None or not len(loaded.ids):
            return dict(scored)
        self._check_dimension(asked.shape[0])
        near = self._near(loaded, asked)
        mean, deviation = rank.spread(scored, max(total, len(scored)))
        nearness = rank.VECTOR_WEIGHT * (near - near.mean()) / (near.std() or 1.0)
        out = {id: (score - mean) / deviation for id, score in scored.items()}
        nothing = -mean / deviation
        # What has none of the words must be near by itself: something is always nearest, also to
        # nonsense.
        close = near >= least_near(near, self.embedder)
        for id, value, is_close in zip(loaded.ids.tolist(), nearness.tolist(), close.tolist()):
            if id in out or is_close:
                out[id] = out.get(id, nothing) + value
        return out

    def _near(self, loaded: Loaded, asked: Any) -> Any:
        import numpy

        best = numpy.maximum.reduceat(loaded.pieces @ asked, loaded.starts)
        return numpy.maximum(best, loaded.contexts @ asked)

    def _asked(self, query: Query, found: Sequence[rank.Found], total: int) -> Any:
        """The vector of the query, its words weighed by how rare they are; None if there are
        none."""
        words = {
            term.text: rank.rarity(one.entries, total)
            for term, one in zip(query.terms, found)
            if " " not in term.text
            and (additive(self.embedder) or one.entries <= COMMON_SHARE * total)
        }
        if not additive(self.embedder):
            return _unit(self._vectors([" ".join(words) or query.text])[0])
        words.update((word, QUIET_RARITY) for word in query.quiet)
        vectors = self._vectors(list(words)) if words else []
        return _unit(sum(worth * vector for worth, vector in zip(words.values(), vectors)))

    def _loaded(self, ranges: Sequence[Range], total: int, scored: Mapping[int, float]) -> Loaded:
        """The vectors to compare with: all in these ranges, or those of what the full text
        found."""
        if total > WHOLE_MAX:
            ids = rank.around(set(scored), 2)
            query = "SELECT id, pieces FROM vectors WHERE id IN carray(?) ORDER BY id"
            return self._arranged(self.index.connection.execute(query, (carried(ids),)).fetchall())
        key = (tuple(ranges), self.index.connection.execute("SELECT sum(embedded) FROM lanes").get)
        if self._cached is None or self._cached[0] != key:
            rows: list[Any] = []
            for span in ranges:
                query = "SELECT id, pieces FROM vectors WHERE id BETWEEN ? AND ? ORDER BY id"
                rows += self.index.connection.execute(query, span).fetchall()
            self._cached = key, self._arranged(sorted(rows))
        return self._cached[1]

    def _arranged(self, rows: list[Any]) -> Loaded:
        import numpy

        ids = numpy.array([id for id, _ in rows], dtype=numpy.int64)
        dimension = int(self._fact("dimension") or 0)
        if not rows or not dimension:
            return Loaded(ids[:0], None, None, None)
        counts = numpy.array([len(blob) // (2 * dimension) for _, blob in rows])
        starts = numpy.concatenate([[0], numpy.cumsum(counts)[:-1]])
        pieces = numpy.frombuffer(b"".join(blob for _, blob in rows), dtype="<f2").reshape(
            -1, dimension
        )
        pieces = pieces.astype(numpy.float32)
        return Loaded(ids, pieces, starts, self._contexts(ids, pieces[starts]))

    def _contexts(self, ids: Any, firsts: Any) -> Any:
        """Every short entry with a share of its short neighbours, of length one."""
        import numpy

        sizes = self.index.sizes(ids.tolist())
        words = numpy.array([sizes.get(id, rank.SHORT_WORDS + 1) for id in ids.tolist()])
        short = (words <= rank.SHORT_WORDS) & (
            (ids >> POSITION_BITS & (1 << KIND_BITS) - 1) == KINDS.index("message")
        )
        out = firsts.copy()
        for step, share in rank.NEIGHBOURS:
            here, there = (
                (slice(-step, None), slice(None, step))
                if step < 0
                else (slice(None, -step), slice(step, None))
            )
            beside = short[here] & short[there] & (ids[there] - ids[here] == step)
            out[here] += share * beside[:, None] * firsts[there]
        return _units(out)


def least_near(near: Any, embedder: Embedder) -> float:
    """How near something must be that has none of the words. The nearest of n that mean nothing
    stands about √(2 ln n) deviations above their mean; with the margin, 19 of 20 queries of
    nonsense find nothing, measured in talks of 30 to 3,000 messages. An embedder that knows its
    least cosine finds more at the same price."""
    known = getattr(embedder, "threshold", None)
    if known is not None:
        return float(known)
    return float(near.mean() + (sqrt(2 * log(len(near))) + NOISE_MARGIN) * near.std())


def pieces_of(text: str) -> list[str]:
    """What of a text gets vectors of its own."""
    return [
        text[at : at + PIECE_CHARS]
        for at in range(0, min(len(text), PIECE_CHARS * PIECES_MAX), PIECE_CHARS)
    ]


def additive(embedder: Embedder) -> bool:
    return bool(getattr(embedder, "additive", False))


def _units(vectors: Any) -> Any:
    """The vectors, each of length one."""
    import numpy

    return vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _unit(vector: Any) -> Any:
    import numpy

    length = float(numpy.linalg.norm(vector))
    return vector / length if length else None
