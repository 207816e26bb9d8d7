"""SQLite files that another program may have changed: how to open them, and how their schema
differs from ours.

SQLite runs parts of a schema: a view or a trigger acts for a table; a check, a default or a
generated column acts on new rows. A rollback journal may name another file, which SQLite deletes
after playing the journal back. `connect`, the only way to open a file, refuses such a journal and
turns off all that can be turned off; `difference` finds the rest. The owner of a schema passes its
SQL and decides what follows: a store is refused, a derived file is built again. Usually a schema
equals ours to the letter, which costs one lookup. Neighbours: `stores.sqlite.database_file`,
`search.database`.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import closing, suppress
from functools import cache

import apsw

from refold import decoding
from refold.checked import quoted
from refold.patterns import regex
from refold.system.disk import open_regular

MEMORY = ":memory:"
VALUE_BYTES_MAX = 64 * 1024 * 1024  # four times the largest event
WRITE = apsw.SQLITE_OPEN_READWRITE
CREATE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
READ = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
# The schema as one text: the kind, name and SQL of every entry, in the order of their creation.
LISTING = """
SELECT json_group_array(json_array(type, name, sql)) FROM sqlite_schema
WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""
_SPACES = regex(r"\s*([(),])\s*")


# SQLite puts this at the end of a rollback journal that names the journal of a transaction in
# several files. Nothing of refold writes several files in one transaction.
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")


class ForeignJournal(apsw.CorruptError):
    """A rollback journal with the name of another file, which SQLite would delete."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} names another file, which SQLite would delete")


def connect(path: str, flags: int) -> apsw.Connection:
    """A connection on which no view or trigger acts: refold has none. Its values have at most
    VALUE_BYTES_MAX; a larger one is refused before it is read. Raises ForeignJournal instead of
    letting SQLite play such a journal back."""
    if flags & WRITE and path != MEMORY:  # a reader plays none back
        _refuse_super_journal(os.path.realpath(path) + "-journal")
    connection = apsw.Connection(path, flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
    connection.pragma("cell_size_check", True)
    return connection


def _refuse_super_journal(path: str) -> None:
    # A journal of one file stays: it is what a crash left before a new database had its WAL.
    with suppress(FileNotFoundError), open_regular(path) as journal:
        size_bytes = os.fstat(journal.fileno()).st_size
        journal.seek(max(0, size_bytes - len(_SUPER_JOURNAL)))
        if journal.read(len(_SUPER_JOURNAL)) == _SUPER_JOURNAL:
            raise ForeignJournal(path)


@cache
def listing(sql: str) -> str:
    """The schema that this SQL creates."""
    with closing(connect(MEMORY, CREATE)) as made:
        made.execute(sql).fetchall()
        return str(made.execute(LISTING).get)


def difference(found: str, own: Collection[str]) -> str:
    """The first thing a schema has or lacks compared with our newest one, layout aside.

    Empty if it matches any of them.
    """
    if found in own:
        return ""
    there = _entries(found)
    ours = [_entries(schema) for schema in own]
    if there in ours:
        return ""
    extra = sorted(there - ours[-1])
    kind, name, _ = (extra or sorted(ours[-1] - there))[0]
    has = f"has a {kind} that refold did not make" if extra else f"has no {kind}"
    return f"{has}: {quoted(name, 60)}"


@cache
def _entries(schema: str) -> frozenset[tuple[str, ...]]:
    """The tables, indexes, views and triggers of a schema, their SQL without its layout."""
    entries = decoding.decode(schema, list[tuple[str, str, str | None]])
    return frozenset(
        (kind, name, _SPACES.sub(r"\1", " ".join((sql or "").split())))
        for kind, name, sql in entries
    )
