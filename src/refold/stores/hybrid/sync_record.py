"""The record of the last sync, and the list of replaced logs.

`sync.json` beside the near store has the sync state of each conversation. If it is lost, the next
sync compares heads and creates it again. A writer holds its lock (`locked`) from reading to
writing, and makes no far call meanwhile. `current_state` adds the appends since the last sync.

A near log is replaced when both sides grew: its old tail continues in a fork, or on top of the new
log. `sync-moves.jsonl` has a line for each replacement, written before it, and only grows: its size
shows whether anything happened. `sync-moves.count` changes with each, in memory that all processes
share: an append checks it without a system call. Appends share the lock of the first file and a
replacement takes it exclusively, so no append ever lands on a log that it was not sealed for. A
store without a place on the disk keeps both in memory. Neighbours: `full_sync` writes the record,
`conversation_sync` replaces logs, `store` asks.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from os import SEEK_END, lseek

import msgspec
from msgspec import Struct, field

from refold import decoding
from refold.core.model import Conversation
from refold.display import number
from refold.errors import RefoldError, sentence
from refold.stores.protocol import WAITING, Synced, SyncMark, SyncState
from refold.system import disk, posix, process_fork

HOST_CHARS = 40
_NO_NAME = re.compile(r"[^A-Za-z0-9-]+")


class ConversationState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sync state of a conversation: `pending` events that the far store lacks, `synced`, `forked`
    into `fork`, `blocked` for a `reason`, or `held` because of a secret. `head` is the last common
    head. A `fork` stays recorded. `missing` are the events whose artifacts neither side had, `lost`
    is the number of events that the far store has lost."""

    state: SyncState
    pending: int = 0
    head: int = 0
    fork: str = ""
    reason: str = ""
    at_ms: int = 0
    missing: tuple[int, ...] = ()
    lost: int = 0


class DeviceState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last note of a device, and the chain of its log then."""

    name: str
    at_ms: int
    number: int
    chain: bytes
    mark: str = ""
    is_forgotten: bool = False


class Record(Struct, kw_only=True):
    """The record: the name of this device, the sync state of each conversation, and the
    conversations deleted here, which are fetched again only on request. `is_refused`: the far store
    denied access at the last sync. `place` identifies the folder: a copy elsewhere belongs to
    another device. `devices` are the devices that sync with the far store, by log id; `told` and
    `told_mark` are the number and the mark of this device's last note."""

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
    """Locks the record against other threads and processes."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        yield
        return
    with lock_file(f"{path}.lock") as fd:
        posix.lock(fd)
        yield


@contextmanager
def lock_file(path: str) -> Iterator[int]:
    """The descriptor of a lock file, closed at the end, which releases the lock."""
    try:
        fd = disk.open_own(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise disk.os_failure(error, f"cannot open {path}") from error
    with disk.closing(fd):
        yield fd


def read(path: str | None, far: str) -> Record:
    """The record of syncs with a far store; a new one if it is missing, unreadable, or of another
    far store. A copied folder is another device, with a derived name of its own."""
    kept, place = _stored(path), _place(path)
    if kept is None:
        return Record(device=new_device(), place=place, far=far)
    if kept.place not in ("", place):
        kept.device = _device_name(f"{kept.device} {place}".encode())
        kept.told, kept.told_mark = 0, ""
    kept.place = place
    return kept if kept.far == far else Record(device=kept.device, place=place, far=far)


def new_device() -> str:
    """A new unique device name."""
    return _device_name(secrets.token_bytes(16))


def _device_name(seed: bytes) -> str:
    """A device name: the host name, and a hash of the seed."""
    host = _NO_NAME.sub("-", os.uname().nodename.partition(".")[0])[:HOST_CHARS].strip("-")
    return f"{host or 'device'}-{hashlib.blake2b(seed, digest_size=4).hexdigest()}"


def _place(path: str | None) -> str:
    """An identifier of the folder. It differs for a copy and on another machine, and stays the same
    after a rename. Empty without a folder."""
    try:
        folder = os.stat(os.path.dirname(path)).st_ino if path is not None else 0
    except OSError:
        return ""
    machine = ""
    with suppress(OSError, UnicodeDecodeError), open("/etc/machine-id", encoding="ascii") as file:
        machine = file.read(64).strip()
    machine = machine or os.uname().nodename
    return hashlib.blake2b(f"{machine} {folder}".encode(), digest_size=8).hexdigest()


def _stored(path: str | None) -> Record | None:
    if path is None or not os.path.exists(path):
        return None
    try:
        with disk.open_regular(path) as file:
            return decoding.decode(file.read(), Record)
    except (OSError, RefoldError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def mark(path: str | None) -> SyncMark:
    """A value that changes with every write of the record."""
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        found = None
    return (found.st_mtime_ns, found.st_ino) if found is not None else (0, 0)


def write(path: str | None, record: Record) -> str:
    """Writes the record; returns the reason if that fails, which costs only the record."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return ""
    record.place = record.place or _place(path)
    try:
        disk.replace_file(path, msgspec.json.encode(record))
    except OSError as error:
        return sentence(disk.os_failure(error, f"cannot write {path}"))
    return ""


def last_state(id: str, kept: Record) -> Synced | None:
    """The state of a conversation at the last sync; None if it never took part in one."""
    state = kept.conversations.get(id)
    if state is None:
        return None
    return Synced(
        conversation=id,
        state=_effective_state(state, state.lost, kept),
        pending=state.pending + state.lost,
        fork=state.fork,
        reason=_reason(state) or kept.reason,
    )


def current_state(about: Conversation, kept: Record) -> Synced:
    """The state of a conversation, from the record and the appends since."""
    recorded = kept.conversations.get(about.id) or ConversationState(state="pending")
    pending = max(0, about.head - recorded.head) + recorded.lost
    state = _effective_state(recorded, pending, kept)
    is_refused = state == "blocked" != recorded.state
    return Synced(
        conversation=about.id,
        state=state,
        pending=pending,
        fork=recorded.fork,
        reason=kept.reason if is_refused else _reason(recorded),
    )


def _reason(state: ConversationState) -> str:
    if state.reason or not state.lost:
        return state.reason
    return f"the far store has lost {number(state.lost, 'event')} that it had"


def _effective_state(recorded: ConversationState, pending: int, kept: Record) -> SyncState:
    """The recorded state, but "pending" with pending events, and "blocked" while the far store
    denies access."""
    state = "pending" if pending and recorded.state not in WAITING else recorded.state
    return "blocked" if state == "pending" and kept.is_refused else state


# --- replaced logs ---


COUNT_BYTES = 8
NOTHING = b""


class Move(Struct, frozen=True, kw_only=True):
    """A replaced log, and the conversation with its old tail: its own id if that is on top."""

    conversation: str
    goes_on: str


class _Count:
    """A number in a file; `shared` is mapped memory, so every process sees changes at once."""

    def __init__(self, path: str) -> None:
        self._fd = disk.open_own(path, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(self._fd).st_size < COUNT_BYTES:
                os.pwrite(self._fd, bytes(COUNT_BYTES), 0)
            self.shared = mmap(self._fd, COUNT_BYTES, access=ACCESS_READ)
        except OSError:
            os.close(self._fd)
            raise

    def grow(self) -> None:
        """Increments the number, by a write: mapped memory cannot report a full disk."""
        number = int.from_bytes(self.shared[:COUNT_BYTES], "little") + 1
        os.pwrite(self._fd, number.to_bytes(COUNT_BYTES, "little"), 0)

    def close(self) -> None:
        self.shared.close()
        os.close(self._fd)


_DECODE = decoding.decoder(Move).decode


class Moves:
    """The replaced logs of one near store. `path` is None without a place on this disk; with
    `read_only` no file is made."""

    def __init__(self, path: str | None, *, read_only: bool = False) -> None:
        self._path, self._read_only = path, read_only
        self._lock = threading.RLock()
        self._fd, self._size = -1, 0
        self._count: _Count | None = None
        self._now: mmap | bytes = NOTHING  # the count
        self._counted = NOTHING  # the count at the last read
        self._successors: dict[str, list[str]] = {}
        process_fork.watch(self)

    def successors(self, conversation: str) -> list[str] | None:
        """The conversations with the old tails of a log; None if it was never replaced."""
        fd = self._fd
        if fd < 0 or lseek(fd, 0, SEEK_END) != self._size:
            with self._lock:
                self._read_new()
        return self._successors.get(conversation)

    def enter(self, conversation: str) -> bool:
        """Whether the log was ever replaced. Blocks replacements until `leave`: a context manager
        would cost too much of an append."""
        self._lock.acquire()
        try:
            fd = self._fd
            if fd < 0:
                fd = self._opened()
            if fd >= 0:
                posix.lock(fd, shared=True)
                if self._now[:COUNT_BYTES] != self._counted:
                    # The count is taken before reading: a later move changes it again.
                    self._counted = self._now[:COUNT_BYTES]
                    self._read_new()
        except BaseException:
            self._lock.release()
            raise
        return conversation in self._successors

    def leave(self) -> None:
        if self._fd >= 0:
            posix.unlock(self._fd)
        self._lock.release()

    @contextmanager
    def replacing(self, move: Move) -> Iterator[None]:
        """Blocks appends for the block, and publishes the move."""
        with self._lock:
            fd = self._opened()
            if fd >= 0:
                posix.lock(fd)
            try:
                self._write(move)
                yield
            finally:
                if fd >= 0:
                    posix.unlock(fd)

    # --- the file ---

    def _opened(self) -> int:
        """The descriptor of the file, one per process; -1 while the folder does not exist."""
        if self._path is None or self._fd >= 0:
            return self._fd
        if not os.path.isdir(os.path.dirname(self._path)):
            return -1
        try:
            fd = disk.open_own(
                self._path,
                os.O_RDONLY if self._read_only else os.O_RDWR | os.O_CREAT | os.O_APPEND,
            )
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise disk.os_failure(error, f"cannot open {self._path}") from error
        if not self._read_only:
            try:
                self._count = _Count(f"{self._path.removesuffix('.jsonl')}.count")
            except OSError as error:
                os.close(fd)
                doing = f"cannot open the count beside {self._path}"
                raise disk.os_failure(error, doing) from error
            self._now = self._count.shared
        self._fd = fd
        return fd

    def _read_new(self) -> None:
        fd = self._opened()
        if fd < 0 or (size := os.fstat(fd).st_size) == self._size:
            return
        text = os.pread(fd, size - self._size, self._size)
        lines = text[: text.rfind(b"\n") + 1]
        for line in lines.splitlines():
            # A killed writer leaves an incomplete line, and has replaced nothing yet.
            with suppress(msgspec.DecodeError):
                self._note(_DECODE(line))
        self._size += len(lines)

    def _write(self, move: Move) -> None:
        fd = self._opened()
        if fd < 0:
            self._note(move)
            return
        assert self._count is not None, "only a writer replaces"
        try:
            # The previous line may be half-written.
            os.write(fd, b"\n" + msgspec.json.encode(move) + b"\n")
            self._count.grow()
        except OSError as error:
            raise disk.os_failure(error, f"cannot write {self._path}") from error

    def _note(self, move: Move) -> None:
        successors = self._successors.setdefault(move.conversation, [])
        if move.goes_on not in successors:
            successors.append(move.goes_on)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
            if self._count is not None:
                self._count.close()
            self._count, self._now, self._counted = None, NOTHING, NOTHING

    # A forked child shares the lock of a descriptor, and would release it for both.

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self.close()
            self._lock = threading.RLock()
        else:
            self._lock.release()
