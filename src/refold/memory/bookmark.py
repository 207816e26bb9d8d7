"""What of the fold of a memory's log retrieve needs, without bodies: so the first question of a
process does not read the whole log.

The fold is maps from what is claimed, said or ended to the events that do so. A bookmark keeps them
as two columns, by hashes of the keys and by seq, and an event is read and its claim made again when
somebody asks for its key. So it has no words. It is kept in the index, made again when the log has
grown by much, and thrown away when something is forgotten. Neighbours: `fold` has the maps,
`journal` opens and keeps bookmarks.
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
    """The state at the event `head`, whose chain is `chain`; `forgotten` are ids of entries."""

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
    """A bookmark as it is kept."""
    ordered = sorted((_place(map, key), seq) for map, key, seq in rows)
    return msgspec.msgpack.encode(
        Bookmark(
            head=head,
            chain=chain,
            forgotten=list(forgotten),
            total=total,
            places=array("q", (place for place, _ in ordered)).tobytes(),
            seqs=array("q", (seq for _, seq in ordered)).tobytes(),
        )
    )


def unpacked(kept: bytes) -> Bookmark | None:
    """A bookmark as it was kept; None if it is damaged or of another version of refold."""
    try:
        found = decoding.packed_decoder(Bookmark).decode(kept)
    except msgspec.MsgspecError:
        return None
    is_whole = len(found.places) == len(found.seqs) and len(found.seqs) % 8 == 0
    return found if found.format == FORMAT and is_whole else None


class Places:
    """The columns of a bookmark."""

    def __init__(self, bookmark: Bookmark) -> None:
        self._places, self._seqs = array("q"), array("q")
        self._places.frombytes(bookmark.places)
        self._seqs.frombytes(bookmark.seqs)

    def seqs(self, map: str, key: str) -> Iterator[int]:
        """The seqs at a key of a map, rising."""
        place = _place(map, key)
        at = bisect_left(self._places, place)
        while at < len(self._places) and self._places[at] == place:
            yield self._seqs[at]
            at += 1


def _place(map: str, key: str) -> int:
    digest = blake2b(f"{map} {key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class Loaded(dict[Key, Value]):
    """A map that loads what is at a key when somebody first asks for it, so it has every key."""

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
