"""The write-ahead log, and the one sync of it that makes every commit survive power loss.

Appends commit without a sync (they survive kill -9). Why one fdatasync of the -wal file is enough,
whatever other processes do:

  - A commit is in the WAL when `append` returns, and the WAL is valid up to its first torn frame.
    Syncing the file makes all frames durable, ours and those that others wrote before ours: all
    descriptors share one page cache.
  - A commit leaves the WAL only by a checkpoint. With synchronous=NORMAL that syncs the WAL, copies
    the pages, syncs the database, and only then lets a writer start the WAL again. What is no
    longer in the WAL is durable already, so a checkpoint between append and flush, here or in
    another process, changes nothing.
  - A new WAL is written over the old one, in the same file. The file is removed only when the last
    connection of all processes closes, and ours is open. If it is removed by hand, `Wal` notices
    within a second and raises.
  - After a failed sync the kernel may have dropped the pages, and would report success the next
    time. So the store ends there: it must be opened again, which reads what really is on the disk.

Only a foreign program that writes to the file with synchronous=OFF could break this. Neighbours:
`store` writes and flushes, `database_file` has the database file.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable

from refold.errors import RefoldError
from refold.system import disk, posix

WAL_CHECK_S = 1.0


class Flusher:
    """What was written and not yet synced, and whether the store has ended."""

    def __init__(self, path: str) -> None:
        self.guard = threading.RLock()
        self._path = path
        self._wal: Wal | None = None
        self._written = self._flushed = 0
        # Makes the error of a store that has ended: most are closed and never asked again.
        self._ended: Callable[[], RefoldError] | None = None

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def check_alive(self) -> None:
        if self._ended is not None:
            raise self._ended()

    def end(self, error: Callable[[], RefoldError]) -> None:
        """From now on the store raises this, unless it has ended before."""
        self._ended = self._ended or error

    def note_write(self) -> None:
        """Notes that there is something to sync. The descriptor is opened now, so that it sees
        every write error."""
        if self._wal is None:
            self._wal = Wal(self._path)
        self._written += 1

    def flush(self) -> None:
        with self.guard:
            written = self._written
            if written == self._flushed:
                return
            self.check_alive()
            assert self._wal is not None
            self._sync(self._wal)
            self._flushed = written

    def flush_unless_ended(self) -> None:
        if self._ended is None:
            self.flush()

    def _sync(self, wal: Wal) -> None:
        """Syncs the WAL. A sync that fails ends the store."""
        try:
            wal.sync()
        except OSError as error:
            doing = f"cannot sync {wal.path}; open the store again"
            ended = disk.os_failure(error, doing)
            self._ended = lambda: type(ended)(ended.message, hint=ended.hint)
            raise ended from error

    def close(self) -> None:
        """Lets go of the file; the next write takes it again."""
        with self.guard:
            wal, self._wal = self._wal, None
            if wal:
                wal.close()


class Wal:
    """A descriptor of our own to the write-ahead log, to sync it without asking SQLite.

    SQLite opens the file once per connection and keeps it; this is opened just after and closed
    with the connection, so both mean the same file. SQLite puts no locks on the -wal file, so
    closing it releases none.
    """

    def __init__(self, path: str) -> None:
        # SQLite follows a link to the database before it names the files beside it.
        self.path = os.path.realpath(path) + "-wal"
        self._new = True
        self._checked_s = time.monotonic() - WAL_CHECK_S
        self._fd = os.open(self.path, os.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW)

    def sync(self) -> None:
        """Makes every commit so far survive power loss."""
        if time.monotonic() - self._checked_s >= WAL_CHECK_S:
            self._check_in_place()
        disk.sync(self._fd)
        if self._new:
            disk.sync_folder(os.path.dirname(self.path))
            self._new = False

    def _check_in_place(self) -> None:
        """Notices that the file was removed by hand. Once a second: after a stat, Linux must write
        the file's times with the next commit, which made a turn cost a tenth more."""
        there, mine = os.stat(self.path), os.fstat(self._fd)
        if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            raise FileNotFoundError(
                errno.ENOENT, "the -wal file was replaced while the store was open"
            )
        self._checked_s = time.monotonic()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()
