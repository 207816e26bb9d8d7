"""The fronts of all logs of a store: which conversation begins as a list of messages does.

A derived file of its own (`fronts.db`), because only those need it who follow other people's
histories. Nothing here is on the way of an append: asking catches up with the logs that grew since,
by the front that each ended with. What was deleted or erased leaves the file at once (`forget`).
Neighbours: `log.front` says what a front is, `conversations.recognition` asks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from refold.core.model import Conversation
from refold.log.front import Fronts, reader
from refold.log.trace import conversations
from refold.search import database
from refold.search.database import Form
from refold.stores import is_read_only
from refold.stores.protocol import Store

NAME = "fronts.db"
SCHEMA = """
CREATE TABLE logs(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, head INTEGER NOT NULL,
    chain BLOB NOT NULL, front BLOB NOT NULL
) STRICT;
CREATE TABLE fronts(
    front BLOB NOT NULL, log INTEGER NOT NULL, PRIMARY KEY (front, log)
) STRICT, WITHOUT ROWID;
CREATE INDEX of_log ON fronts(log);
"""
FORM = Form(application_id=0x72656679, version=1, schema=SCHEMA, table="fronts")  # "refy"


class Known(Struct, frozen=True):
    """How far a log was read: its head and chain then, and the front that it ended with."""

    number: int
    head: int
    chain: bytes
    front: bytes


class StoreFronts:
    """Asks for conversations by the fronts of a list."""

    def __init__(self, store: Store) -> None:
        self._store = store
        path = None if is_read_only(store) else store.derived_path(NAME)
        self._path = path or database.MEMORY
        with database.translated(self._path):
            self._connection, _ = database.connect(self._path, FORM)

    def close(self) -> None:
        self._connection.close(True)

    def longest(self, fronts: Sequence[bytes]) -> tuple[str, int] | None:
        """The conversation that has the most of a list, and how many messages that is; the one
        that was written to last, if several have as many. None if none has its first message."""
        with database.translated(self._path):
            there = self._catch_up()
            for length in range(len(fronts), 0, -1):
                found = [id for id in self._having(fronts[length - 1]) if id in there]
                if found:
                    return max(found, key=lambda id: (there[id].updated_ms, id)), length
        return None

    def _having(self, front: bytes) -> list[str]:
        query = "SELECT id FROM fronts JOIN logs ON logs.number = log WHERE fronts.front = ?"
        return [id for (id,) in self._connection.execute(query, (front,))]

    def forget(self, ids: Iterable[str] | None = None) -> None:
        """Takes conversations out of the file, or all of them: the logs have what is left."""
        with database.translated(self._path), database.transaction(self._connection):
            if ids is None:
                self._connection.execute("DELETE FROM fronts; DELETE FROM logs")
                return
            known = self._known()
            for id in known.keys() & set(ids):
                self._forget(known[id].number)

    # --- catching up ---

    def _catch_up(self) -> dict[str, Conversation]:
        """Reads what came since the last time; gives the conversations there are."""
        there = {about.id: about for about in conversations(self._store)}
        if self._is_behind(there, self._known()):
            with database.transaction(self._connection):
                self._follow(there, self._known())  # another caller may have been faster
        return there

    def _is_behind(self, there: Mapping[str, Conversation], known: Mapping[str, Known]) -> bool:
        is_gone = bool(known.keys() - there.keys())
        return is_gone or any(_is_behind(known.get(id), about) for id, about in there.items())

    def _follow(self, there: Mapping[str, Conversation], known: Mapping[str, Known]) -> None:
        for id in known.keys() - there.keys():
            self._forget(known[id].number)
        for id, about in there.items():
            if _is_behind(known.get(id), about):
                self._read(about, known.get(id))

    def _known(self) -> dict[str, Known]:
        query = "SELECT id, number, head, chain, front FROM logs"
        return {id: Known(*rest) for id, *rest in self._connection.execute(query)}

    def _read(self, about: Conversation, known: Known | None) -> None:
        is_continued = known is not None and known.head < about.head
        fronts = Fronts(known.front, known.head) if known and is_continued else Fronts()
        fronts.follow(reader(self._store, about.id), about.head)
        if known is not None and (not is_continued or fronts.begun != known.front):
            self._forget(known.number)  # it was read again from its beginning
            known = None
        number = self._mark(about, fronts, known)
        rows = [(front, number) for front in fronts.fronts]
        self._connection.executemany("INSERT OR IGNORE INTO fronts VALUES (?, ?)", rows)

    def _mark(self, about: Conversation, fronts: Fronts, known: Known | None) -> int:
        """Says how far the log was read; gives its number."""
        last = fronts.fronts[-1] if fronts.fronts else fronts.begun
        execute = self._connection.execute
        if known is None:
            query = "INSERT INTO logs(id, head, chain, front) VALUES (?, ?, ?, ?)"
            execute(query, (about.id, about.head, about.chain, last))
            return self._connection.last_insert_rowid()
        query = "UPDATE logs SET head = ?, chain = ?, front = ? WHERE number = ?"
        execute(query, (about.head, about.chain, last, known.number))
        return known.number

    def _forget(self, number: int) -> None:
        self._connection.execute("DELETE FROM fronts WHERE log = ?", (number,))
        self._connection.execute("DELETE FROM logs WHERE number = ?", (number,))


def _is_behind(known: Known | None, about: Conversation) -> bool:
    return known is None or (known.head, known.chain) != (about.head, about.chain)


def forget(store: Store, ids: Iterable[str] | None = None) -> None:
    """Takes conversations, or all of them, out of the file of fronts, if the store has one."""
    path = store.derived_path(NAME)
    if path is None or not os.path.isfile(path):
        return
    known = StoreFronts(store)
    try:
        known.forget(ids)
    finally:
        known.close()
