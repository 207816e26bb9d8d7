"""Arrays of bytes and of numbers, in the binary form that PostgreSQL takes.

psycopg sends a list as text: every value is escaped by a pattern, and bytes become twice as long.
For a batch of events that cost more than all the rest of an append. An empty array has no
dimension. Neighbours: `log` makes them of events, `link` teaches each connection to send them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

BYTEA, INT8 = 17, 20
_HEAD = struct.Struct(">iiiii")  # dimensions, whether there are NULLs, kind, length, first index
_LENGTH = struct.Struct(">i").pack
_EMPTY = struct.Struct(">iii")


class ByteArray(bytes):
    """A `bytea[]`."""


class NumberArray(bytes):
    """A `bigint[]`."""


def byte_array(values: Sequence[bytes]) -> ByteArray:
    sized = chain.from_iterable((_LENGTH(len(value)), value) for value in values)
    return ByteArray(_head(BYTEA, len(values)) + b"".join(sized))


def number_array(values: Sequence[int]) -> NumberArray:
    """OverflowError for a number that has more than 64 bits."""
    sized = chain.from_iterable((8, value) for value in values)
    try:
        return NumberArray(_head(INT8, len(values)) + struct.pack(f">{'iq' * len(values)}", *sized))
    except struct.error as error:
        raise OverflowError(str(error)) from error


def _head(kind: int, count: int) -> bytes:
    return _HEAD.pack(1, 0, kind, count, 1) if count else _EMPTY.pack(0, 0, kind)


class _ByteDumper(Dumper):  # type: ignore[misc, unused-ignore]
    format = Format.BINARY
    oid = 1_001  # bytea[]

    def dump(self, obj: Any) -> Any:
        return obj


class _NumberDumper(_ByteDumper):
    oid = 1_016  # bigint[]


def teach(connection: psycopg.Connection[Any]) -> None:
    """Makes a connection send such arrays as they are."""
    connection.adapters.register_dumper(ByteArray, _ByteDumper)
    connection.adapters.register_dumper(NumberArray, _NumberDumper)
