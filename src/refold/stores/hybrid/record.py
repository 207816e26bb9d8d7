"""What is known of the last sync: where each conversation stood, and why one is blocked.

It lies in `sync.json` beside the near store and may be lost: the next sync compares heads and makes
it again. Whoever changes it holds its lock (`locked`) from reading to writing, and asks nobody far
meanwhile. Neighbours: `rounds` keeps it, `store` tells of it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct, field

from refold.errors import RefoldError, sentence
from refold.stores.protocol import SyncMark, SyncState
from refold.system import disk


class ConversationState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a conversation stands: `pending` events that the far store has not, `synced`, `forked`
    into `fork`, `blocked` for a `reason`, or `held` back because it has a secret. `head` is where
    both sides were the same last. What a conversation was forked into once stays here."""

    state: SyncState
    pending: int = 0
    head: int = 0
    fork: str = ""
    reason: str = ""
    at_ms: int = 0


class Record(Struct, kw_only=True):
    """All that is kept: the name of this device, how each conversation stands with the far store,
    and what was deleted here, which is not fetched again unless somebody asks for it. `is_refused`:
    the far store was reached at the last sync, and let nobody in."""

    device: str
    far: str = ""
    at_ms: int = 0
    reason: str = ""
    is_refused: bool = False
    conversations: dict[str, ConversationState] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)


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
    only one of another far store."""
    kept = _kept(path)
    if kept is None:
        return Record(device=f"device-{secrets.token_hex(4)}", far=far)
    return kept if kept.far == far else Record(device=kept.device, far=far)


def _kept(path: str | None) -> Record | None:
    if path is None or not os.path.exists(path):
        return None
    try:
        with disk.open_regular(path) as file:
            return msgspec.json.decode(file.read(), type=Record)
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
    fresh = f"{path}.{secrets.token_hex(4)}"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
        os.replace(fresh, path)
    except OSError as error:
        return sentence(disk.os_failure(error, f"cannot write {path}"))
    return ""
