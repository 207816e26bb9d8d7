"""A bookmark of a memory's fold, without bodies, so that the first retrieval in a process does not
read the whole log.

The fold is a set of maps from claims, sentences or ended facts to events. A bookmark keeps them as
two columns, hashes of the keys and seqs; an event is read, and its claim derived again, when its
key is first looked up. So a bookmark contains no words. It is kept in the index, built again when
the log has grown much, and deleted whenever something is forgotten. Neighbours: `fold` has the
maps, `journal` opens and keeps bookmarks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec import Struct

from refold import decoding

FORMAT = 2
Key = TypeVar("Key")
Value = TypeVar("Value")
Row = tuple[str, str, int]  # a map, a key of it, and a seq


class Bookmark(Struct, frozen=True, kw_only=True):
    """The state at the event `head` with this `chain`; `forgotten` are ids of entries."""

    format: int = FORMAT
    head: int
    chain: bytes
    forgotten: list[str]
    total: int
    places: bytes
    seqs: bytes


def packed(
    rows: Iterable[Row], *, head: int, chain: bytes, forgotten: Iterable[str], total: int
) -> bytes:
    """A bookmark in stored form."""
    ordered = sorted((_key_hash(map, key), seq) for map, key, seq in rows)
    return msgspec.msgpack.encode(
        Bookmark(
            head=head,
            chain=chain,
            forgotten=list(forgotten),
            total=total,
            places=array("q", (hash for hash, _ in ordered)).tobytes(),
            seqs=array("q", (seq for _, seq in ordered)).tobytes(),
        )
    )


def unpacked(kept: bytes) -> Bookmark | None:
    """A stored bookmark; None if it is damaged or was written by another version of refold."""
    try:
        bookmark = decoding.packed_decoder(Bookmark).decode(kept)
    except msgspec.MsgspecError:
        return None
    is_complete = len(bookmark.places) == len(bookmark.seqs) and len(bookmark.seqs) % 8 == 0
    return bookmark if bookmark.format == FORMAT and is_complete else None


class BookmarkColumns:
    """The columns of a bookmark, hashes and seqs, sorted by hash."""

    def __init__(self, bookmark: Bookmark) -> None:
        self._hashes, self._seqs = array("q"), array("q")
        self._hashes.frombytes(bookmark.places)
        self._seqs.frombytes(bookmark.seqs)

    def seqs(self, map: str, key: str) -> Iterator[int]:
        """The seqs at a key of a map, ascending."""
        hash = _key_hash(map, key)
        at = bisect_left(self._hashes, hash)
        while at < len(self._hashes) and self._hashes[at] == hash:
            yield self._seqs[at]
            at += 1


def _key_hash(map: str, key: str) -> int:
    digest = blake2b(f"{map} {key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class LazyMap(dict[Key, Value]):
    """A map that loads the value of a key at the first lookup, so every key is in it."""

    def __init__(self, load: Callable[[Key], Value]) -> None:
        super().__init__()
        self._load = load

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._load(key)
        return value

    def get(self, key: Key, default: object = None) -> Value:
        return self[key]

    def setdefault(self, key: Key, default: object = None) -> Value:
        return self[key]

    def __bool__(self) -> bool:
        return True
