"""The arithmetic of vectors: by numpy where it is installed, else in plain Python.

Both keep the same bytes, so an index made by one is read by the other. Plain Python compares fewer
entries, because it is slower. Neighbour: `vectors` says what is compared with what.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from heapq import nlargest
from math import fsum, isfinite, sqrt
from operator import mul
from typing import Protocol

from msgspec import Struct

from refold.errors import Invalid
from refold.search.rank import NEIGHBOURS

Vector = Sequence[float]
Rows = Sequence[Vector]

LENGTH_MIN = 1e-9


class Nearness(Struct, frozen=True):
    """How near each entry is to what was asked, and how these numbers are spread. `own` are the
    cosines of the entries themselves where the values are something else."""

    values: list[float]
    mean: float
    deviation: float
    own: Nearness | None = None


class Loaded(Protocol):
    """The vectors of some entries."""

    ids: list[int]

    def nearness(self, asked: Vector) -> Nearness: ...


class Nearest(Struct, frozen=True):
    """How entries that are apart stand to what was asked: the spread over all of them, and the
    cosines of those that were looked at."""

    mean: float
    deviation: float
    cosines: dict[int, float]


class Apart(Protocol):
    """The vectors of entries that have nothing to do with their neighbours, by rising ids. They
    are kept while entries are added: only what is new is read."""

    last: int  # the highest id; -1 if there is none

    def add(self, ids: list[int], blobs: list[bytes]) -> None:
        """Takes the stored vectors of entries with higher ids."""

    def nearest(self, asked: Vector, among: Iterable[int], most: int) -> Nearest | None:
        """The cosines of these entries and of the nearest others; None if there is no entry."""


class Numbers(Protocol):
    """What is done with vectors. `whole_max`: up to so many entries are all compared; of more, only
    those that the full text found; `apart_max` is the same for entries that are apart."""

    whole_max: int
    apart_max: int

    def rows(self, given: object, count: int) -> Rows:
        """What an embedder gave for so many texts; Invalid if it is not a vector for each."""

    def blobs(self, rows: Rows, counts: Sequence[int]) -> list[bytes]:
        """The vectors, each of length one, as they are stored: so many in each blob."""

    def unit_sum(self, rows: Rows, weights: Sequence[float]) -> Vector | None:
        """The weighted sum of the vectors, of length one; None if it has no length."""

    def loaded(
        self, ids: list[int], blobs: list[bytes], dimension: int, short: list[bool]
    ) -> Loaded:
        """Entries by their stored vectors; `short` ones share with their short neighbours."""

    def apart(self, dimension: int) -> Apart:
        """No entries yet."""

    def whole(self, blob: bytes, dimension: int) -> list[float]:
        """The stored vectors of one entry as one of length one: their mean."""


def numbers() -> Numbers:
    """The fastest that is installed."""
    try:
        from refold.search.numpy_numbers import NumpyNumbers
    except ImportError:
        return PlainNumbers()
    return NumpyNumbers()


def not_vectors(about: str, count: int) -> Invalid:
    """The error for what an embedder should not give."""
    return Invalid(
        f"the embedder gave {about} for {count} texts", hint="one finite vector for each text"
    )


class PlainNumbers:
    """Vectors as lists of floats."""

    whole_max = apart_max = 5_000

    def rows(self, given: object, count: int) -> Rows:
        rows = [list(map(float, one)) for one in given]  # type: ignore[attr-defined]
        sizes = {len(row) for row in rows}
        if len(rows) != count or len(sizes) != 1 or 0 in sizes:
            raise not_vectors(f"{len(rows)} vectors of sizes {sorted(sizes)[:5]}", count)
        if not all(map(isfinite, (number for row in rows for number in row))):
            raise not_vectors("numbers that are not finite", count)
        return rows

    def blobs(self, rows: Rows, counts: Sequence[int]) -> list[bytes]:
        packed = [struct.pack(f"<{len(row)}e", *_unit(row)) for row in rows]
        blobs: list[bytes] = []
        at = 0
        for count in counts:
            blobs.append(b"".join(packed[at : at + count]))
            at += count
        return blobs

    def unit_sum(self, rows: Rows, weights: Sequence[float]) -> Vector | None:
        if not rows:
            return None
        summed = [sum(map(mul, column, weights)) for column in zip(*rows)]
        return _unit(summed) if any(summed) else None

    def loaded(
        self, ids: list[int], blobs: list[bytes], dimension: int, short: list[bool]
    ) -> Loaded:
        form = struct.Struct(f"<{dimension}e")
        pieces = [[list(piece) for piece in form.iter_unpack(blob)] for blob in blobs]
        firsts = [of_one[0] for of_one in pieces]
        places = {id: at for at, id in enumerate(ids)}
        for at, id in enumerate(ids):
            if short[at]:
                near = [(places.get(id + step), share) for step, share in NEIGHBOURS]
                beside = [(firsts[there], share) for there, share in near
                          if there is not None and short[there]]  # fmt: skip
                pieces[at].append(_among(firsts[at], beside))
        return _PlainLoaded(ids, pieces)

    def apart(self, dimension: int) -> Apart:
        return _PlainApart(dimension)

    def whole(self, blob: bytes, dimension: int) -> list[float]:
        pieces = struct.iter_unpack(f"<{dimension}e", blob)
        return _unit([fsum(column) for column in zip(*pieces)])


class _PlainLoaded:
    """The pieces of each entry, the last of them the entry among its neighbours if it is short."""

    def __init__(self, ids: list[int], pieces: list[list[list[float]]]) -> None:
        self.ids, self._pieces = ids, pieces

    def nearness(self, asked: Vector) -> Nearness:
        values = [max(sum(map(mul, piece, asked)) for piece in of_one) for of_one in self._pieces]
        mean = fsum(values) / len(values)
        square = fsum((value - mean) ** 2 for value in values) / len(values)
        return Nearness(values, mean, sqrt(square))


class _PlainApart:
    """The pieces of each entry."""

    def __init__(self, dimension: int) -> None:
        self.last = -1
        self._form = struct.Struct(f"<{dimension}e")
        self._pieces: dict[int, list[Vector]] = {}

    def add(self, ids: list[int], blobs: list[bytes]) -> None:
        for id, blob in zip(ids, blobs):
            self._pieces[id] = list(self._form.iter_unpack(blob))
            self.last = id

    def nearest(self, asked: Vector, among: Iterable[int], most: int) -> Nearest | None:
        if not self._pieces:
            return None
        values = {
            id: max(sum(map(mul, piece, asked)) for piece in of_one)
            for id, of_one in self._pieces.items()
        }
        mean = fsum(values.values()) / len(values)
        square = fsum((value - mean) ** 2 for value in values.values()) / len(values)
        looked_at = {*among, *nlargest(most, values, key=values.__getitem__)} & values.keys()
        return Nearest(mean, sqrt(square), {id: values[id] for id in looked_at})


EMPTY: Loaded = _PlainLoaded([], [])


def _among(own: list[float], beside: list[tuple[list[float], float]]) -> list[float]:
    """A vector with a share of those beside it, of length one."""
    summed = own
    for other, share in beside:
        summed = [one + share * two for one, two in zip(summed, other)]
    return _unit(summed)


def _unit(row: Vector) -> list[float]:
    length = max(sqrt(fsum(map(mul, row, row))), LENGTH_MIN)
    return [number / length for number in row]
