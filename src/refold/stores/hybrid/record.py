"""What is known of the last sync: where each conversation stood, and why one is blocked.

It lies in `sync.json` beside the near store and may be lost: the next sync compares heads and makes
it again. Whoever changes it holds its lock (`locked`) from reading to writing, and asks nobody far
meanwhile. `standing` says by it, and by what was appended since, how a conversation stands.
Neighbours: `rounds` keeps it, `store` tells of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct, field

from refold import decoding
from refold.core.model import Conversation
from refold.display import number
from refold.errors import RefoldError, sentence
from refold.stores.protocol import WAITING, Synced, SyncMark, SyncState
from refold.system import disk

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
