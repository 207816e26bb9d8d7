"""Files on disk (private folders, durable names, locks), our errors for failed system calls, and
times given by callers.

Files here are paths and descriptors; nothing knows about logs. A file that refold wrote is a
regular file of a known size; anything else is refused, and links are never followed. A time is a
datetime, an ISO string, or milliseconds since 1970, and becomes milliseconds. Neighbours: all
stores and exports write with these, search and `Context` take times.
"""

from __future__ import annotations

import errno
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import IO

from refold.checked import quoted
from refold.errors import Corrupt, Denied, Invalid, RefoldError, Unavailable
from refold.system import posix
from refold.system.posix import sync as sync
from refold.system.posix import sync_folder as sync_folder

PROJECT_FOLDER = ".refold"  # the folder of a project's own store
_FULL = {errno.ENOSPC, errno.EDQUOT}
LOCK_S = 10.0
PAUSE_S = 0.000_2
PAUSE_MAX_S = 0.005
OWN_BYTES_MAX, ANY_SIZE = 16_000_000, -1
_REFUSED = {errno.EACCES, errno.EPERM}
# The system's errors on opening a link, a pipe without a reader, a socket, or a folder.
_NOT_A_FILE = {errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV}


def os_failure(error: OSError, doing: str) -> RefoldError:
    """Our error for a failed system call; raise it `from` the original."""
    reason = f"{doing}: {error.strerror or error}"
    if error.errno in _REFUSED:
        hint = "the files of a store belong to the user who made it: check their owner and mode"
        return Denied(reason, hint=hint)
    if error.errno in _FULL:
        hint = "free some space, then try again"
    elif error.errno == errno.EROFS:
        hint = "the disk is read-only: reading works, writing needs another place"
    else:
        hint = "check the path and the disk, then try again"
    return Unavailable(reason, hint=hint)


def is_allowed(path: str, mode: int) -> bool:
    """Whether this user has access to a file or folder (`os.R_OK`, `os.W_OK`, `os.X_OK`)."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def check_name(path: str) -> None:
    """Raises Invalid for an impossible file name, for which the system raises ValueError instead
    of OSError."""
    if "\0" in path:
        raise Invalid(
            f"{quoted(path, 200)} is not the name of a file", hint="take out the NUL byte"
        )
    try:
        # Not as UTF-8: a name from the system may contain other bytes.
        os.fsencode(path)
    except UnicodeEncodeError as error:
        hint = "take out the lone surrogate"
        raise Invalid(f"{quoted(path, 200)} is not the name of a file", hint=hint) from error


# --- creation and durability ---


def make_folder(folder: str, *, durable: bool = True) -> None:
    """Creates the folder and its missing parents, for the owner alone whatever the umask."""
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
        # Conversations must not be committed by accident.
        ignore = os.path.join(folder, ".gitignore")
        with suppress(OSError), open(ignore, "x", encoding="ascii") as file:
            file.write("*\n")
    if durable:
        sync_folder(parent)


def replace_file(path: str, content: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Replaces a file or a link, for its owner alone unless another mode is given: a reader sees
    the complete old file or the new one. Unless `durable`, the new file may be lost in a power
    failure, as derived data may be."""
    # A link to a file of the user may wait under any name that can be guessed.
    fresh = f"{path}.{secrets.token_hex(4)}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | posix.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                sync(file.fileno())
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise


def write_own(path: str, content: bytes) -> None:
    """Replaces a file in the user's own data folder, durably and for the owner alone. Raises
    Unavailable if that is impossible."""
    folder = os.path.dirname(path)
    try:
        make_folder(folder)
        replace_file(path, content, durable=True)
        sync_folder(folder)
    except OSError as error:
        hint = "set XDG_DATA_HOME to a folder that you can write to"
        raise Unavailable(f"{path} cannot be written: {error.strerror}", hint=hint) from error


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """The descriptor, closed at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def open_folder(folder: str) -> int:
    """A descriptor of a folder, for locking or syncing it."""
    return os.open(folder, os.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)


# --- locks and links ---


def lock(fd: int, path: str, *, wait_s: float = LOCK_S) -> None:
    """Takes the lock of an open file or folder; the kernel releases it when its holder dies. The
    wait is bounded, because a holder may be suspended."""
    deadline = time.monotonic() + wait_s
    pause_s = PAUSE_S
    while not posix.lock(fd, waits=False):
        if time.monotonic() >= deadline:
            raise Unavailable(f"{path} is busy", retry_after_s=1.0, hint="another process holds it")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def refuse_link(folder: str) -> None:
    """Raises Denied for a link instead of a folder or file inside a store: its author would decide
    where private text is written."""
    if os.path.islink(folder):
        raise Denied(f"{folder} is a link", hint="put the target itself there")


# --- whose files ---

LINKS_MAX = 40
UNKNOWN = "an unknown user"  # of a file that this user cannot see


def foreign_writer(path: str, *, is_above: bool = False) -> str:
    """The other user or group that can write a file or folder; empty if there is none, or no such
    path. A link must be this user's, and so must its target. `is_above` accepts folders like /tmp,
    in which only the owner of a file can replace it. Links in the folder part of the path are not
    checked, so pass a resolved path."""
    for _ in range(LINKS_MAX):
        try:
            status = os.lstat(path)
            if writer := _foreign_writer(path, status, is_above=is_above):
                return writer
            if not stat.S_ISLNK(status.st_mode):
                return ""
            target = os.path.join(os.path.dirname(path), os.readlink(path))
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError:
            return UNKNOWN
        folder = os.path.realpath(os.path.dirname(target))
        if writer := foreign_writer(folder, is_above=True):
            return writer
        path = os.path.join(folder, os.path.basename(target))
    return UNKNOWN


def _foreign_writer(path: str, status: os.stat_result, *, is_above: bool) -> str:
    user = posix.user_id()
    if user is None:
        return ""  # a system with other permissions, which decide
    owners = {0, user}
    if user == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        owners.add(int(os.environ["SUDO_UID"]))
    if status.st_uid not in owners:
        return f"the user {posix.user_name(status.st_uid)}"
    is_shared = is_above and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    # A link has all permissions, and none of them counts.
    if is_shared or stat.S_ISLNK(status.st_mode):
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "anybody"
    if not status.st_mode & stat.S_IWGRP:
        return ""  # nor does an access control list let anybody else write
    users, groups = posix.listed_writers(path)
    for group in (status.st_gid, *groups):
        if not _is_own_group(group):
            return f"the group {group}"
    return next((f"the user {posix.user_name(one)}" for one in users if one not in owners), "")


def _is_own_group(group: int) -> bool:
    """Whether this is the user's own group, and the system lists no other member."""
    members, user = posix.members_of(group), posix.user_id()
    return members is not None and set(members) <= {"root", posix.user_name(user or 0)}


# --- reading files of refold ---


def open_regular(path: str, size_bytes: int | None = None) -> IO[bytes]:
    """The file, open for reading. Raises Corrupt if it is not a regular file of the given size."""
    return os.fdopen(open_own(path, os.O_RDONLY, size_bytes), "rb", buffering=0)


def open_own(path: str, flags: int, size_bytes: int | None = None) -> int:
    """A descriptor of a file in a data folder of refold, created for its owner alone. Raises
    Corrupt for anything but a regular file (of the given size), which is neither followed, nor
    waited for, nor changed."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its other end forever. The file is
        # truncated only after this check.
        safe = posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_NOCTTY
        fd = os.open(path, flags & ~os.O_TRUNC | safe, 0o600)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise not_ours(path) from error
        raise
    try:
        _check_content(os.fstat(fd), path, size_bytes)
        if flags & os.O_TRUNC:
            os.ftruncate(fd, 0)
    except (Corrupt, OSError):
        os.close(fd)
        raise
    return fd


def read_own(path: str, bytes_max: int = OWN_BYTES_MAX) -> bytes:
    """The content of a small file in a data folder of refold; OSError if it is missing, or not a
    regular file."""
    try:
        with open_regular(path) as file:
            return file.read(bytes_max)
    except Corrupt as error:
        raise OSError(errno.EINVAL, "it is not a regular file", path) from error


def check_size(path: str, size_bytes: int) -> None:
    """The same check without opening the file. A missing file passes: its reader reports it."""
    with suppress(FileNotFoundError):
        _check_content(os.lstat(path), path, size_bytes)


def is_regular(path: str) -> bool:
    """Whether the path is a regular file; False for a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def size_bytes(path: str) -> int:
    """The size of a file; 0 if there is none. The disk is asked only once, because another process
    may remove the file in between."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def not_ours(path: str) -> Corrupt:
    """The error for a foreign object instead of a file of refold."""
    return Corrupt(
        f"{path} is not the file that was put there",
        hint="remove it; refold verify shows what is missing",
    )


def _check_content(status: os.stat_result, path: str, size_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise not_ours(path)
    if size_bytes is not None and status.st_size != size_bytes:
        what = f"{path} has {status.st_size:,} bytes, {size_bytes:,} were put there"
        raise Corrupt(what, hint="refold verify")


Moment = int | datetime | str
A_TIME = "milliseconds since 1970, a datetime, or a string such as 2026-01-31"
MS_MAX = 2**62
# Numbers below the first are positions in a log, those below the second are seconds.
EPOCH_FROM, EPOCH_MS_FROM = 1_000_000_000, 100_000_000_000
HAPPENED_MS_MAX = 253_402_300_799_999  # the end of the year 9999


def ms_of(name: str, moment: Moment) -> int:
    """A time in milliseconds; Invalid, with the argument's name, if it is not a time, or too far
    away. A string without a time zone is in local time."""
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
    """The time of an event in milliseconds; Invalid if it is out of range."""
    if moment is None:
        return None
    ms = ms_of("at", moment)
    if not 0 <= ms <= HAPPENED_MS_MAX:
        raise Invalid("at is before 1970, or thousands of years away", hint=A_TIME)
    return ms


def moment_in(given: float | str | datetime) -> int | None:
    """The time in milliseconds of a datetime, of seconds or milliseconds since 1970, or of an ISO
    string (in local time if it has no zone); None for anything else."""
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
