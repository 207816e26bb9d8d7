"""What is known of the last sync: where each conversation stood, and why one is blocked.

It lies in `sync.json` beside the near store and may be lost: the next sync compares heads and makes
it again. Whoever changes it holds its lock (`locked`) from reading to writing, and asks nobody far
meanwhile. `standing` says by it, and by what was appended since, how a conversation stands.
Neighbours: `rounds` keeps it, `store` tells of it.

Which logs a sync has put others in the place of, so that whoever holds one open finds out.

A log is replaced near when both sides grew: the old tail goes on in a fork, or on top of the new
one. `sync-moves.jsonl` has a line for each, written before the log is replaced, and it only grows:
its size says whether anything happened. `sync-moves.count` is another number after each, in memory
that all processes share: an append looks at it without a call of the system. The lock of the first
is shared by all who append and taken whole by whoever replaces, so no append ever lands on a log
that is not the one it was sealed for. A store without a place on the disk keeps the same in memory.
Neighbours: `store` asks, `exchange` replaces.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from mmap import ACCESS_READ, mmap
from os import SEEK_END, lseek

import msgspec
from msgspec import Struct, field

from refold import decoding
from refold.core.model import Conversation
from refold.display import number
from refold.errors import RefoldError, sentence
from refold.stores.protocol import WAITING, Synced, SyncMark, SyncState
from refold.system import disk, process_fork

HOST_CHARS = 40
_NO_NAME = re.compile(r"[^A-Za-z0-9-]+")


class ConversationState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a conversation stands: `pending` events that the far store has not, `synced`, `forked`
    into `fork`, `blocked` for a `reason`, or `held` back because it has a secret. `head` is where
    both sides were the same last. What a conversation was forked into once stays here. `missing`
    are the events whose artifacts were on neither side, `lost` is how many events the far store had
    and was found to have no more."""

    state: SyncState
    pending: int = 0
    head: int = 0
    fork: str = ""
    reason: str = ""
    at_ms: int = 0
    missing: tuple[int, ...] = ()
    lost: int = 0


class DeviceState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a device said last, and the chain of its log then."""

    name: str
    at_ms: int
    number: int
    chain: bytes
    mark: str = ""
    is_forgotten: bool = False


class Record(Struct, kw_only=True):
    """All that is kept: the name of this device, how each conversation stands with the far store,
    and what was deleted here, which is not fetched again unless somebody asks for it. `is_refused`:
    the far store was reached at the last sync, and let nobody in. `place` is where the record was
    written: a copy of it elsewhere is that of another device. `devices` are those that sync with
    the far store, by their logs; `told` and `told_mark` what this one said last."""

    device: str
    place: str = ""
    far: str = ""
    at_ms: int = 0
    reason: str = ""
    is_refused: bool = False
    conversations: dict[str, ConversationState] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    devices: dict[str, DeviceState] = field(default_factory=dict)
    told: int = 0
    told_mark: str = ""


@contextmanager
def locked(path: str | None) -> Iterator[None]:
    """Nobody else changes the record meanwhile, in this process or another."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        yield
        return
    with lock_file(f"{path}.lock") as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield


@contextmanager
def lock_file(path: str) -> Iterator[int]:
    """The descriptor of a file that is only there to be locked; closed, and so let go, at the
    end."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise disk.os_failure(error, f"cannot open {path}") from error
    with disk.closing(fd):
        yield fd


def read(path: str | None, far: str) -> Record:
    """The record of syncs with a far store; a new one where there is none that can be read, or
    only one of another far store. A folder that was copied is another device: it has a name of its
    own, the same however often it is asked for."""
    kept, place = _kept(path), _place(path)
    if kept is None:
        return Record(device=new_device(), place=place, far=far)
    if kept.place not in ("", place):
        kept.device = _device(f"{kept.device} {place}".encode())
        kept.told, kept.told_mark = 0, ""
    kept.place = place
    return kept if kept.far == far else Record(device=kept.device, place=place, far=far)


def new_device() -> str:
    """A name that no device has."""
    return _device(secrets.token_bytes(16))


def _device(told: bytes) -> str:
    """The name of a device: that of its machine, and what no other has."""
    host = _NO_NAME.sub("-", os.uname().nodename.partition(".")[0])[:HOST_CHARS].strip("-")
    return f"{host or 'device'}-{hashlib.blake2b(told, digest_size=4).hexdigest()}"


def _place(path: str | None) -> str:
    """Another value for a copy of the folder, and on another machine; the same after the folder
    was renamed. Empty where there is no folder yet."""
    try:
        folder = os.stat(os.path.dirname(path)).st_ino if path is not None else 0
    except OSError:
        return ""
    told = hashlib.blake2b(f"{_machine()} {folder}".encode(), digest_size=8)
    return told.hexdigest()


def _machine() -> str:
    """What tells this machine from others; its name, where nothing better is known."""
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return file.read(64).strip() or os.uname().nodename
    except (OSError, UnicodeDecodeError):
        return os.uname().nodename


def _kept(path: str | None) -> Record | None:
    if path is None or not os.path.exists(path):
        return None
    try:
        with disk.open_regular(path) as file:
            return decoding.decode(file.read(), Record)
    except (OSError, RefoldError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def mark(path: str | None) -> SyncMark:
    """Another value each time that the record was written."""
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        found = None
    return (found.st_mtime_ns, found.st_ino) if found is not None else (0, 0)


def write(path: str | None, record: Record) -> str:
    """Keeps the record; says why if that cannot be done, which costs nothing but the record."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return ""
    record.place = record.place or _place(path)
    fresh = f"{path}.{secrets.token_hex(4)}"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
        os.replace(fresh, path)
    except OSError as error:
        return sentence(disk.os_failure(error, f"cannot write {path}"))
    return ""


def stood(id: str, kept: Record) -> Synced | None:
    """How a conversation stood at the last sync; None if it was in none."""
    known = kept.conversations.get(id)
    if known is None:
        return None
    return Synced(
        conversation=id,
        state=_shown(known, known.lost, kept),
        pending=known.pending + known.lost,
        fork=known.fork,
        reason=_reason(known) or kept.reason,
    )


def standing(about: Conversation, kept: Record) -> Synced:
    """How a conversation stands by the record, and by what was appended since."""
    known = kept.conversations.get(about.id) or ConversationState(state="pending")
    pending = max(0, about.head - known.head) + known.lost
    state = _shown(known, pending, kept)
    is_refused = state == "blocked" != known.state
    return Synced(
        conversation=about.id,
        state=state,
        pending=pending,
        fork=known.fork,
        reason=kept.reason if is_refused else _reason(known),
    )


def _reason(known: ConversationState) -> str:
    if known.reason or not known.lost:
        return known.reason
    return f"the far store has lost {number(known.lost, 'event')} that it had"


def _shown(known: ConversationState, pending: int, kept: Record) -> SyncState:
    """A state by the record: what waits for a far store that lets nobody in is blocked."""
    state = "pending" if pending and known.state not in WAITING else known.state
    return "blocked" if state == "pending" and kept.is_refused else state


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
