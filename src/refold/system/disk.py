"""Files on this disk: folders for the owner alone, names that survive power loss, and what a
failed system call means to a caller.

Everything here takes paths and descriptors and knows nothing about logs. A file that refold wrote
is a regular file of a known size; anything else in its place is refused, and a link is never
followed. Neighbours: every store writes with these, an export likewise; whoever reads the plain
file of an artifact (`Store.location`) opens it here.

A moment that a caller names: a time of day with its date, also as text in ISO form, or
milliseconds since 1970.

Everything is kept in milliseconds. Neighbours: search takes moments as bounds, `Context` as the
time when something happened.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import IO

from refold.checked import quoted
from refold.errors import Corrupt, Denied, Invalid, RefoldError, Unavailable

PROJECT_FOLDER = ".refold"  # where a project's own store lies
_FULL = {errno.ENOSPC, errno.EDQUOT}
LOCK_S = 10.0
PAUSE_S = 0.000_2
PAUSE_MAX_S = 0.005
_REFUSED = {errno.EACCES, errno.EPERM}


def os_failure(error: OSError, doing: str) -> RefoldError:
    """The error of the family for a failed system call; raise it `from` the original."""
    reason = f"{doing}: {error.strerror or error}"
    if error.errno in _REFUSED:
        return Denied(
            reason,
            hint="the files of a store belong to the user who made it: check their owner and mode",
        )
    return Unavailable(reason, hint=_next_step(error.errno))


def is_allowed(path: str, mode: int) -> bool:
    """Whether this user may do this with a file or folder (`os.R_OK`, `os.W_OK`, `os.X_OK`)."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def check_name(path: str) -> None:
    """Invalid for what no file can be called. The system says ValueError, not OSError."""
    if "\0" in path:
        raise Invalid(
            f"{quoted(path, 200)} is not the name of a file", hint="take out the NUL byte"
        )
    try:
        # Not as UTF-8: a name that the system gave may hold other bytes, and is one nevertheless.
        os.fsencode(path)
    except UnicodeEncodeError as error:
        hint = "take out the lone surrogate"
        raise Invalid(f"{quoted(path, 200)} is not the name of a file", hint=hint) from error


def _next_step(number: int | None) -> str:
    if number in _FULL:
        return "free some space, then try again"
    if number == errno.EROFS:
        return "the disk is read-only: reading works, writing needs another place"
    return "check the path and the disk, then try again"


# --- making, and surviving power loss ---


def make_folder(folder: str, *, durable: bool = True) -> None:
    """Makes the folder and the missing ones above it, for the owner alone whatever the umask."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder) or "."
    make_folder(parent, durable=durable)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    os.chmod(folder, 0o700)
    if os.path.basename(folder) == PROJECT_FOLDER:
        _keep_from_git(folder)
    if durable:
        sync_folder(parent)


def _keep_from_git(folder: str) -> None:
    """Tells git to leave the folder alone: conversations are not to be committed by accident."""
    with suppress(OSError), open(os.path.join(folder, ".gitignore"), "x", encoding="ascii") as file:
        file.write("*\n")


def replace_file(path: str, content: bytes) -> None:
    """Puts a file in its place, for its owner alone: whoever reads it sees the old one whole, or
    the new one. It may be lost with the power, so it is for what can be made again."""
    fresh = f"{path}.{secrets.token_hex(4)}"
    made = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(made, "wb") as file:
            file.write(content)
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """The descriptor, closed at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def open_folder(folder: str) -> int:
    """A descriptor of a folder, to lock or to sync it."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable: a synced file without a synced name is still lost."""
    with closing(open_folder(folder)) as fd:
        os.fsync(fd)


def sync(fd: int) -> None:
    """Makes the content of an open file survive power loss."""
    if sys.platform == "darwin":
        # There fsync only hands the bytes to the drive, which may still forget them.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


# --- locks and links ---


def lock(fd: int, path: str, *, wait_s: float = LOCK_S) -> None:
    """Takes the lock of an open file or folder, which the kernel gives back when its holder dies.
    Waits, but not for ever: a holder may be stopped."""
    deadline = time.monotonic() + wait_s
    pause_s = PAUSE_S
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            raise Unavailable(f"{path} is busy", retry_after_s=1.0, hint="another process holds it")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def try_lock(fd: int) -> bool:
    """Takes the lock if it is free."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def refuse_link(folder: str) -> None:
    """Raises Denied for a link in the place of a folder or file inside a store: whoever brought it
    says where private words would be written."""
    if os.path.islink(folder):
        raise Denied(f"{folder} is a link", hint="put what it points to there itself")


# --- reading what refold wrote ---


def open_regular(path: str, size_bytes: int | None = None) -> IO[bytes]:
    """The file, open for reading. Corrupt if it is not a regular file, or not of the size that
    is known."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its writer for ever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise not_ours(path) from error
        raise
    try:
        _check_content(os.fstat(fd), path, size_bytes)
    except Corrupt:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb", buffering=0)


def check_size(path: str, size_bytes: int) -> None:
    """The same check without opening the file. One that is gone is for the reader to miss."""
    with suppress(FileNotFoundError):
        _check_content(os.lstat(path), path, size_bytes)


def is_regular(path: str) -> bool:
    """Whether a regular file has this path; False for a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def size_bytes(path: str) -> int:
    """The size of a file; 0 if there is none. Asked once: another process may remove the file
    between two questions."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def not_ours(path: str) -> Corrupt:
    """The error for something else in the place of a file that refold wrote."""
    return Corrupt(
        f"{path} is not the file that was put there",
        hint="remove it; refold verify says what is missing",
    )


def _check_content(found: os.stat_result, path: str, size_bytes: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise not_ours(path)
    if size_bytes is not None and found.st_size != size_bytes:
        raise Corrupt(
            f"{path} has {found.st_size:,} bytes, {size_bytes:,} were put there",
            hint="refold verify",
        )


Moment = int | datetime | str
A_TIME = "milliseconds since 1970, a datetime, or a text such as 2026-01-31"
MS_MAX = 2**62
# A smaller number is a place in a log, which has fewer events; one below the second is in seconds.
EPOCH_FROM, EPOCH_MS_FROM = 1_000_000_000, 100_000_000_000
HAPPENED_MS_MAX = 253_402_300_799_999  # the end of the year 9999


def ms_of(name: str, moment: Moment) -> int:
    """A moment in milliseconds; Invalid with the argument's name if it is none, or too far off. A
    text without a zone is in local time."""
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment.strip())
        ms = round(moment.timestamp() * 1_000) if isinstance(moment, datetime) else moment
    except (ValueError, OverflowError, OSError):
        ms = MS_MAX + 1  # not ISO, or a naive time at the end of the calendar
    if isinstance(ms, bool) or not isinstance(ms, int) or not -MS_MAX <= ms <= MS_MAX:
        raise Invalid(f"{name} is not a time", hint=A_TIME)
    return ms


def happened_ms(moment: Moment | None) -> int | None:
    """When something happened, in milliseconds; Invalid for a time that no event can have."""
    if moment is None:
        return None
    ms = ms_of("at", moment)
    if not 0 <= ms <= HAPPENED_MS_MAX:
        raise Invalid("at is before 1970, or thousands of years away", hint=A_TIME)
    return ms


def moment_in(given: float | str | datetime) -> int | None:
    """The moment in milliseconds that a value is: a datetime, seconds or milliseconds since 1970,
    or a text in ISO form, without a zone in local time. None for what is no time."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given.strip())
        except ValueError:
            return None
    if isinstance(given, datetime):
        return ms_of("the time", given)
    if not math.isfinite(given) or given < EPOCH_FROM:
        return None
    return ms_of("the time", round(given if given >= EPOCH_MS_FROM else given * 1_000))
