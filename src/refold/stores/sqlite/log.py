"""Logs, titles and bookmarks as rows: functions of a connection, inside the caller's transaction.

The place of an event is its rowid: the conversation's number above, its seq in the lower 40 bits.
There is no second index and no row that counts; head and chain are read from the last place in the
conversation's range. A fork owns the places above the seq at which it left; events below are found
by walking up to its ancestors, in a loop. Removing an event also removes the bookmarks and titles
derived from it, in forks as well. Neighbours: `store` calls, `damage` salvages rows,
`database_file` has the connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from refold.core.codec import REPAIR
from refold.core.model import Conversation, Event
from refold.errors import Corrupt, Unavailable
from refold.stores import checks
from refold.stores.sqlite import recent

SEQ_BITS = recent.SEQ_BITS
NUMBER_MAX = (1 << (63 - SEQ_BITS)) - 1

# Small columns come first: the head of a log is then read without the overflow pages of its body.
# SQLite keeps this text in the database: the backslashes break lines here, not there.
SCHEMA = f"""
CREATE TABLE conversations(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, \
parent INTEGER REFERENCES conversations,
    parent_seq INTEGER NOT NULL, parent_chain BLOB NOT NULL, title TEXT NOT NULL, \
at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX forks ON conversations(parent) WHERE parent IS NOT NULL;
CREATE TABLE events(
    place INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, chain BLOB NOT NULL, \
tokens INTEGER NOT NULL, kind TEXT NOT NULL,
    "by" TEXT NOT NULL, id TEXT NOT NULL, counter TEXT NOT NULL, digest BLOB NOT NULL, \
salt BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE TABLE bookmarks(number INTEGER PRIMARY KEY, bookmark BLOB NOT NULL) STRICT;
{recent.SCHEMA}
"""

_COLUMNS = 'at_ms, chain, tokens, kind, "by", id, counter, digest, salt, body'
_TYPES = (int, int, bytes, int, str, str, str, str, bytes, bytes, bytes)
_PLACED = f"SELECT place, {_COLUMNS} FROM events WHERE place > ? AND place <= ? "
_READ = _PLACED + "ORDER BY place LIMIT ?"
_INSERT = f"INSERT INTO events(place, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
# Check and insert in one statement, in an immediate transaction of its own: without the event
# before, or if another log was written last, `kind` is NULL and refused; with an event after, the
# place is taken. A SELECT instead of VALUES would copy the body once more.
_INSERT_NEXT = (
    f"INSERT INTO events(place, {_COLUMNS}) "
    "VALUES (?1, ?2, ?3, ?4, (SELECT ?5 FROM events WHERE place = ?1 - 1 AND "
    "(SELECT number FROM recent ORDER BY turn DESC LIMIT 1) = ?12), ?6, ?7, ?8, ?9, ?10, ?11)"
)
ROW = "SELECT number, parent, parent_seq, parent_chain, title FROM conversations "
_LIST = f"""
SELECT c.id, c.parent_seq, c.parent_chain, c.title, c.at_ms, p.id, e.place, e.chain, e.at_ms
FROM conversations c LEFT JOIN conversations p ON p.number = c.parent
LEFT JOIN events e ON e.place = (
    SELECT place FROM events
    WHERE place BETWEEN c.number << {SEQ_BITS} AND (c.number << {SEQ_BITS}) + {checks.SEQ_MAX}
    ORDER BY place DESC LIMIT 1)
"""
_HEAD = f"""
SELECT coalesce(
    (SELECT place & {checks.SEQ_MAX} FROM events
     WHERE place BETWEEN number << {SEQ_BITS} AND (number << {SEQ_BITS}) + {checks.SEQ_MAX}
     ORDER BY place DESC LIMIT 1),
    parent_seq)
FROM conversations WHERE id = ?
"""
_INSERT_CONVERSATION = (
    "INSERT INTO conversations(id, parent, parent_seq, parent_chain, title, at_ms) "
    "VALUES (?,?,?,?,?,?)"
)
RETITLE = "UPDATE conversations SET title = ? WHERE number = ?"
_METAS = _PLACED + "AND kind = 'meta' ORDER BY place DESC"


class Row(NamedTuple):
    """A conversation's row: its range of places, where it left its parent, and its title."""

    number: int
    parent: int | None
    parent_seq: int
    parent_chain: bytes
    title: str

    @property
    def base(self) -> int:
        """The place below the conversation's first: a seq added to it is the place of an event."""
        return self.number << SEQ_BITS


# --- conversations ---


def listed(connection: apsw.Connection, after: str, limit: int) -> list[Conversation]:
    """Conversations by id, those above `after`."""
    rows = connection.execute(_LIST + "WHERE c.id > ? ORDER BY c.id LIMIT ?", (after, limit))
    return [_conversation_of(row) for row in rows]


def numbered(connection: apsw.Connection, numbers: Sequence[int]) -> list[Conversation]:
    """The conversations with these numbers, in this order."""
    rows = (connection.execute(_LIST + "WHERE c.number = ?", (one,)).fetchone() for one in numbers)
    return [_conversation_of(row) for row in rows if row is not None]


def described(connection: apsw.Connection, conversation: str) -> Conversation | None:
    """One conversation; None if there is no such conversation."""
    row = connection.execute(_LIST + "WHERE c.id = ?", (conversation,)).fetchone()
    return None if row is None else _conversation_of(row)


def _conversation_of(row: Any) -> Conversation:
    id, parent_seq, parent_chain, title, at_ms, parent, place, chain, updated_ms = row
    head = parent_seq
    if place is None:
        chain, updated_ms = parent_chain, at_ms
    else:
        head = place & checks.SEQ_MAX
    return Conversation(
        id=id,
        head=head,
        chain=chain,
        title=title,
        parent=parent or "",
        parent_seq=parent_seq,
        at_ms=at_ms,
        updated_ms=updated_ms,
    )


def find(connection: apsw.Connection, conversation: str) -> Row | None:
    """The row of a conversation; None if there is no such conversation."""
    row = connection.execute(ROW + "WHERE id = ?", (conversation,)).fetchone()
    return None if row is None else Row(*row)


def row_of(connection: apsw.Connection, conversation: str) -> Row:
    """The row of a conversation, or NotFound."""
    row = find(connection, conversation)
    if row is None:
        raise checks.unknown(conversation)
    return row


def head(connection: apsw.Connection, row: Row) -> int:
    """The seq of the newest event."""
    query = "SELECT place FROM events WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1"
    bounds = row.base, row.base + checks.SEQ_MAX
    place: int | None = connection.execute(query, bounds).get
    return row.parent_seq if place is None else place & checks.SEQ_MAX


def head_by_id(connection: apsw.Connection, conversation: str) -> int | None:
    """The seq of the newest event; None if there is no such conversation."""
    found: int | None = connection.execute(_HEAD, (conversation,)).get
    return found


def upwards(connection: apsw.Connection, row: Row, last: int) -> Iterator[tuple[Row, int]]:
    """The conversation and its ancestors, each with the last seq to read from it."""
    while True:
        if last > row.parent_seq:
            yield row, last
        last = min(last, row.parent_seq)
        if row.parent is None or last == 0:
            return
        parent = connection.execute(ROW + "WHERE number = ?", (row.parent,)).fetchone()
        if parent is None:
            message = f"conversation {row.number} has lost its parent {row.parent}"
            raise Corrupt(message, hint=REPAIR)
        row = Row(*parent)


# --- reading ---


def span(connection: apsw.Connection, row: Row, after: int, last: int, limit: int) -> list[Event]:
    """Events with after < seq <= last, at most `limit`, whichever conversation holds them."""
    ranges = []
    for holder, end in upwards(connection, row, last):
        ranges.append((holder.base, max(after, holder.parent_seq), end))
        if holder.parent_seq <= after:
            break
    events: list[Event] = []
    for base, start, end in reversed(ranges):
        bounds = base + start, base + end, limit - len(events)
        try:
            events += map(event_of, connection.execute(_READ, bounds))
        except UnicodeDecodeError as error:
            seq = after + len(events) + 1
            raise Corrupt(f"event {seq}: its text is not UTF-8", hint=REPAIR) from error
    # A damaged page must not shorten a log silently.
    for seq, event in enumerate(events, after + 1):
        if event.seq != seq:
            raise Corrupt(f"event {seq} is missing before event {event.seq}", hint=REPAIR)
    return events


def event_of(row: Any) -> Event:
    if tuple(map(type, row)) != _TYPES:
        raise Corrupt(f"event {row[0] & checks.SEQ_MAX} is damaged", hint=REPAIR)
    place, at_ms, chain, tokens, kind, by, id, counter, digest, salt, body = row
    return Event(
        seq=place & checks.SEQ_MAX,
        id=id,
        at_ms=at_ms,
        by=by,
        kind=kind,
        body=body,
        salt=salt,
        digest=digest,
        chain=chain,
        tokens=tokens,
        counter=counter,
    )


# --- appending ---


def append_next(connection: apsw.Connection, number: int, events: Sequence[Event]) -> bool:
    """Writes events on top of the one before them. Returns False and writes nothing if the fast
    path does not apply."""
    try:
        connection.execute(_INSERT_NEXT, (*_values(number << SEQ_BITS, events[0]), number))
    except apsw.ConstraintError:
        return False
    if len(events) > 1:
        # Where there is room for the first there is room for all: a log has no gaps.
        insert(connection, number, events[1:])
    return True


def append_batch(
    connection: apsw.Connection, conversation: str, events: Sequence[Event], expect: int
) -> int:
    """Writes all events on top of head `expect`, or raises Conflict; returns the conversation's
    number."""
    row = find(connection, conversation)
    newest = head(connection, row) if row else 0
    if newest != expect:
        if row:
            kept = span(connection, row, events[0].seq - 1, events[-1].seq, len(events))
            if checks.is_repeat(kept, events):
                return row.number
        raise checks.moved(conversation, expect, newest)
    title = checks.title_in(events)
    if row is None:
        new = Row(0, None, 0, b"", title or "")
        number = _create(connection, conversation, new, events[0].at_ms)
    else:
        number = row.number
        if title is not None:
            connection.execute(RETITLE, (title, number))
    insert(connection, number, events)
    recent.take_turn(connection, number)
    return number


def insert(connection: apsw.Connection, number: int, events: Sequence[Event]) -> None:
    """Writes events at their places."""
    base = number << SEQ_BITS
    connection.executemany(_INSERT, [_values(base, event) for event in events])


def _values(base: int, event: Event) -> tuple[Any, ...]:
    return (
        base + event.seq,
        event.at_ms,
        event.chain,
        event.tokens,
        event.kind,
        event.by,
        event.id,
        event.counter,
        event.digest,
        event.salt,
        event.body,
    )


def _create(connection: apsw.Connection, conversation: str, row: Row, at_ms: int) -> int:
    """Writes a new row and returns its number. Numbers are never reused, so a number cached
    elsewhere cannot mean another log."""
    connection.execute(_INSERT_CONVERSATION, (conversation, *row[1:], at_ms))
    number = connection.last_insert_rowid()
    if number > NUMBER_MAX:
        message = f"the store has had {NUMBER_MAX:,} conversations, and has no room for more"
        raise Unavailable(message, hint="open another")
    return number


# --- forks and titles ---


def fork(connection: apsw.Connection, conversation: str, at: int, new: str) -> None:
    """A new row that shares the log up to `at`; no event is copied."""
    row = row_of(connection, conversation)
    newest = head(connection, row)
    if existing := find(connection, new):
        raise checks.taken(new, head(connection, existing))
    if not 1 <= at <= newest:
        raise checks.outside(conversation, at, newest)
    [left] = span(connection, row, at - 1, at, 1)
    # The current title, unless an event after the fork gave it.
    is_newer = next(_titles(connection, row, at, newest), None) is not None
    title = next(_titles(connection, row, 0, at), "") if is_newer else row.title
    number = _create(connection, new, Row(0, row.number, at, left.chain, title), left.at_ms)
    recent.take_turn(connection, number)


def _titles(connection: apsw.Connection, row: Row, after: int, last: int) -> Iterator[str]:
    """The titles given by events with after < seq <= last, newest first."""
    for holder, end in upwards(connection, row, last):
        start = max(after, holder.parent_seq)
        for found in connection.execute(_METAS, (holder.base + start, holder.base + end)):
            title = checks.title_in([event_of(found)])
            if title is not None:
                yield title
        if holder.parent_seq <= after:
            return


# --- removing ---

_READERS = """
WITH RECURSIVE readers(number) AS (
    VALUES (?) UNION SELECT c.number FROM conversations c JOIN readers ON c.parent = readers.number)
"""


def erase(connection: apsw.Connection, conversation: str, seq: int) -> None:
    """Empties the row of the event, and removes the bookmarks and the title derived from it."""
    row = row_of(connection, conversation)
    newest = head(connection, row)
    if not 1 <= seq <= newest:
        raise checks.no_event(conversation, seq, newest)
    holder, _ = next(upwards(connection, row, seq))
    [event] = span(connection, row, seq - 1, seq, 1)
    place = holder.base + seq
    connection.execute("UPDATE events SET body = x'', salt = x'' WHERE place = ?", (place,))
    drop_bookmarks(connection, holder)
    if checks.title_in([event]) is not None:
        retitle_readers(connection, holder)


def drop_bookmarks(connection: apsw.Connection, holder: Row) -> None:
    """Removes the bookmarks of the conversation and of its forks."""
    connection.execute(_READERS + "DELETE FROM bookmarks WHERE number IN readers", (holder.number,))
    places = (
        f"number BETWEEN r.number << {SEQ_BITS} AND (r.number << {SEQ_BITS}) + {checks.SEQ_MAX}"
    )
    found = f"SELECT b.number FROM readers r JOIN bookmarks b ON b.{places}"
    query = f"{_READERS}DELETE FROM bookmarks WHERE number IN ({found})"
    connection.execute(query, (holder.number,))


def retitle_readers(connection: apsw.Connection, holder: Row) -> None:
    """Sets the titles of the conversation and of its forks to those in their logs."""
    query = _READERS + ROW + "WHERE number IN readers"
    for row in [Row(*found) for found in connection.execute(query, (holder.number,))]:
        title = next(_titles(connection, row, 0, checks.SEQ_MAX), "")
        connection.execute(RETITLE, (title, row.number))


def delete(connection: apsw.Connection, conversation: str) -> None:
    """Removes the row, its events and its bookmark; Conflict while forks read from it."""
    row = row_of(connection, conversation)
    query = "SELECT id FROM conversations WHERE parent = ? LIMIT 1"
    fork: str | None = connection.execute(query, (row.number,)).get
    if fork is not None:
        raise checks.forked(conversation, fork, head(connection, row))
    delete_events(connection, row)
    bounds = row.number, row.base, row.base + checks.SEQ_MAX
    connection.execute("DELETE FROM bookmarks WHERE number = ? OR number BETWEEN ? AND ?", bounds)
    connection.execute("DELETE FROM conversations WHERE number = ?", (row.number,))
    recent.take_turn(connection, row.number, deleted=True)


def delete_newest(connection: apsw.Connection, conversation: str, size_bytes: int) -> bool:
    """Removes the newest events with bodies of about this size together, and so leaves a log that
    is whole; whether it holds more."""
    row = row_of(connection, conversation)
    bounds = row.base, row.base + checks.SEQ_MAX
    query = "SELECT place, length(body) FROM events WHERE place BETWEEN ? AND ? ORDER BY place DESC"
    first, size = None, 0
    for place, body_bytes in connection.execute(query, bounds):
        if size >= size_bytes:
            break
        first, size = place, size + body_bytes
    else:
        return False
    drop_bookmarks(connection, row)
    connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", (first, bounds[1]))
    recent.take_turn(connection, row.number)
    return True


def delete_events(connection: apsw.Connection, row: Row) -> None:
    """Removes the events that the conversation itself holds."""
    bounds = row.base, row.base + checks.SEQ_MAX
    connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", bounds)


# --- bookmarks ---

# The key of a conversation's latest bookmark is its number; of one for a place, the place, which is
# above all numbers.


def bookmark(connection: apsw.Connection, conversation: str, at: int | None) -> bytes | None:
    """The latest bookmark of a conversation, or the newest for a position up to `at`, which an
    ancestor may hold; None if there is none."""
    query = "SELECT bookmark FROM bookmarks JOIN conversations USING (number) WHERE id = ?"
    if at is None:
        found: bytes | None = connection.execute(query, (conversation,)).get
        return found
    row = find(connection, conversation)
    query = (
        "SELECT bookmark FROM bookmarks WHERE number BETWEEN ? AND ? ORDER BY number DESC LIMIT 1"
    )
    for holder, last in upwards(connection, row, at) if row else ():
        found = connection.execute(query, (holder.base, holder.base + last)).get
        if found is not None:
            return found
    return None


def keep_bookmark(
    connection: apsw.Connection, conversation: str, bookmark: bytes, at: int | None
) -> None:
    """Replaces the latest bookmark of a conversation, or the one for a position."""
    row = row_of(connection, conversation)
    key = row.number
    if at is not None:
        holder, _ = next(upwards(connection, row, at))
        key = holder.base + at
    query = (
        "INSERT INTO bookmarks VALUES (?,?) ON CONFLICT DO UPDATE SET bookmark = excluded.bookmark"
    )
    connection.execute(query, (key, bookmark))
