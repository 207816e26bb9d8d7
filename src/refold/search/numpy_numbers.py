"""The arithmetic of vectors by numpy. Only here is it imported. Neighbour: `numbers` chooses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from refold.search.numbers import (
    LENGTH_MIN,
    Apart,
    Loaded,
    Nearest,
    Nearness,
    Vector,
    not_vectors,
)
from refold.search.rank import NEIGHBOURS

ROOM_PARTS = 4  # arrays grow by a quarter


class NumpyNumbers:
    """Vectors as the rows of an array."""

    whole_max, apart_max = 50_000, 200_000

    def rows(self, given: object, count: int) -> Any:
        rows = numpy.asarray(given, dtype=numpy.float32)
        is_matrix = rows.ndim == 2 and len(rows) == count and rows.shape[1] > 0
        if not is_matrix or not numpy.isfinite(rows).all():
            raise not_vectors(str(rows.shape), count)
        return rows

    def blobs(self, rows: Any, counts: Sequence[int]) -> list[bytes]:
        halves = _units(rows).astype("<f2")
        ends = numpy.cumsum(counts)
        return [part.tobytes() for part in numpy.split(halves, ends[:-1])]

    def unit_sum(self, rows: Any, weights: Sequence[float]) -> Vector | None:
        if not len(rows):
            return None
        summed: Any = numpy.asarray(weights, dtype=numpy.float32) @ rows
        length = float(numpy.linalg.norm(summed))
        return summed / length if length else None

    def loaded(
        self, ids: list[int], blobs: list[bytes], dimension: int, short: list[bool]
    ) -> Loaded:
        flat = numpy.frombuffer(b"".join(blobs), dtype="<f2")
        counts = numpy.array([len(blob) // (2 * dimension) for blob in blobs])
        starts = numpy.concatenate([[0], numpy.cumsum(counts)[:-1]])
        pieces = flat.reshape(-1, dimension).astype(numpy.float32)
        places = numpy.array(ids, dtype=numpy.int64)
        contexts = _contexts(places, pieces[starts], numpy.array(short))
        return _NumpyLoaded(ids, pieces, starts, contexts)

    def apart(self, dimension: int) -> Apart:
        return _NumpyApart(dimension)

    def whole(self, blob: bytes, dimension: int) -> list[float]:
        pieces = numpy.frombuffer(blob, dtype="<f2").reshape(-1, dimension)
        mean = pieces.astype(numpy.float32).sum(axis=0, keepdims=True)
        whole: list[float] = _units(mean)[0].tolist()
        return whole


class _NumpyApart:
    """All pieces, where each entry's begin, and the entries: arrays with room to grow."""

    def __init__(self, dimension: int) -> None:
        self.last = -1
        self._dimension = dimension
        self._pieces = _Growing(numpy.empty((0, dimension), dtype=numpy.float32))
        self._starts = _Growing(numpy.empty(0, dtype=numpy.int64))
        self._ids = _Growing(numpy.empty(0, dtype=numpy.int64))

    def add(self, ids: list[int], blobs: list[bytes]) -> None:
        if not ids:
            return
        counts = numpy.array([len(blob) // (2 * self._dimension) for blob in blobs])
        before = len(self._pieces.rows)
        self._starts.extend(before + numpy.concatenate([[0], numpy.cumsum(counts)[:-1]]))
        flat = numpy.frombuffer(b"".join(blobs), dtype="<f2")
        self._pieces.extend(flat.reshape(-1, self._dimension))
        self._ids.extend(numpy.array(ids, dtype=numpy.int64))
        self.last = ids[-1]

    def nearest(self, asked: Vector, among: Iterable[int], most: int) -> Nearest | None:
        ids = self._ids.rows
        if not len(ids):
            return None
        # By one thread: memory is the bottleneck, and threads that wait for the next product cost
        # as much as they save.
        values = numpy.einsum("ij,j->i", self._pieces.rows, asked)
        if len(values) > len(ids):
            values = numpy.maximum.reduceat(values, self._starts.rows)
        wanted = numpy.fromiter(among, dtype=numpy.int64)
        places = numpy.searchsorted(ids, wanted)
        places = places[ids[numpy.minimum(places, len(ids) - 1)] == wanted]
        first = max(0, len(ids) - most)
        looked_at = numpy.concatenate([places, numpy.argpartition(values, first)[first:]])
        cosines = dict(zip(ids[looked_at].tolist(), values[looked_at].tolist()))
        return Nearest(float(values.mean()), float(values.std()), cosines)


class _Growing:
    """`rows` of an array that has room for more, so that adding some does not copy all."""

    def __init__(self, rows: Any) -> None:
        self._room, self.rows = rows, rows

    def extend(self, more: Any) -> None:
        size, wanted = len(self.rows), len(self.rows) + len(more)
        if wanted > len(self._room):
            room = max(wanted, len(self._room) + len(self._room) // ROOM_PARTS)
            grown = numpy.empty((room, *self._room.shape[1:]), dtype=self._room.dtype)
            grown[:size] = self.rows
            self._room = grown
        self._room[size:wanted] = more
        self.rows = self._room[:wanted]


class _NumpyLoaded:
    """All pieces, where each entry's begin, and every entry among its neighbours."""

    def __init__(self, ids: list[int], pieces: Any, starts: Any, contexts: Any) -> None:
        self.ids, self._pieces, self._starts, self._contexts = ids, pieces, starts, contexts

    def nearness(self, asked: Vector) -> Nearness:
        """The cosine of each entry with a vector: the best of its pieces and its context."""
        best = numpy.maximum.reduceat(self._pieces @ asked, self._starts)
        near = numpy.maximum(best, self._contexts @ asked)
        return Nearness(near.tolist(), float(near.mean()), float(near.std()))


def _contexts(ids: Any, firsts: Any, short: Any) -> Any:
    """Every short entry with a share of its short neighbours, of length one."""
    out = firsts.copy()
    for step, share in NEIGHBOURS:
        here, there = slice(None, -step), slice(step, None)
        if step < 0:
            here, there = slice(-step, None), slice(None, step)
        beside = short[here] & short[there] & (ids[there] - ids[here] == step)
        out[here] += share * beside[:, None] * firsts[there]
    return _units(out)


def _units(vectors: Any) -> Any:
    """The vectors, each of length one."""
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / numpy.maximum(lengths, LENGTH_MIN)
