"""A damaged database: its readable rows, and a sound database or log in its place.

SQLite refuses any access to a broken page, so a table with one can neither be read to its end nor
deleted from. Rows are found by their keys, so the walk continues after the break, and the rows it
found replace all pages at once; a log that lost its row in `conversations` gets a new one. Rows
with wrong values are salvaged one by one; a missing row goes unnoticed here. The broken database,
or the rows of a log before its repair, stay in a file until something is erased or deleted.
Neighbours: `store` calls, `log` reads sound rows, `conversations.repairer` judges the salvaged
ones.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

import apsw
import msgspec

from refold.core.model import Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.protocol import Salvage
from refold.stores.sqlite import log, recent
from refold.system import posix, sqlite_file

PLACE_MAX = (1 << 63) - 1
MAGIC, HEADER_BYTES = b"SQLite format 3\0", 100
LENGTHENED_MAX = 1_000  # a header that claims a larger multiple of the size is broken itself
# After a break every next key is tried, then keys in growing steps: a page holds few events.
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
    """Extends a truncated database file with empty pages up to the size in its header, so that
    SQLite opens it; the missing pages are broken then."""
    try:
        with open(os.open(path, os.O_RDWR | posix.O_NOFOLLOW | posix.O_CLOEXEC), "r+b") as file:
            header = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
            if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
                return
            page_bytes, pages = (
                int.from_bytes(header[a:b], "big") for a, b in ((16, 18), (28, 32))
            )
            claimed = (65_536 if page_bytes == 1 else page_bytes) * pages
            if size < claimed <= size * LENGTHENED_MAX:
                os.ftruncate(file.fileno(), claimed)
    except (FileNotFoundError, PermissionError):
        return  # opening the database raises the error


def is_broken(connection: apsw.Connection) -> bool:
    """Whether SQLite finds broken pages."""
    try:
        return bool(connection.execute("PRAGMA quick_check(1)").get != "ok")
    except apsw.CorruptError:
        return True


def rebuild(connection: apsw.Connection, copy: str, fresh: str) -> dict[str, int]:
    """Replaces the database by its readable rows, after copying it to the file `copy`. Returns the
    conversations that may have had more events, each with the last event it has now."""
    size = connection.pragma("page_size")
    # The file itself must not be opened: closing it would drop SQLite's locks.
    with (
        closing(sqlite_file.connect(copy, sqlite_file.CREATE)) as target,
        target.backup("main", connection, "main") as all_pages,
    ):
        all_pages.step()
    new = sqlite_file.connect(fresh, sqlite_file.CREATE)
    try:
        new.execute(f"PRAGMA page_size={size}; PRAGMA journal_mode=OFF; {log.SCHEMA}").fetchall()
        for mark in ("application_id", "user_version"):
            new.pragma(mark, connection.pragma(mark))
        with new:
            ends = _fill(new, connection)
            recent.fill(new)
        with connection.backup("main", new, "main") as all_pages:
            all_pages.step()
    finally:
        new.close()
        os.unlink(fresh)
    return ends


def _fill(new: apsw.Connection, broken: apsw.Connection) -> dict[str, int]:
    """Copies all readable rows; returns the last events of the logs that may have had more."""
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
    ends: dict[str, int] = {}
    for before, after in breaks:
        first, last = before >> log.SEQ_BITS, after >> log.SEQ_BITS
        for number in ids.keys() & range(first, last):
            ends[ids[number]] = before & checks.SEQ_MAX if number == first else 0
    return ends


def _name_again(
    new: apsw.Connection, nameless: dict[int, int], known: dict[int, str]
) -> dict[int, str]:
    """Writes new rows for logs that lost theirs, by number and time; returns their ids."""
    ids = {number: known.get(number, f"recovered-{number}") for number in nameless}
    for number, at_ms in nameless.items():
        _insert(new, "conversations", (number, ids[number].encode(), None, 0, b"", b"", at_ms))
        log.retitle_readers(new, log.Row(number, None, 0, b"", ""))
    return ids


def _indexed_ids(broken: apsw.Connection) -> dict[int, str]:
    """The conversation ids in the index, which repeats those in the table."""
    ids: dict[int, str] = {}
    for order in ("ASC", "DESC"):
        # Ids after a break are found from the other end.
        with suppress(apsw.CorruptError, UnicodeDecodeError):
            for number, id in broken.execute(f"{_BY_INDEX} {order}"):
                ids[number] = id.decode()
    return ids


def _readable(
    broken: apsw.Connection, table: str, breaks: list[tuple[int, int]]
) -> Iterator[Values]:
    """The rows of a table, in order, except those on broken pages; the keys around those are added
    to `breaks`. Text is read as bytes, because text that is not UTF-8 must not end the walk."""
    names = _TABLES[table].split()
    columns = [f'CAST("{name}" AS BLOB)' if name in _TEXTS else f'"{name}"' for name in names]
    query = f'SELECT {", ".join(columns)} FROM {table} WHERE "{names[0]}" > ? ORDER BY 1'
    last = skipped = 0
    while last + skipped < PLACE_MAX:
        try:
            for row in broken.execute(query, (last + skipped,)):
                if row[0] <= last + skipped:
                    continue  # a broken page has led back
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
    """Writes a row; False if its values are unusable."""
    names = _TABLES[table].split()
    values = ["CAST(? AS TEXT)" if name in _TEXTS else "?" for name in names]
    columns = ", ".join(f'"{name}"' for name in names)
    try:
        new.execute(f"INSERT INTO {table}({columns}) VALUES ({', '.join(values)})", row)
    except (apsw.ConstraintError, apsw.MismatchError):
        return False
    return True


# --- one log ---

_READ = """
SELECT place, at_ms, chain, tokens, CAST(kind AS BLOB), CAST("by" AS BLOB), CAST(id AS BLOB),
       CAST(counter AS BLOB), digest, salt, body
FROM events WHERE place > ? AND place <= ? ORDER BY place
"""
_DETACH = """
UPDATE conversations SET parent = NULL, parent_seq = 0, parent_chain = x'', at_ms = ?
WHERE number = ?
"""
_IS_TEXT = (False, False, False, False, True, True, True, True, False, False, False)


def salvage(connection: apsw.Connection, conversation: str) -> Salvage:
    """The rows of a log and of its ancestors: each an event, or a message that describes the
    damage."""
    about = log.described(connection, conversation)
    row = log.row_of(connection, conversation)
    assert about is not None, "the row was found"
    pieces: list[Event | str] = []
    for holder, last in log.upwards(connection, row, checks.SEQ_MAX):
        pieces[:0] = _pieces(connection, holder, last)
    return Salvage(pieces=tuple(pieces), parent=about.parent, parent_seq=about.parent_seq)


def _pieces(connection: apsw.Connection, holder: log.Row, last: int) -> Iterator[Event | str]:
    for row in connection.execute(_READ, (holder.base, holder.base + last)):
        try:
            values = (
                value.decode() if is_text and isinstance(value, bytes) else value
                for value, is_text in zip(row, _IS_TEXT, strict=True)
            )
            yield log.event_of(tuple(values))
        except (Corrupt, UnicodeDecodeError) as error:
            yield f"event {row[0] & checks.SEQ_MAX}: its row is damaged: {error}"


def rewrite(
    connection: apsw.Connection, conversation: str, events: Sequence[Event], after: int
) -> None:
    """Replaces the conversation's own rows by these events."""
    row = log.row_of(connection, conversation)
    log.delete_events(connection, row)
    if not after:
        connection.execute(_DETACH, (events[0].at_ms if events else 0, row.number))
    if events:
        log.insert(connection, row.number, events)
    elif not after:
        connection.execute("DELETE FROM conversations WHERE number = ?", (row.number,))
    recent.take_turn(connection, row.number, deleted=not (events or after))
    log.drop_bookmarks(connection, row)
    log.retitle_readers(connection, row)


def write_copy(path: str, seen: Salvage) -> None:
    """Writes salvaged pieces to a new file that only its owner can read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | posix.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.writelines(msgspec.json.encode(piece) + b"\n" for piece in seen.pieces)
        file.flush()
        os.fsync(fd)


def remove_files(prefix: str, suffix: str) -> None:
    """Removes all files whose paths begin and end like this."""
    for path in glob.glob(f"{glob.escape(prefix)}*{suffix}"):
        os.unlink(path)
