"""Which logs changed last: one row a conversation, written when it takes its turn as the newest.

A log that is the newest already appends without touching its row, so a program at work on one
conversation pays nothing. When another log is written, it takes the next turn, and the row of the
log before it is settled: it gets the time of its last event. So every row but the newest is exact,
and a list of the newest conversations, or of those that changed since a turn, reads only what it
returns. Turns are times in milliseconds, or one more than the last: they only grow, also in a
database that was restored from a copy or rebuilt. A deleted conversation leaves a row without a
time, so that others know; only the last of them is kept. All of it is derived from the other
tables. Neighbours: `log` writes the events, `store` asks.
"""

from __future__ import annotations

from typing import Any

import apsw

from refold.stores import checks

SEQ_BITS = 40
SCHEMA = """
CREATE TABLE recent(number INTEGER PRIMARY KEY, turn INTEGER NOT NULL, updated_ms INTEGER) STRICT;
CREATE UNIQUE INDEX turns ON recent(turn);
CREATE INDEX updates ON recent(updated_ms);
"""
TOP = "SELECT number, turn FROM recent ORDER BY turn DESC LIMIT 1"
_UPDATED = f"""
coalesce((
    SELECT e.at_ms FROM events e
    WHERE e.place BETWEEN c.number << {SEQ_BITS} AND (c.number << {SEQ_BITS}) + {checks.SEQ_MAX}
    ORDER BY e.place DESC LIMIT 1), c.at_ms)
"""
_SETTLE = f"""
UPDATE recent SET updated_ms = (SELECT {_UPDATED} FROM conversations c WHERE c.number = ?1)
WHERE number = ?1 AND updated_ms IS NOT NULL
"""
_TAKE = """
INSERT INTO recent VALUES (?1, ?2, ?3)
ON CONFLICT(number) DO UPDATE SET turn = excluded.turn, updated_ms = excluded.updated_ms
"""
_FILL = f"""
INSERT INTO recent SELECT c.number, ?1 + row_number() OVER (ORDER BY c.number), {_UPDATED}
FROM conversations c
"""
_NEWEST = """
SELECT r.number, r.updated_ms, c.id FROM recent r JOIN conversations c USING (number)
WHERE r.updated_ms <= ?1 AND (r.updated_ms < ?1 OR c.id > ?2)
ORDER BY r.updated_ms DESC, c.id LIMIT ?3
"""
_LIVE = f"SELECT c.number, {_UPDATED}, c.id FROM conversations c WHERE c.number = ?"
_SINCE = "SELECT number, turn, updated_ms IS NULL FROM recent WHERE turn >= ? ORDER BY turn LIMIT ?"

Place = tuple[int, str]  # the time of a conversation's last event, and its id


def take_turn(connection: apsw.Connection, number: int, *, deleted: bool = False) -> None:
    """Makes a conversation the newest one, in the transaction that writes or deletes it."""
    top = connection.execute(TOP).fetchone()
    if top is not None and top[0] == number and not deleted:
        return
    if top is not None:
        connection.execute(_SETTLE, (top[0],))
    if deleted:
        connection.execute("DELETE FROM recent WHERE updated_ms IS NULL")
    turn = max(checks.now_ms(), top[1] + 1 if top else 1)
    connection.execute(_TAKE, (number, turn, None if deleted else 0))


def is_known(connection: apsw.Connection) -> bool:
    """Whether the database has these rows: a reader may have one of an older version."""
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'recent'").get)


def fill(connection: apsw.Connection) -> None:
    """Creates all rows, for a database without any."""
    connection.execute(_FILL, (checks.now_ms(),))


def newest(connection: apsw.Connection, after: Place | None, limit: int) -> list[int]:
    """The numbers of the conversations written last, after a place in that order."""
    bound = after or (checks.SEQ_MAX << 22, "")
    top = connection.execute(TOP).fetchone()
    # The row of the newest is not settled yet.
    rows: list[Any] = connection.execute(_NEWEST, (*bound, limit + 1)).fetchall()
    if top is not None:
        rows = [row for row in rows if row[0] != top[0]]
        rows += connection.execute(_LIVE, (top[0],)).fetchall()
    ordered = sorted((-updated_ms, id, number) for number, updated_ms, id in rows)
    first = (-bound[0], bound[1])
    return [number for ms, id, number in ordered if (ms, id) > first][:limit]


def since(connection: apsw.Connection, turn: int, limit: int) -> tuple[int, list[int], bool]:
    """The last turn up to which this answers, the numbers of the conversations that may have
    changed from `turn` on, and whether others may be gone."""
    top = connection.execute(TOP).fetchone()
    if top is None:
        return 0, [], turn > 0
    if turn > top[1]:  # of another database
        return 0, [], True
    rows: list[Any] = connection.execute(_SINCE, (turn, limit)).fetchall()
    numbers = [number for number, _, is_deleted in rows if not is_deleted]
    # A deletion at `turn` itself was known by then.
    has_deleted = any(is_deleted and taken > turn for _, taken, is_deleted in rows)
    return rows[-1][1], numbers, has_deleted
