"""Logs as rows: functions of a connection, each inside a transaction that its caller began.

The place of an event is its rowid: the conversation's number above, its seq in the lower 40 bits.
There is no second index and no row that counts; head and chain are those of the last place in the
conversation's range. A fork owns the places above the seq at which it left; what lies below is
found by walking up to its ancestors, in a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from refold.core.model import Conversation, Event
from refold.errors import Corrupt, NotFound, Unavailable
from refold.stores import checks as door

SEQ_BITS = 40
NUMBER_MAX = (1 << (63 - SEQ_BITS)) - 1

# Small columns come first: the head of a log is then read without the overflow pages of its body.
SCHEMA = """
CREATE TABLE conversations(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, parent INTEGER REFERENCES conversations,
    parent_seq INTEGER NOT NULL, parent_chain BLOB NOT NULL, title TEXT NOT NULL, at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX forks ON conversations(parent) WHERE parent IS NOT NULL;
CREATE TABLE events(
    place INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, chain BLOB NOT NULL, tokens INTEGER NOT NULL, kind TEXT NOT NULL,
    "by" TEXT NOT NULL, id TEXT NOT NULL, counter TEXT NOT NULL, digest BLOB NOT NULL, salt BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE TABLE bookmarks(number INTEGER PRIMARY KEY, bookmark BLOB NOT NULL) STRICT;
"""

_COLUMNS = 'at_ms, chain, tokens, kind, "by", id, counter, digest, salt, body'
_TYPES = (int, int, bytes, int, str, str, str, str, bytes, bytes, bytes)
_READ = (
    f"SELECT place, {_COLUMNS} FROM events WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
)
_INSERT = f"INSERT INTO events(place, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
# Check and insert in one statement, in an immediate transaction of its own: without the event
# before, `kind` is NULL and refused; with an event after, the place is taken. A SELECT instead of
# VALUES would copy the body once more.
_INSERT_NEXT = (
    f"INSERT INTO events(place, {_COLUMNS}) "
    "VALUES (?1, ?2, ?3, ?4, (SELECT ?5 FROM events WHERE place = ?1 - 1), ?6, ?7, ?8, ?9, ?10, ?11)"
)
_LINE = "SELECT number, parent, parent_seq, parent_chain, title FROM conversations "
_LIST = f"""
SELECT c.id, c.parent_seq, c.parent_chain, c.title, c.at_ms, p.id, e.place, e.chain, e.at_ms
FROM conversations c LEFT JOIN conversations p ON p.number = c.parent
LEFT JOIN events e ON e.place = (
    SELECT place FROM events WHERE place BETWEEN c.number << {SEQ_BITS} AND (c.number << {SEQ_BITS}) + {door.SEQ_MAX}
    ORDER BY place DESC LIMIT 1)
"""
_READERS = """
WITH RECURSIVE readers(number) AS (
    VALUES (?) UNION SELECT c.number FROM conversations c JOIN readers ON c.parent = readers.number)
"""


class Line(NamedTuple):
    """A conversation's row: its range of places, where it left its parent, and its title."""

    number: int
    parent: int | None
    parent_seq: int
    parent_chain: bytes
    title: str


def listed(connection: apsw.Connection, after: str, limit: int) -> list[Conversation]:
    """Conversations by id, those above `after`."""
    rows = connection.execute(_LIST + "WHERE c.id > ? ORDER BY c.id LIMIT ?", (after, limit))
    return [_conversation(row) for row in rows]


def described(connection: apsw.Connection, conversation: str) -> Conversation | None:
    """One conversation, if it is there."""
    row = connection.execute(_LIST + "WHERE c.id = ?", (conversation,)).fetchone()
    return None if row is None else _conversation(row)


def _conversation(row: Any) -> Conversation:
    id, parent_seq, parent_chain, title, at_ms, parent, place, chain, updated_ms = row
    own = place is not None
    return Conversation(
        id=id,
        head=place & door.SEQ_MAX if own else parent_seq,
        chain=chain if own else parent_chain,
        title=title,
        parent=parent or "",
        parent_seq=parent_seq,
        at_ms=at_ms,
        updated_ms=updated_ms if own else at_ms,
    )


def find(connection: apsw.Connection, conversation: str) -> Line | None:
    """The row of a conversation, if it is there."""
    query = _LINE + "WHERE id = ?"
    row = connection.execute(query, (conversation,)).fetchone()
    return None if row is None else Line(*row)


def known(connection: apsw.Connection, conversation: str) -> Line:
    """The row of a conversation, or NotFound."""
    line = find(connection, conversation)
    if line is None:
        raise door.unknown(conversation)
    return line


def head(connection: apsw.Connection, line: Line) -> int:
    """The seq of the newest event."""
    low = line.number << SEQ_BITS
    query = "SELECT place FROM events WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1"
    place: int | None = connection.execute(query, (low, low + door.SEQ_MAX)).get
    return line.parent_seq if place is None else place & door.SEQ_MAX


def _upwards(connection: apsw.Connection, line: Line, last: int) -> Iterator[tuple[Line, int]]:
    """The conversation and its ancestors, each with the last seq that is read from it."""
    query = _LINE + "WHERE number = ?"
    while True:
        if last > line.parent_seq:
            yield line, last
        last = min(last, line.parent_seq)
        if line.parent is None or last == 0:
            return
        row = connection.execute(query, (line.parent,)).fetchone()
        if row is None:
            raise Corrupt(
                f"conversation {line.number} has lost its parent {line.parent}",
                hint="refold verify",
            )
        line = Line(*row)


def span(connection: apsw.Connection, line: Line, after: int, last: int, limit: int) -> list[Event]:
    """Events with after < seq <= last, at most `limit`, whichever conversation holds them."""
    parts = []
    for holder, end in _upwards(connection, line, last):
        parts.append((holder.number << SEQ_BITS, max(after, holder.parent_seq), end))
        if holder.parent_seq <= after:
            break
    events: list[Event] = []
    for low, start, end in reversed(parts):
        events += map(
            _event, connection.execute(_READ, (low + start, low + end, limit - len(events)))
        )
    return dense(events, after)


def _event(row: Any) -> Event:
    if tuple(map(type, row)) != _TYPES:
        raise Corrupt(f"the event at place {row[0]} is damaged", hint="refold verify")
    place, at_ms, chain, tokens, kind, by, id, counter, digest, salt, body = row
    return Event(
        seq=place & door.SEQ_MAX,
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


def dense(events: list[Event], after: int) -> list[Event]:
    """The events themselves, if none is missing among them: a damaged page must not shorten a
    log silently."""
    for seq, event in enumerate(events, after + 1):
        if event.seq != seq:
            raise Corrupt(f"event {seq} is missing before event {event.seq}", hint="refold verify")
    return events


def append_next(connection: apsw.Connection, number: int, event: Event) -> bool:
    """Writes one event on top of the one before it. False, and nothing written, where that is
    not so simple."""
    try:
        connection.execute(_INSERT_NEXT, _row(number << SEQ_BITS, event))
    except apsw.ConstraintError:
        return False
    return True


def append_batch(
    connection: apsw.Connection, conversation: str, events: Sequence[Event], expect: int
) -> int:
    """Writes all events on top of head `expect`, or raises Conflict; gives the conversation's
    number."""
    line = find(connection, conversation)
    newest = head(connection, line) if line else 0
    if newest != expect:
        if line and _has(connection, line, events):
            return line.number
        raise door.moved(conversation, expect, newest)
    title = door.title_in(events)
    if line is None:
        line = Line(0, None, 0, b"", title or "")
        line = line._replace(number=create(connection, conversation, line, events[0].at_ms))
    elif title is not None:
        connection.execute(
            "UPDATE conversations SET title = ? WHERE number = ?", (title, line.number)
        )
    low = line.number << SEQ_BITS
    connection.executemany(_INSERT, [_row(low, event) for event in events])
    return line.number


def _row(low: int, event: Event) -> tuple[Any, ...]:
    return (
        low + event.seq,
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


def _has(connection: apsw.Connection, line: Line, events: Sequence[Event]) -> bool:
    """True if just these events are there already: a retry of an append whose answer was lost."""
    kept = span(connection, line, events[0].seq - 1, events[-1].seq, len(events))
    return [event.chain for event in kept] == [event.chain for event in events]


def create(connection: apsw.Connection, conversation: str, line: Line, at_ms: int) -> int:
    """A new row. Numbers are never used twice, so a number remembered elsewhere cannot mean
    another log."""
    query = "INSERT INTO conversations(id, parent, parent_seq, parent_chain, title, at_ms) VALUES (?,?,?,?,?,?)"
    connection.execute(query, (conversation, *line[1:], at_ms))
    number = connection.last_insert_rowid()
    if number > NUMBER_MAX:
        raise Unavailable(
            f"the store has had {NUMBER_MAX:,} conversations, and no room for more",
            hint="open another",
        )
    return number


def fork(connection: apsw.Connection, conversation: str, at: int, new: str) -> None:
    """A new row that shares the log up to `at`; no event is copied."""
    line = known(connection, conversation)
    newest = head(connection, line)
    if there := find(connection, new):
        raise door.taken(new, head(connection, there))
    if not 1 <= at <= newest:
        raise door.outside(conversation, at, newest)
    left = span(connection, line, at - 1, at, 1)[0]
    title = (
        line.title
        if next(_titles(connection, line, at, newest), None) is None
        else _title(connection, line, at)
    )
    create(connection, new, Line(0, line.number, at, left.chain, title), left.at_ms)


def _title(connection: apsw.Connection, line: Line, last: int) -> str:
    """The newest title in the log up to `last`."""
    return next(_titles(connection, line, 0, last), "")


def _titles(connection: apsw.Connection, line: Line, after: int, last: int) -> Iterator[str]:
    """The titles that events with after < seq <= last gave, newest first."""
    query = f"SELECT place, {_COLUMNS} FROM events WHERE place > ? AND place <= ? AND kind = 'meta' ORDER BY place DESC"
    for holder, end in _upwards(connection, line, last):
        low = holder.number << SEQ_BITS
        for row in connection.execute(query, (low + max(after, holder.parent_seq), low + end)):
            if (title := door.title_in([_event(row)])) is not None:
                yield title
        if holder.parent_seq <= after:
            return


def erase(connection: apsw.Connection, conversation: str, seq: int) -> None:
    """Empties the one row that holds the event, and what was derived from it: bookmarks, and a
    title."""
    line = known(connection, conversation)
    newest = head(connection, line)
    if not 1 <= seq <= newest:
        raise NotFound(f"{conversation!r} has no event {seq}", hint=f"its events are 1 to {newest}")
    holder, _ = next(_upwards(connection, line, seq))
    [event] = span(connection, line, seq - 1, seq, 1)
    place = (holder.number << SEQ_BITS) + seq
    connection.execute("UPDATE events SET body = x'', salt = x'' WHERE place = ?", (place,))
    connection.execute(_READERS + "DELETE FROM bookmarks WHERE number IN readers", (holder.number,))
    if door.title_in([event]) is not None:
        _retitle(connection, holder)


def _retitle(connection: apsw.Connection, holder: Line) -> None:
    query = _READERS + _LINE + "WHERE number IN readers"
    for line in [Line(*row) for row in connection.execute(query, (holder.number,))]:
        title = _title(connection, line, door.SEQ_MAX)
        connection.execute(
            "UPDATE conversations SET title = ? WHERE number = ?", (title, line.number)
        )


def delete(connection: apsw.Connection, conversation: str) -> None:
    """Removes the row, its events and its bookmark; Conflict while forks read from it."""
    line = known(connection, conversation)
    reader: str | None = connection.execute(
        "SELECT id FROM conversations WHERE parent = ? LIMIT 1", line[:1]
    ).get
    if reader is not None:
        raise door.forked(conversation, reader, head(connection, line))
    low = line.number << SEQ_BITS
    connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", (low, low + door.SEQ_MAX))
    connection.execute("DELETE FROM bookmarks WHERE number = ?", line[:1])
    connection.execute("DELETE FROM conversations WHERE number = ?", line[:1])


def bookmark(connection: apsw.Connection, conversation: str) -> bytes | None:
    query = "SELECT bookmark FROM bookmarks JOIN conversations USING (number) WHERE id = ?"
    found: bytes | None = connection.execute(query, (conversation,)).get
    return found


def keep_bookmark(connection: apsw.Connection, conversation: str, bookmark: bytes) -> None:
    query = (
        "INSERT INTO bookmarks VALUES (?,?) ON CONFLICT DO UPDATE SET bookmark = excluded.bookmark"
    )
    connection.execute(query, (known(connection, conversation).number, bookmark))
