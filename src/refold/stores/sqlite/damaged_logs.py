"""What the rows of a log still hold, however damaged they are, and a sound log in their place.

Functions of a connection, each inside a transaction that its caller began. Rows are taken as they
lie; one that is missing leaves no trace here. What was there is kept in a file beside the database,
one row a line with its bytes in base64. Neighbours: `log` reads sound rows,
`conversations.repairer` judges what is found here.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence

import apsw
import msgspec

from refold.core.model import Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.protocol import Salvage
from refold.stores.sqlite import log, removal

# Texts as bytes: one that is not UTF-8 must not end the walk.
_READ = """
SELECT place, at_ms, chain, tokens, CAST(kind AS BLOB), CAST("by" AS BLOB), CAST(id AS BLOB),
       CAST(counter AS BLOB), digest, salt, body
FROM events WHERE place > ? AND place <= ? ORDER BY place
"""
_BEGIN_ANEW = """
UPDATE conversations SET parent = NULL, parent_seq = 0, parent_chain = x'', at_ms = ?
WHERE number = ?
"""
_IS_TEXT = (False, False, False, False, True, True, True, True, False, False, False)


def salvage(connection: apsw.Connection, conversation: str) -> Salvage:
    """What lies in the place of a log, and of its ancestors'."""
    about = log.described(connection, conversation)
    row = log.known(connection, conversation)
    assert about is not None, "the row was found"
    pieces: list[Event | str] = []
    for holder, last in log.upwards(connection, row, checks.SEQ_MAX):
        pieces[:0] = _pieces(connection, holder, last)
    return Salvage(pieces=tuple(pieces), parent=about.parent, parent_seq=about.parent_seq)


def _pieces(connection: apsw.Connection, holder: log.Row, last: int) -> Iterator[Event | str]:
    bounds = holder.base, holder.base + last
    for row in connection.execute(_READ, bounds):
        seq = row[0] & checks.SEQ_MAX
        try:
            yield log.event_of(tuple(map(_as_text, row, _IS_TEXT)))
        except (Corrupt, UnicodeDecodeError) as error:
            yield f"event {seq}: its row is damaged: {error}"


def _as_text(value: object, is_text: bool) -> object:
    return value.decode() if is_text and isinstance(value, bytes) else value


def rewrite(
    connection: apsw.Connection, conversation: str, events: Sequence[Event], after: int
) -> None:
    """Puts these events in place of the conversation's own rows."""
    row = log.known(connection, conversation)
    removal.delete_events(connection, row)
    if not after:
        connection.execute(_BEGIN_ANEW, (events[0].at_ms if events else 0, row.number))
    if events:
        log.insert(connection, row.number, events)
    elif not after:
        connection.execute("DELETE FROM conversations WHERE number = ?", (row.number,))
    removal.forget_derived(connection, row)


def keep_copy(path: str, seen: Salvage) -> None:
    """Writes what was there to a file for the owner alone."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.writelines(msgspec.json.encode(piece) + b"\n" for piece in seen.pieces)
        file.flush()
        os.fsync(fd)


def remove_copies(path: str) -> None:
    """Removes what was kept under this name: it may hold words that are to be gone."""
    for copy in glob.glob(f"{glob.escape(path)}*.jsonl"):
        os.unlink(copy)
