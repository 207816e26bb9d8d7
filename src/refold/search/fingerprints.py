"""The fronts of all logs in a store, by which to find the conversation that begins like a message
list.

They are kept in a derived file of their own (`fingerprints.db`), because only followers of external
histories need them. Nothing here delays an append: a query first catches up with the logs that
grew, from the last known front of each. Deleted and erased conversations are removed from the file
at once (`forget`). Neighbours: `log.fingerprints` defines a front, `edges` asks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from refold.core.model import Conversation
from refold.log.fingerprints import Fronts, reader
from refold.log.stored_logs import conversations
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
FORM = Form(application_id=0x72656679, version=1, schema=SCHEMA)  # "refy"
_HAVING = "SELECT id FROM fronts JOIN logs ON logs.number = log WHERE fronts.front = ?"


class LogMark(Struct, frozen=True):
    """The state of a log when it was last read: head, chain and last front."""

    number: int
    head: int
    chain: bytes
    front: bytes


class StoreFronts:
    """Finds conversations by the fronts of a message list."""

    def __init__(self, store: Store) -> None:
        self._store = store
        path = None if is_read_only(store) else store.derived_path(NAME)
        self._path = path or database.MEMORY
        with database.translated(self._path):
            self._connection, _ = database.connect(self._path, FORM)

    def close(self) -> None:
        database.close(self._connection)

    def longest(self, fronts: Sequence[bytes]) -> tuple[str, int] | None:
        """The conversation with the longest common beginning with a list, and its length in
        messages; of several, the one written last. None if no log has the first message."""
        with database.translated(self._path):
            there = self._catch_up()
            for length in range(len(fronts), 0, -1):
                rows = self._connection.execute(_HAVING, (fronts[length - 1],))
                found = [id for (id,) in rows if id in there]
                if found:
                    return max(found, key=lambda id: (there[id].updated_ms, id)), length
        return None

    def forget(self, ids: Iterable[str] | None = None) -> None:
        """Removes conversations, or all of them, from the file."""
        with database.translated(self._path), database.transaction(self._connection):
            if ids is None:
                self._connection.execute("DELETE FROM fronts; DELETE FROM logs")
                return
            known = self._known()
            for id in known.keys() & set(ids):
                self._forget(known[id].number)

    # --- catching up ---

    def _catch_up(self) -> dict[str, Conversation]:
        """Reads new events; returns all conversations of the store."""
        there = {about.id: about for about in conversations(self._store)}
        known = self._known()
        if known.keys() - there.keys() or _changed(there, known):
            with database.transaction(self._connection):
                known = self._known()  # another caller may have been faster
                for id in known.keys() - there.keys():
                    self._forget(known[id].number)
                for about in _changed(there, known):
                    self._read(about, known.get(about.id))
        return there

    def _known(self) -> dict[str, LogMark]:
        query = "SELECT id, number, head, chain, front FROM logs"
        return {id: LogMark(*rest) for id, *rest in self._connection.execute(query)}

    def _read(self, about: Conversation, known: LogMark | None) -> None:
        is_continued = known is not None and known.head < about.head
        fronts = Fronts(known.front, known.head) if known and is_continued else Fronts()
        fronts.follow(reader(self._store, about.id), about.head)
        if known is not None and (not is_continued or fronts.begun != known.front):
            self._forget(known.number)  # the log was read again from its start
            known = None
        last = fronts.fronts[-1] if fronts.fronts else fronts.begun
        execute = self._connection.execute
        if known is None:
            query = "INSERT INTO logs(id, head, chain, front) VALUES (?, ?, ?, ?)"
            execute(query, (about.id, about.head, about.chain, last))
            number = self._connection.last_insert_rowid()
        else:
            number = known.number
            query = "UPDATE logs SET head = ?, chain = ?, front = ? WHERE number = ?"
            execute(query, (about.head, about.chain, last, number))
        rows = [(front, number) for front in fronts.fronts]
        self._connection.executemany("INSERT OR IGNORE INTO fronts VALUES (?, ?)", rows)

    def _forget(self, number: int) -> None:
        self._connection.execute("DELETE FROM fronts WHERE log = ?", (number,))
        self._connection.execute("DELETE FROM logs WHERE number = ?", (number,))


def _changed(there: Mapping[str, Conversation], known: Mapping[str, LogMark]) -> list[Conversation]:
    """The conversations that changed since they were last read."""
    marks = {id: (mark.head, mark.chain) for id, mark in known.items()}
    return [about for id, about in there.items() if marks.get(id) != (about.head, about.chain)]


def forget(store: Store, ids: Iterable[str] | None = None) -> None:
    """Removes conversations, or all of them, from the store's file of fronts, if there is one."""
    path = store.derived_path(NAME)
    if path is None or not os.path.isfile(path):
        return
    known = StoreFronts(store)
    try:
        known.forget(ids)
    finally:
        known.close()
