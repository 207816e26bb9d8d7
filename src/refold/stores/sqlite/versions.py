"""Older layouts of the database, and the steps that lead from each to the next.

A database of an older version is copied beside itself first (`refold.db.v0`), whole, for the refold
that made it; then all steps are taken in one transaction, so that a process which dies in between
leaves it as it was. A reader has it migrated as well: the code knows one layout, the newest.
Neighbour: `file` asks.
"""

from __future__ import annotations

import os

import apsw

from refold.errors import Corrupt, RefoldError
from refold.system import disk

VERSION = 1
STEPS: dict[int, str] = {
    # from this version to the next. 0: the preview, which had neither titles nor bookmarks
    0: """
        ALTER TABLE conversations ADD COLUMN title TEXT NOT NULL DEFAULT '';
        CREATE TABLE bookmarks(number INTEGER PRIMARY KEY, bookmark BLOB NOT NULL) STRICT;
    """,
}


def migrate(connection: apsw.Connection, path: str, version: int) -> None:
    """Brings the database up to date. A copy of it as it was stays beside it."""
    _copy(connection, path, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        take_steps(connection)
        connection.execute("COMMIT")
    except apsw.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        said = f"{path} of version {version} cannot be brought to {VERSION}: {error}"
        raise Corrupt(said, hint="it was left as it was; a copy is beside it") from error


def take_steps(connection: apsw.Connection) -> None:
    # Another process may have done all this since we looked.
    for step in range(connection.pragma("user_version"), VERSION):
        connection.execute(STEPS[step]).fetchall()
    connection.execute(f"PRAGMA user_version={VERSION}").fetchall()


def _copy(connection: apsw.Connection, path: str, version: int) -> None:
    copy = f"{path}.v{version}"
    if os.path.exists(copy):
        return
    pending = f"{copy}.{os.getpid()}.tmp"
    try:
        os.close(os.open(pending, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection.execute("VACUUM INTO ?", (pending,))
        os.replace(pending, copy)
    except (apsw.Error, OSError) as error:
        raise _failure(error, path) from error


def _failure(error: apsw.Error | OSError, path: str) -> RefoldError:
    if isinstance(error, OSError):
        return disk.os_failure(error, f"cannot copy {path} before it is migrated")
    return Corrupt(f"cannot copy {path} before it is migrated: {error}", hint="refold verify")
