"""Taking rows away: an event emptied, a conversation removed, and what was derived from them.

Functions of a connection, each inside a transaction that its caller began. Whoever reads a log,
its forks included, loses the bookmarks and titles that came from what is gone. Neighbours: `log`
has the rows, `store` and `damaged_logs` call.
"""

from __future__ import annotations

import apsw

from refold.stores import checks
from refold.stores.sqlite import log

_READERS = """
WITH RECURSIVE readers(number) AS (
    VALUES (?) UNION SELECT c.number FROM conversations c JOIN readers ON c.parent = readers.number)
"""


def erase(connection: apsw.Connection, conversation: str, seq: int) -> None:
    """Empties the one row that holds the event, and what was derived from it: bookmarks, and a
    title."""
    row = log.known(connection, conversation)
    newest = log.head(connection, row)
    if not 1 <= seq <= newest:
        raise checks.no_event(conversation, seq, newest)
    holder, _ = next(log.upwards(connection, row, seq))
    [event] = log.span(connection, row, seq - 1, seq, 1)
    place = holder.base + seq
    connection.execute("UPDATE events SET body = x'', salt = x'' WHERE place = ?", (place,))
    _drop_bookmarks(connection, holder)
    if checks.title_in([event]) is not None:
        retitle_readers(connection, holder)


def _drop_bookmarks(connection: apsw.Connection, holder: log.Row) -> None:
    """Removes the bookmarks of all who read the log."""
    connection.execute(_READERS + "DELETE FROM bookmarks WHERE number IN readers", (holder.number,))


def forget_derived(connection: apsw.Connection, holder: log.Row) -> None:
    """Removes what was derived from a log that is another one now."""
    _drop_bookmarks(connection, holder)
    retitle_readers(connection, holder)


def retitle_readers(connection: apsw.Connection, holder: log.Row) -> None:
    """Titles the conversation and its forks again, by what their logs say now."""
    query = _READERS + log.ROW + "WHERE number IN readers"
    for row in [log.Row(*found) for found in connection.execute(query, (holder.number,))]:
        title = log.title_up_to(connection, row, checks.SEQ_MAX)
        connection.execute(log.RETITLE, (title, row.number))


def delete(connection: apsw.Connection, conversation: str) -> None:
    """Removes the row, its events and its bookmark; Conflict while forks read from it."""
    row = log.known(connection, conversation)
    _check_no_fork(connection, conversation, row)
    delete_events(connection, row)
    connection.execute("DELETE FROM bookmarks WHERE number = ?", (row.number,))
    connection.execute("DELETE FROM conversations WHERE number = ?", (row.number,))


def delete_events(connection: apsw.Connection, row: log.Row) -> None:
    """Removes the events that the conversation itself holds."""
    bounds = row.base, row.base + checks.SEQ_MAX
    connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", bounds)


def _check_no_fork(connection: apsw.Connection, conversation: str, row: log.Row) -> None:
    query = "SELECT id FROM conversations WHERE parent = ? LIMIT 1"
    reader: str | None = connection.execute(query, (row.number,)).get
    if reader is not None:
        raise checks.forked(conversation, reader, log.head(connection, row))
