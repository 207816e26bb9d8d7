"""The tables, and the migration of a database to the version that this code knows.

The version is part of the schema's name, so a process of another version finds no table at all, not
even on a connection that was open during the migration: it cannot write into an unknown layout.
Steps are taken in one transaction, under one advisory lock.

Every table begins with the org, and the tables of conversations with org and conversation; every
key begins with both: `tests/stores/test_postgres_statements.py` reads this file. Texts of callers
are stored as bytes, because PostgreSQL's text cannot contain NUL.

Every statement names its org, and row-level security is a second wall: a connection sees only the
rows of the org that it is set to, whatever it queries. Neighbours: `statements` has the queries,
`connections` calls `prepare`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refold.errors import Unavailable
from refold.stores import checks

VERSION = 2
NAME = f"refold_{VERSION}"
LOCK = 0x7265666F6C64  # "refold": the advisory lock of all who create or migrate

ORG = "refold.org"  # the connection setting with the org whose rows it sees

# `chain`, `updated_ms` and `head` come from the newest event, in a fork without own events from the
# event at which it left.
TABLES = f"""
CREATE TABLE {NAME}.conversations(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, head bigint NOT NULL,
    chain bytea NOT NULL, title bytea NOT NULL, parent text COLLATE "C" NOT NULL,
    parent_seq bigint NOT NULL, at_ms bigint NOT NULL, updated_ms bigint NOT NULL,
    PRIMARY KEY (org, conversation)
) WITH (fillfactor = 70);
CREATE TABLE {NAME}.forks(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL,
    fork text COLLATE "C" NOT NULL, fork_seq bigint NOT NULL,
    PRIMARY KEY (org, conversation, fork)
);
CREATE TABLE {NAME}.events(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, seq bigint NOT NULL,
    at_ms bigint NOT NULL, tokens bigint NOT NULL, chain bytea NOT NULL, kind bytea NOT NULL,
    author bytea NOT NULL, id bytea NOT NULL, counter bytea NOT NULL, digest bytea NOT NULL,
    salt bytea NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (org, conversation, seq)
);
CREATE TABLE {NAME}.bookmarks(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, bookmark bytea NOT NULL,
    PRIMARY KEY (org, conversation)
);
CREATE TABLE {NAME}.damaged(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL,
    stamp text COLLATE "C" NOT NULL, pieces bytea NOT NULL,
    PRIMARY KEY (org, conversation, stamp)
);
CREATE TABLE {NAME}.contents(
    org text COLLATE "C" NOT NULL, digest bytea NOT NULL, size_bytes bigint NOT NULL,
    put_ms bigint NOT NULL,
    PRIMARY KEY (org, digest)
);
CREATE TABLE {NAME}.chunks(
    org text COLLATE "C" NOT NULL, digest bytea NOT NULL, number bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (org, digest, number)
);
CREATE TABLE {NAME}.search_marks(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, head bigint NOT NULL,
    chain bytea NOT NULL, parent text COLLATE "C" NOT NULL, parent_seq bigint NOT NULL,
    PRIMARY KEY (org, conversation)
);
CREATE TABLE {NAME}.search_lanes(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, lane bigint NOT NULL,
    entries bigint NOT NULL, context_words double precision NOT NULL,
    PRIMARY KEY (org, conversation, lane)
);
CREATE TABLE {NAME}.search_authors(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, author bytea NOT NULL,
    entries bigint NOT NULL,
    PRIMARY KEY (org, conversation, author)
);
CREATE TABLE {NAME}.search_entries(
    org text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, lane bigint NOT NULL,
    position bigint NOT NULL, seq bigint NOT NULL, at_ms bigint NOT NULL, words bigint NOT NULL,
    role bytea NOT NULL, tools bytea NOT NULL, author bytea NOT NULL, start bigint NOT NULL,
    asks boolean NOT NULL, is_own boolean NOT NULL, terms tsvector NOT NULL,
    PRIMARY KEY (org, conversation, lane, position)
);
CREATE INDEX search_terms ON {NAME}.search_entries USING gin (terms);
CREATE INDEX search_seqs ON {NAME}.search_entries (org, conversation, seq);
"""

# Entries are readable for all: behind a wall the database would not use the index of terms, because
# it cannot know that comparing terms leaks nothing. Each term is marked with its org.
_SEEN_BY_ALL = ("search_entries",)
_WALLED = (
    "conversations", "forks", "events", "bookmarks", "damaged", "contents", "chunks",
    "search_marks", "search_lanes", "search_authors", *_SEEN_BY_ALL,
)  # fmt: skip


def walls(name: str) -> str:
    """The statements for row-level security on the tables of a schema, also for their owner."""
    own = f"org = current_setting('{ORG}', true)"
    lines = []
    for table in _WALLED:
        lines.append(f"ALTER TABLE {name}.{table} ENABLE ROW LEVEL SECURITY;")
        lines.append(f"ALTER TABLE {name}.{table} FORCE ROW LEVEL SECURITY;")
        if table not in _SEEN_BY_ALL:
            lines.append(f"CREATE POLICY own ON {name}.{table} USING ({own});")
            continue
        lines.append(f"CREATE POLICY seen ON {name}.{table} FOR SELECT USING (true);")
        lines.append(f"CREATE POLICY new ON {name}.{table} FOR INSERT WITH CHECK ({own});")
        lines.append(f"CREATE POLICY gone ON {name}.{table} FOR DELETE USING ({own});")
    return "\n".join(lines)


# From a version to the next. The schema has its new name by then.
STEPS: dict[int, str] = {1: walls("refold_2")}

# After many insertions: every search would read the entries pending for the index of terms, and
# without statistics the server considers a scan of all rows cheaper than that index.
CLEAN = f"""
SELECT gin_clean_pending_list(c.oid) FROM pg_catalog.pg_class c
WHERE c.oid = '{NAME}.search_terms'::regclass AND pg_has_role(c.relowner, 'MEMBER')
"""
ANALYZE = f"ANALYZE (SKIP_LOCKED) {NAME}.search_entries"

# Superusers, and roles with BYPASSRLS, pass every wall.
PASSES_WALLS = """
SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
_VERSIONS = r"""
SELECT substr(s.nspname, 8)::bigint FROM pg_catalog.pg_namespace s
JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid AND c.relname = 'conversations'
WHERE s.nspname ~ '^refold_[0-9]{1,9}$' ORDER BY 1 DESC LIMIT 1
"""
_HAS_SCHEMA = "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = %s"
_LOCKED = "SELECT pg_advisory_xact_lock(%s)"

Execute = Callable[..., Any]  # `execute` of a connection: returns a cursor


def version_of(execute: Execute) -> int | None:
    """The version of the tables in a database; None without tables."""
    row = execute(_VERSIONS).fetchone()
    return None if row is None else int(row[0])


def check_version(version: int, place: str) -> None:
    """Raises an error for tables of another version."""
    if version > VERSION:
        raise checks.too_new(place, version, VERSION)
    if version < VERSION:
        message = f"{place} has version {version}, and reading does not bring it to {VERSION}"
        raise Unavailable(message, hint="open it to write once, with this refold")


def prepare(execute: Execute, place: str) -> None:
    """Creates the tables, or migrates older ones, inside the caller's transaction."""
    execute(_LOCKED, (LOCK,))
    # Another process may have done this in the meantime.
    version = version_of(execute)
    if version is None:
        # A role without the right to create schemas may have been given an empty one.
        if not execute(_HAS_SCHEMA, (NAME,)).fetchone()[0]:
            execute(f"CREATE SCHEMA {NAME}")
        execute(TABLES)
        execute(walls(NAME))
    elif version > VERSION:
        check_version(version, place)
    else:
        for step in range(version, VERSION):
            execute(f"ALTER SCHEMA refold_{step} RENAME TO refold_{step + 1}")
            execute(STEPS[step])
