"""The arithmetic of vectors, in numpy. Imported late, because only vectors need numpy.

A stored vector has length one and half precision; an entry has one for each piece of its text.
`Pieces` compares entries that lend words to their neighbours, `StandalonePieces` compares entries
of a memory, and grows during use. Neighbour: `vectors` chooses the vectors to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy
from msgspec import Struct

from refold.errors import Invalid
from refold.search.embedders import Vector
from refold.search.rank import NEIGHBOURS

LENGTH_MIN = 1e-9
GROWTH_DIVISOR = 4  # arrays grow by a quarter


class Nearness(Struct, frozen=True):
    """Nearness of each entry to the query, with mean and deviation. If `values` are not cosines,
    `own` has the cosines."""

    values: list[float]
    mean: float
    deviation: float
    own: Nearness | None = None


class Nearest(Struct, frozen=True):
    """Cosines of some entries, with mean and deviation over all entries."""

    mean: float
    deviation: float
    cosines: dict[int, float]


class Loaded(Protocol):
    """The vectors of some entries."""

    ids: list[int]

    def nearness(self, query: Vector) -> Nearness: ...


class Pieces:
    """The pieces of all entries, and each `short` entry blended with its short neighbours."""

    def __init__(
        self, ids: list[int], blobs: list[bytes], dimension: int, short: list[bool]
    ) -> None:
        self.ids = ids
        counts = numpy.array([len(blob) // (2 * dimension) for blob in blobs])
        self._starts = numpy.concatenate([[0], numpy.cumsum(counts)[:-1]])
        flat = numpy.frombuffer(b"".join(blobs), dtype="<f2")
        self._pieces = flat.reshape(-1, dimension).astype(numpy.float32)
        firsts, is_short = self._pieces[self._starts], numpy.array(short)
        blended = firsts.copy()
        places = numpy.array(ids, dtype=numpy.int64)
        for share, here, there, lends in lending_pairs(places, is_short, NEIGHBOURS):
            blended[here] += share * lends[:, None] * firsts[there]
        self._blended = units(blended)

    def nearness(self, query: Vector) -> Nearness:
        """The cosine of each entry with the query: the best of its pieces and its blend."""
        best = numpy.maximum.reduceat(self._pieces @ query, self._starts)
        near = numpy.maximum(best, self._blended @ query)
        return Nearness(near.tolist(), float(near.mean()), float(near.std()))


def lending_pairs(
    ids: Any, short: Any, steps: Sequence[tuple[int, float]]
) -> Iterator[tuple[float, slice, slice, Any]]:
    """For each step and its factor: the entries, the entries at that distance, and a mask of the
    pairs that are short and adjacent by id."""
    for step, factor in steps:
        here, there = slice(None, -step), slice(step, None)
        if step < 0:
            here, there = slice(-step, None), slice(None, step)
        lends = short[here] & short[there] & (ids[there] - ids[here] == step)
        yield factor, here, there, lends


class StandalonePieces:
    """The pieces of entries without neighbours, added by rising id."""

    def __init__(self, dimension: int) -> None:
        self.last_id = -1
        self._dimension = dimension
        self._pieces = _GrowingArray(numpy.empty((0, dimension), dtype=numpy.float32))
        self._starts = _GrowingArray(numpy.empty(0, dtype=numpy.int64))
        self._ids = _GrowingArray(numpy.empty(0, dtype=numpy.int64))

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Adds entries with their stored vectors; their ids are higher than all earlier ids."""
        if not rows:
            return
        counts = numpy.array([len(blob) // (2 * self._dimension) for _, blob in rows])
        before = len(self._pieces.rows)
        self._starts.extend(before + numpy.concatenate([[0], numpy.cumsum(counts)[:-1]]))
        flat = numpy.frombuffer(b"".join(blob for _, blob in rows), dtype="<f2")
        self._pieces.extend(flat.reshape(-1, self._dimension))
        self._ids.extend(numpy.array([id for id, _ in rows], dtype=numpy.int64))
        self.last_id = rows[-1][0]

    def nearest(self, query: Vector, wanted: Iterable[int], most: int) -> Nearest | None:
        """The cosines of the wanted entries and of the `most` nearest; None without entries."""
        ids = self._ids.rows
        if not len(ids):
            return None
        # On one thread: memory bandwidth is the bottleneck, and waiting threads cost as much as
        # they save.
        values = numpy.einsum("ij,j->i", self._pieces.rows, query)
        if len(values) > len(ids):
            values = numpy.maximum.reduceat(values, self._starts.rows)
        wanted_ids = numpy.fromiter(wanted, dtype=numpy.int64)
        places = numpy.searchsorted(ids, wanted_ids)
        places = places[ids[numpy.minimum(places, len(ids) - 1)] == wanted_ids]
        first = max(0, len(ids) - most)
        chosen = numpy.concatenate([places, numpy.argpartition(values, first)[first:]])
        cosines = dict(zip(ids[chosen].tolist(), values[chosen].tolist()))
        return Nearest(float(values.mean()), float(values.std()), cosines)


class _GrowingArray:
    """The `rows` of an array with spare capacity, so that adding a few does not copy all."""

    def __init__(self, rows: Any) -> None:
        self._buffer, self.rows = rows, rows

    def extend(self, more: Any) -> None:
        size, wanted = len(self.rows), len(self.rows) + len(more)
        if wanted > len(self._buffer):
            room = max(wanted, len(self._buffer) + len(self._buffer) // GROWTH_DIVISOR)
            grown = numpy.empty((room, *self._buffer.shape[1:]), dtype=self._buffer.dtype)
            grown[:size] = self.rows
            self._buffer = grown
        self._buffer[size:wanted] = more
        self.rows = self._buffer[:wanted]


class Numbers:
    """The operations on vectors, in one class for a late import by `vectors`."""

    pieces, standalone_pieces = Pieces, StandalonePieces

    def rows(self, given: object, count: int) -> Any:
        """An embedder's result as a matrix; Invalid unless it has one finite vector per text."""
        rows = numpy.asarray(given, dtype=numpy.float32)
        is_matrix = rows.ndim == 2 and len(rows) == count and rows.shape[1] > 0
        if not is_matrix or not numpy.isfinite(rows).all():
            problem = f"the embedder returned {rows.shape} for {count} texts"
            raise Invalid(problem, hint="return one finite vector per text")
        return rows

    def blobs(self, rows: Any, counts: Sequence[int]) -> list[bytes]:
        """The vectors in stored form, `counts[n]` of them in blob n."""
        halves = units(rows).astype("<f2")
        ends = numpy.cumsum(counts)
        return [part.tobytes() for part in numpy.split(halves, ends[:-1])]

    def unit_sum(self, rows: Any, weights: Sequence[float]) -> Any | None:
        """The weighted sum of the vectors, scaled to length one; None if the sum is zero."""
        if not len(rows):
            return None
        summed: Any = numpy.asarray(weights, dtype=numpy.float32) @ rows
        length = float(numpy.linalg.norm(summed))
        return summed / length if length else None

    def mean(self, blob: bytes, dimension: int) -> list[float]:
        """The mean of one entry's stored vectors, scaled to length one."""
        pieces = numpy.frombuffer(blob, dtype="<f2").reshape(-1, dimension)
        summed = pieces.astype(numpy.float32).sum(axis=0, keepdims=True)
        mean: list[float] = units(summed)[0].tolist()
        return mean


def units(vectors: Any) -> Any:
    """The vectors, each scaled to length one."""
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / numpy.maximum(lengths, LENGTH_MIN)
