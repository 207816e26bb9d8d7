"""A database whose pages are broken, written again with every row that can still be read.

SQLite refuses what it meets on a broken page, and a table with one can neither be read through nor
deleted from. Rows are found by their keys, so the walk goes on behind the break, and what it found
is put in the place of all pages at once. The broken database is kept as it was, until somebody
erases or deletes. A log whose row in `conversations` is lost gets another one. Neighbours: `store`
calls, `damaged_logs` judges the rows that are left.

What the rows of a log still hold, however damaged they are, and a sound log in their place.

Functions of a connection, each inside a transaction that its caller began. Rows are taken as they
lie; one that is missing leaves no trace here. What was there is kept in a file beside the database,
one row a line with its bytes in base64. Neighbours: `log` reads sound rows,
`conversations.repairer` judges what is found here.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import apsw
import msgspec

from refold.core.model import Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.protocol import Salvage
from refold.stores.sqlite import log

PLACE_MAX = (1 << 63) - 1
MAGIC, HEADER_BYTES = b"SQLite format 3\0", 100
LENGTHENED_MAX = 1_000  # a head that says more than so many times the size is broken itself
# Behind a break one key after the other is tried, then steps that grow: a page holds few events.
SINGLE_STEPS = 512
_TEXTS = {"id", "title", "kind", "by", "counter"}
_TABLES = {
    "conversations": "number id parent parent_seq parent_chain title at_ms",
    "events": "place at_ms chain tokens kind by id counter digest salt body",
    "bookmarks": "number bookmark",
}
_BY_INDEX = (
    "SELECT number, CAST(id AS BLOB) FROM conversations "
    "INDEXED BY sqlite_autoindex_conversations_1 ORDER BY id"
)
Values = tuple[Any, ...]


def lengthen(path: str) -> None:
    """Gives a file whose end is missing its length back, in empty pages: SQLite opens it then, and
    what they held is broken. Nothing is done to a file that is as long as it says."""
    try:
        with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
            header = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
            said = _said_bytes(header)
            if header.startswith(MAGIC) and size < said <= size * LENGTHENED_MAX:
                os.ftruncate(file.fileno(), said)
    except (FileNotFoundError, PermissionError):
        return  # whoever opens it says so in its own words


def _said_bytes(header: bytes) -> int:
    """The size that the head of a database says it has; 0 if it says nothing."""
    if len(header) < HEADER_BYTES:
        return 0
    page = int.from_bytes(header[16:18], "big")
    return (65_536 if page == 1 else page) * int.from_bytes(header[28:32], "big")


def is_broken(connection: apsw.Connection) -> bool:
    """Whether SQLite finds pages that are not in order."""
    try:
        return bool(connection.execute("PRAGMA quick_check(1)").get != "ok")
    except apsw.CorruptError:
        return True


def write_again(connection: apsw.Connection, copy: str, fresh: str) -> dict[str, int]:
    """Puts what can be read in place of the database, and what was there into the file `copy`.
    Gives the conversations that may have had more, and the last event that they have."""
    size = connection.pragma("page_size")
    _overwrite(apsw.Connection(copy), connection)
    new = apsw.Connection(fresh)
    try:
        new.execute(f"PRAGMA page_size={size}; PRAGMA journal_mode=OFF; {log.SCHEMA}").fetchall()
        for mark in ("application_id", "user_version"):
            new.pragma(mark, connection.pragma(mark))
        with new:
            ends = _fill(new, connection)
        with connection.backup("main", new, "main") as all_pages:
            all_pages.step()
    finally:
        new.close()
        os.unlink(fresh)
    return ends


def _overwrite(target: apsw.Connection, source: apsw.Connection) -> None:
    """Makes one database the same as another, page by page, and closes it. The file itself must not
    be opened: closing it would drop SQLite's locks."""
    try:
        with target.backup("main", source, "main") as all_pages:
            all_pages.step()
    finally:
        target.close()


def _fill(new: apsw.Connection, broken: apsw.Connection) -> dict[str, int]:
    """Copies all rows that can be read."""
    breaks: list[tuple[int, int]] = []
    ids: dict[int, str] = {}
    for row in _readable(broken, "conversations", []):
        if _insert(new, "conversations", row):
            ids[row[0]] = row[1].decode()
    nameless: dict[int, int] = {}
    for row in _readable(broken, "events", breaks):
        number = row[0] >> log.SEQ_BITS
        if number not in ids:
            nameless.setdefault(number, row[1])
        _insert(new, "events", row)
    ids |= _name_again(new, nameless, _indexed_ids(broken))
    for row in _readable(broken, "bookmarks", []):
        _insert(new, "bookmarks", row)
    return _ends(ids, breaks)


def _name_again(
    new: apsw.Connection, nameless: dict[int, int], known: dict[int, str]
) -> dict[int, str]:
    """Gives logs another row, by the number and the time of each; gives their ids."""
    ids = {number: known.get(number, f"recovered-{number}") for number in nameless}
    for number, at_ms in nameless.items():
        _insert(new, "conversations", (number, ids[number].encode(), None, 0, b"", b"", at_ms))
        log.retitle_readers(new, log.Row(number, None, 0, b"", ""))
    return ids


def _indexed_ids(broken: apsw.Connection) -> dict[int, str]:
    """The ids of conversations, which stand once more in an index."""
    ids: dict[int, str] = {}
    for order in ("ASC", "DESC"):
        # Whatever lies behind a break is found from the other end.
        with suppress(apsw.CorruptError, UnicodeDecodeError):
            for number, id in broken.execute(f"{_BY_INDEX} {order}"):
                ids[number] = id.decode()
    return ids


def _ends(ids: dict[int, str], breaks: list[tuple[int, int]]) -> dict[str, int]:
    """The last events of the conversations that end inside a break."""
    ends: dict[str, int] = {}
    for before, after in breaks:
        first, last = before >> log.SEQ_BITS, after >> log.SEQ_BITS
        for number in ids.keys() & range(first, last):
            ends[ids[number]] = before & checks.SEQ_MAX if number == first else 0
    return ends


def _readable(
    broken: apsw.Connection, table: str, breaks: list[tuple[int, int]]
) -> Iterator[Values]:
    """The rows of a table, in order, but for those on broken pages; `breaks` are the keys around
    them. Texts are given as bytes: one that is not UTF-8 must not end the walk."""
    names = _TABLES[table].split()
    columns = [f'CAST("{name}" AS BLOB)' if name in _TEXTS else f'"{name}"' for name in names]
    query = f'SELECT {", ".join(columns)} FROM {table} WHERE "{names[0]}" > ? ORDER BY 1'
    last = skipped = 0
    while last + skipped < PLACE_MAX:
        try:
            for row in broken.execute(query, (last + skipped,)):
                if skipped:
                    breaks.append((last, row[0]))
                last, skipped = row[0], 0
                yield row
            break
        except apsw.CorruptError:
            skipped = skipped + 1 if skipped < SINGLE_STEPS else 2 * skipped
    if skipped:
        breaks.append((last, PLACE_MAX))


def _insert(new: apsw.Connection, table: str, row: Values) -> bool:
    """Whether a row could be written: what was read may be of no use."""
    names = _TABLES[table].split()
    values = ["CAST(? AS TEXT)" if name in _TEXTS else "?" for name in names]
    columns = ", ".join(f'"{name}"' for name in names)
    try:
        new.execute(f"INSERT INTO {table}({columns}) VALUES ({', '.join(values)})", row)
    except (apsw.ConstraintError, apsw.MismatchError):
        return False
    return True


def remove_copies(path: str) -> None:
    """Removes the broken databases that were kept: they may hold words that are to be gone."""
    for copy in glob.glob(f"{glob.escape(path)}*.db"):
        os.unlink(copy)


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
    log.delete_events(connection, row)
    if not after:
        connection.execute(_BEGIN_ANEW, (events[0].at_ms if events else 0, row.number))
    if events:
        log.insert(connection, row.number, events)
    elif not after:
        connection.execute("DELETE FROM conversations WHERE number = ?", (row.number,))
    log.forget_derived(connection, row)


def keep_copy(path: str, seen: Salvage) -> None:
    """Writes what was there to a file for the owner alone."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.writelines(msgspec.json.encode(piece) + b"\n" for piece in seen.pieces)
        file.flush()
        os.fsync(fd)


def damaged_logs_remove_copies(path: str) -> None:
    """Removes what was kept under this name: it may hold words that are to be gone."""
    for copy in glob.glob(f"{glob.escape(path)}*.jsonl"):
        os.unlink(copy)
