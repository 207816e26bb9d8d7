"""Stores keep logs and artifacts, and never think. A URL says which one.

What a store promises stands in `protocol`; `contract` is the suite that holds for all of them. Each
store is imported when its URL is opened, so that a program that uses none of them loads none.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from refold.checked import checked
from refold.display import is_text
from refold.errors import Invalid
from refold.stores.protocol import Store

__all__ = ["Store", "is_same_place", "open_store"]


@checked
def open_store(url: str) -> Store:
    """The store that the URL names. Opening creates nothing; the first write does."""
    if "\0" not in url and is_text(url):
        scheme, colon, rest = url.partition(":")
        if colon and scheme in _OPENERS:
            return _OPENERS[scheme](rest)
        if not colon and url.endswith(".db"):
            return _sqlite(url)
    raise Invalid(f"{url!r} is not a store", hint=_KNOWN)


def is_same_place(first: Store, second: Store) -> bool:
    """Whether both keep their data in one place. Every `memory:` store has a place of its own."""
    return first is second or (first.url == second.url and first.url != "memory:")


def is_there(store: Store) -> bool:
    """Whether anything was ever written where the store keeps its data."""
    place = getattr(store, "path", "") or getattr(store, "root", "")
    return not place or os.path.exists(place)


def _memory(rest: str) -> Store:
    from refold.stores.memory import MemoryStore

    if rest:
        raise Invalid(f"'memory:{rest}' is not a store", hint="`memory:` alone gives a fresh one")
    return MemoryStore()


def _sqlite(path: str) -> Store:
    from refold.stores.sqlite import SqliteStore

    if not path:
        raise Invalid("'sqlite:' names no file", hint="sqlite:.refold/refold.db")
    return SqliteStore(os.path.expanduser(path))


def _files(path: str) -> Store:
    from refold.stores.files import FilesStore

    if not path:
        raise Invalid("'files:' names no folder", hint="files:.refold/tree")
    return FilesStore(os.path.expanduser(path))


_OPENERS: dict[str, Callable[[str], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "files": _files,
}
_KNOWN = "stores are memory:, sqlite:PATH, files:DIR, or a path that ends in .db"
