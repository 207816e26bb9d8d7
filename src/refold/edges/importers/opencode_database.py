"""The rows of opencode's database, session by session, and nothing of the file is changed.

Where a log of the writer lies beside it, SQLite reads both as they are; else the file alone is the
database. What the schema says is not trusted: no view, trigger or function of it is used, only
three tables with their own columns. Neighbours: `opencode` reads the messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from refold.edges.importers.lines import UNREADABLE
from refold.errors import Invalid

MAGIC = b"SQLite format 3\0"
CELL_BYTES_MAX = 64 << 20
STEPS_MAX = 2_000_000_000
_SESSIONS = "select id, parent_id, title, {revert} from session order by time_created, id"
_MESSAGES = "select id, data from message where session_id = ? order by time_created, id"
_PARTS = "select message_id, data from part where session_id = ? order by id"

Row = dict[str, Any]


def is_database(first: bytes) -> bool:
    """Whether a file that begins like this is a database."""
    return first.startswith(MAGIC)


def sessions(path: Path) -> Iterator[tuple[Row, list[Row]]]:
    """Each session, with its messages and their parts. Invalid if it is another database."""
    import apsw

    has_log = os.path.exists(f"{path}-wal")
    how = "mode=ro&readonly_shm=1" if has_log else "mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(f"file:{quote(str(path.absolute()))}?{how}", flags=flags)
    except apsw.Error as error:
        raise Invalid(f"{path} cannot be read: {error}", hint="refold import --list") from error
    try:
        _restrict(connection)
        asked = _SESSIONS.format(revert="revert" if _has_revert(connection) else "null")
        for id, parent, title, revert in connection.execute(asked).fetchall():
            about = {"id": id, "parentID": parent, "title": title, "revert": _object(revert)}
            yield about, _messages(connection, str(id))
    except apsw.Error as error:
        hint = "refold import --list shows what can be read"
        raise Invalid(f"{path} is no database of opencode: {error}", hint=hint) from error
    finally:
        connection.close()


def _restrict(connection: Any) -> None:
    import apsw

    connection.pragma("trusted_schema", False)
    connection.pragma("query_only", True)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, CELL_BYTES_MAX)
    left = iter(range(STEPS_MAX // 1_000_000))
    # A hostile database could keep a question busy for ever.
    connection.set_progress_handler(lambda: next(left, None) is None, 1_000_000)
    tables = dict(connection.execute("select name, type from sqlite_schema").fetchall())
    if any(tables.get(name) != "table" for name in ("session", "message", "part")):
        raise apsw.SQLError("the tables session, message and part are not there")


def _has_revert(connection: Any) -> bool:
    columns = connection.execute("select name from pragma_table_info('session')")
    return ("revert",) in columns.fetchall()


def _messages(connection: Any, session: str) -> list[Row]:
    parts: dict[str, list[Row]] = {}
    for message, data in connection.execute(_PARTS, (session,)):
        parts.setdefault(message, []).append(_object(data))
    return [
        {"info": {**_object(data), "id": id}, "parts": parts.get(id, [])}
        for id, data in connection.execute(_MESSAGES, (session,))
    ]


def _object(data: Any) -> Row:
    """A cell with a JSON object; what is none is kept under a kind of its own."""
    try:
        value = msgspec.json.decode(data) if isinstance(data, str | bytes) else None
    except UNREADABLE:
        value = None
    return value if isinstance(value, dict) else {"type": "unread", "data": str(data)[:10_000]}
