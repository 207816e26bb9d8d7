"""Bookmarks as rows, one for each conversation: derived, and kept apart from the log.

Functions of a connection. Neighbours: `store` calls, `log` removes what no longer holds.
"""

from __future__ import annotations

import apsw

from refold.stores.sqlite import log


def kept(connection: apsw.Connection, conversation: str) -> bytes | None:
    """The bookmark of a conversation, if there is one."""
    query = "SELECT bookmark FROM bookmarks JOIN conversations USING (number) WHERE id = ?"
    found: bytes | None = connection.execute(query, (conversation,)).get
    return found


def keep(connection: apsw.Connection, conversation: str, bookmark: bytes) -> None:
    """Writes the bookmark in place of the one that was there."""
    query = (
        "INSERT INTO bookmarks VALUES (?,?) ON CONFLICT DO UPDATE SET bookmark = excluded.bookmark"
    )
    connection.execute(query, (log.known(connection, conversation).number, bookmark))
