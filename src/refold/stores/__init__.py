"""Stores keep logs and artifacts, and never think. A URL says which one.

What a store promises stands in `protocol`; `contract` is the suite that holds for all of them. Each
store is imported when its URL is opened, so that a program that uses none of them loads none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from refold.checked import checked
from refold.display import is_text
from refold.errors import Invalid
from refold.stores.protocol import Store
from refold.stores.read_only import ReadOnlyStore

__all__ = [
    "Store",
    "erase_events",
    "is_read_only",
    "is_same_place",
    "is_there",
    "open_store",
    "reading_store",
]


@checked
def open_store(url: str | os.PathLike[str], *, read_only: bool = False) -> Store:
    """The store that the URL names, or the path of a database. Opening creates nothing; the first
    write does. One that is `read_only` refuses every write, and leaves each byte, name and time in
    its folder as it is."""
    opened = _opened(os.fspath(url) if isinstance(url, os.PathLike) else url, read_only)
    return ReadOnlyStore(opened, owns=True) if read_only else opened


def _opened(url: str, read_only: bool) -> Store:
    if "\0" not in url and is_text(url):
        scheme, colon, rest = url.partition(":")
        if colon and scheme in _OPENERS:
            return _OPENERS[scheme](rest, read_only)
        if not colon and url.endswith(".db"):
            return _sqlite(url, read_only)
    raise Invalid(f"{url!r} is not a store", hint=_KNOWN)


def reading_store(store: Store) -> Store:
    """The same place, to be read only. One on this disk is opened once more, so that reading moves
    nothing there; any other is read through the store that was given, which stays open."""
    if is_read_only(store):
        return ReadOnlyStore(store, owns=False)
    is_on_disk = store.url.partition(":")[0] in ("sqlite", "files")
    return open_store(store.url, read_only=True) if is_on_disk else ReadOnlyStore(store, owns=False)


def is_read_only(store: Store) -> bool:
    """Whether the store refuses every write."""
    return isinstance(store, ReadOnlyStore)


def is_same_place(first: Store, second: Store) -> bool:
    """Whether both keep their data in one place. Every `memory:` store has a place of its own."""
    return first is second or (first.url == second.url and first.url != "memory:")


def erase_events(store: Store, conversation: str, seqs: Sequence[int]) -> None:
    """Erases several events of a log; at once where the store can, which costs as much as one."""
    erase_many = getattr(store, "erase_many", None)
    if erase_many is not None and seqs:
        erase_many(conversation, seqs)
        return
    for seq in seqs:
        store.erase(conversation, seq)


def is_there(store: Store) -> bool:
    """Whether anything was ever written where the store keeps its data."""
    if isinstance(store, ReadOnlyStore):
        return is_there(store.store)
    place = getattr(store, "path", "") or getattr(store, "root", "")
    return not place or os.path.exists(place)


def _memory(rest: str, read_only: bool) -> Store:
    from refold.stores.memory import MemoryStore

    if rest:
        raise Invalid(f"'memory:{rest}' is not a store", hint="`memory:` alone gives a fresh one")
    return MemoryStore()


def _sqlite(path: str, read_only: bool) -> Store:
    from refold.stores.sqlite import SqliteStore

    if not path:
        raise Invalid("'sqlite:' names no file", hint="sqlite:.refold/refold.db")
    return SqliteStore(os.path.expanduser(path), read_only=read_only)


def _files(path: str, read_only: bool) -> Store:
    from refold.stores.files import FilesStore

    if not path:
        raise Invalid("'files:' names no folder", hint="files:.refold/tree")
    return FilesStore(os.path.expanduser(path), read_only=read_only)


_OPENERS: dict[str, Callable[[str, bool], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "files": _files,
}
_KNOWN = "stores are memory:, sqlite:PATH, files:DIR, or a path that ends in .db"
