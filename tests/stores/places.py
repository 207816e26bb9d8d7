"""Places to try stores in: each gives a store on data of its own."""

from __future__ import annotations

import secrets
from pathlib import Path

from refold.core.model import Event
from refold.stores import Store, open_store
from refold.stores.contract.kit import grown
from refold.stores.in_memory import MemoryStore
from refold.stores.sqlite import SqliteStore


class MemoryPlace:
    url = ""

    def __init__(self, root: Path) -> None:
        self.store = MemoryStore()

    def open(self) -> Store:
        return self.store


class SqlitePlace:
    def __init__(self, root: Path) -> None:
        self.url = f"sqlite:{root / secrets.token_hex(4) / 'refold.db'}"

    def open(self) -> Store:
        store = open_store(self.url)
        assert isinstance(store, SqliteStore)
        return store


class HastySqlitePlace(SqlitePlace):
    """The same without any fsync of artifacts, for the clauses that put thousands."""

    def open(self) -> Store:
        return SqliteStore(self.url.removeprefix("sqlite:"), durable=False)


class FilesPlace:
    def __init__(self, root: Path) -> None:
        self.url = f"files:{root / secrets.token_hex(4)}"

    def open(self) -> Store:
        return open_store(self.url)


URLS = {"sqlite": "sqlite:{}/x.db", "files": "files:{}/tree"}


def url_in(folder: Path, kind: str) -> str:
    """The store of that kind in a folder."""
    return URLS[kind].format(folder)


def filled(path: Path, count: int = 5) -> list[Event]:
    """Makes a database with one log of `count` events, closes it, and gives the events."""
    store = SqliteStore(str(path))
    events = grown(store, "log", count)
    store.close()
    return events
