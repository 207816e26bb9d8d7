"""What `doctor` finds out about files and disks: who may read them, how much room there is, and
whether SQLite's write-ahead log works."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator

import apsw
from msgspec import Struct

FREE_BYTES_MIN = 200 * 1024 * 1024
FILE_MODE, FOLDER_MODE = 0o600, 0o700


class Finding(Struct, frozen=True, kw_only=True):
    """Something about this installation; `advice` says what to do if it is not as it should be."""

    name: str
    value: str
    advice: str = ""


def file_findings(path: str) -> Iterator[Finding]:
    """Who may read the files of a store. The folder is ours to judge only where we made it."""
    if not os.path.exists(path):
        yield Finding(name="file", value=f"{path} is made by the first append")
        return
    for name in (path, f"{path}-wal", f"{path}-shm"):
        yield from _mode_findings(name, FILE_MODE)
    folder = os.path.dirname(path)
    yield from _mode_findings(os.path.join(folder, "artifacts"), FOLDER_MODE)
    if os.path.basename(folder) == ".refold":
        yield from _mode_findings(folder, FOLDER_MODE)


def _mode_findings(path: str, wanted: int) -> Iterator[Finding]:
    """The mode of a file, if it exists."""
    if not os.path.exists(path):
        return
    mode = stat.S_IMODE(os.stat(path).st_mode)
    is_open = mode & ~wanted & 0o777
    advice = f"others can read it: chmod {wanted:o} '{path}'" if is_open else ""
    yield Finding(name=path, value=f"mode {mode:04o}", advice=advice)


def disk_findings(path: str) -> Iterator[Finding]:
    """Whether there is room where a store is, and whether it can be written to."""
    folder = _existing_folder(path)
    free_bytes = shutil.disk_usage(folder).free
    advice = "free some space" if free_bytes < FREE_BYTES_MIN else ""
    yield Finding(name="free space", value=f"{free_bytes / 1e9:.1f} GB", advice=advice)
    if not os.access(folder, os.W_OK | os.X_OK):
        advice = "only reading works: check the owner and the mode of the folder"
        yield Finding(name="writable", value=f"no: {folder}", advice=advice)
        return
    yield Finding(name="writable", value="yes")
    fault = wal_fault(folder)
    advice = "put the store on a local disk with --store" if fault else ""
    yield Finding(name="WAL", value=fault or "works here", advice=advice)


def _existing_folder(path: str) -> str:
    """The folder of a file, or the nearest one above it that exists."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def wal_fault(folder: str) -> str:
    """Why SQLite's write-ahead log does not work in a folder; empty if it does. Tried, because
    nothing else tells."""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".refold-doctor-") as scratch:
            mode = _journal_mode(os.path.join(scratch, "probe.db"))
    except (apsw.Error, OSError) as error:
        return str(error)
    return "" if mode == "wal" else f"SQLite uses {mode} instead"


def _journal_mode(path: str) -> str:
    """The journal mode that SQLite really uses for a new file when asked for WAL."""
    connection = apsw.Connection(path)
    try:
        mode = connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE probe(x); INSERT INTO probe VALUES (1)")
    finally:
        connection.close()
    return str(mode)
