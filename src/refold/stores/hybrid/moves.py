"""Which logs a sync has put others in the place of, so that whoever holds one open finds out.

A log is replaced near when both sides grew: the old tail goes on in a fork, or on top of the new
one. `sync-moves.jsonl` has a line for each, written before the log is replaced, and it only grows:
its size says whether anything happened. `sync-moves.count` is another number after each, in memory
that all processes share: an append looks at it without a call of the system. The lock of the first
is shared by all who append and taken whole by whoever replaces, so no append ever lands on a log
that is not the one it was sealed for. A store without a place on the disk keeps the same in memory.
Neighbours: `store` asks, `exchange` replaces.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from mmap import ACCESS_READ, mmap
from os import SEEK_END, lseek

import msgspec
from msgspec import Struct

from refold import decoding
from refold.system import disk, process_fork

COUNT_BYTES = 8
NOTHING = b""


class Move(Struct, frozen=True, kw_only=True):
    """A log that was replaced, and where its old tail goes on: its own id if on top."""

    conversation: str
    goes_on: str


class _Count:
    """A number in a file of its own, which `shared` shows as it is now in any process."""

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)
        try:
            if os.fstat(self._fd).st_size < COUNT_BYTES:
                os.pwrite(self._fd, bytes(COUNT_BYTES), 0)
            self.shared = mmap(self._fd, COUNT_BYTES, access=ACCESS_READ)
        except OSError:
            os.close(self._fd)
            raise

    def grow(self) -> None:
        """Another number. Written by a call: memory cannot say that the disk is full."""
        number = int.from_bytes(self.shared[:COUNT_BYTES], "little") + 1
        os.pwrite(self._fd, number.to_bytes(COUNT_BYTES, "little"), 0)

    def close(self) -> None:
        self.shared.close()
        os.close(self._fd)


_DECODE = decoding.decoder(Move).decode


class Moves:
    """The moves of one near store. `path` is None for one that has no place on this disk; with
    `read_only` nothing is made there."""

    def __init__(self, path: str | None, *, read_only: bool = False) -> None:
        self._path, self._read_only = path, read_only
        self._lock = threading.RLock()
        self._fd, self._size = -1, 0
        self._count: _Count | None = None
        self._now: mmap | bytes = NOTHING  # the count as it is, and as it was looked at last
        self._counted = NOTHING
        self._known: dict[str, list[str]] = {}
        process_fork.watch(self)

    def of(self, conversation: str) -> list[str] | None:
        """Where the old tails of a log went on; None if it was never replaced."""
        fd = self._fd
        if fd < 0 or lseek(fd, 0, SEEK_END) != self._size:
            with self._lock:
                self._read_new()
        return self._known.get(conversation)

    def enter(self, conversation: str) -> bool:
        """Whether the log was ever replaced. None is until `leave`: an append is too quick for a
        context manager, or for asking twice."""
        self._lock.acquire()
        try:
            fd = self._fd
            if fd < 0:
                fd = self._opened()
            if fd >= 0:
                flock(fd, LOCK_SH)
                if self._now[:COUNT_BYTES] != self._counted:
                    self._count_new()
        except BaseException:
            self._lock.release()
            raise
        return conversation in self._known

    def leave(self) -> None:
        if self._fd >= 0:
            flock(self._fd, LOCK_UN)
        self._lock.release()

    @contextmanager
    def replacing(self, move: Move) -> Iterator[None]:
        """Nobody appends meanwhile, and everybody knows of the move afterwards."""
        with self._lock:
            fd = self._opened()
            if fd >= 0:
                flock(fd, LOCK_EX)
            try:
                self._write(move)
                yield
            finally:
                if fd >= 0:
                    flock(fd, LOCK_UN)

    # --- the file ---

    def _opened(self) -> int:
        """The descriptor, each process with its own; none while nothing was ever written."""
        if self._path is None or self._fd >= 0:
            return self._fd
        if not os.path.isdir(os.path.dirname(self._path)):
            return -1
        made = os.O_RDONLY if self._read_only else os.O_RDWR | os.O_CREAT | os.O_APPEND
        flags = made | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise disk.os_failure(error, f"cannot open {self._path}") from error
        if not self._read_only:
            self._count = self._opened_count(self._path, fd)
            self._now = self._count.shared
        self._fd = fd
        return fd

    def _opened_count(self, path: str, fd: int) -> _Count:
        try:
            return _Count(f"{path.removesuffix('.jsonl')}.count")
        except OSError as error:
            os.close(fd)
            raise disk.os_failure(error, f"cannot open the count beside {path}") from error

    def _count_new(self) -> None:
        """Reads what is new. The count is looked at first: what comes after it is new again."""
        self._counted = self._now[:COUNT_BYTES]
        self._read_new()

    def _read_new(self) -> None:
        fd = self._opened()
        if fd < 0 or (size := os.fstat(fd).st_size) == self._size:
            return
        text = os.pread(fd, size - self._size, self._size)
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                self._note(_DECODE(line))
            except msgspec.DecodeError:
                continue  # the half of a line whose writer was killed: it had replaced nothing yet
        self._size += len(whole)

    def _write(self, move: Move) -> None:
        fd = self._opened()
        if fd < 0:
            self._note(move)
            return
        assert self._count is not None, "whoever replaces may write"
        try:
            # The line before may be half of one.
            os.write(fd, b"\n" + msgspec.json.encode(move) + b"\n")
            self._count.grow()
        except OSError as error:
            raise disk.os_failure(error, f"cannot write {self._path}") from error

    def _note(self, move: Move) -> None:
        found = self._known.setdefault(move.conversation, [])
        if move.goes_on not in found:
            found.append(move.goes_on)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
            if self._count is not None:
                self._count.close()
            self._count, self._now, self._counted = None, NOTHING, NOTHING

    # The lock of a descriptor is shared with a forked child, which would let go of it for both.

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self.close()
            self._lock = threading.RLock()
        else:
            self._lock.release()
