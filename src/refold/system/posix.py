"""What only POSIX systems have, and its replacement elsewhere.

Linux and macOS have all of it; refold was tried on Linux. Elsewhere the library, `memory:` and
`sqlite:` stores, replay and the proxy work: locks are those of `msvcrt`, flags that a system lacks
are 0, and whose a file is stays with the system's own permissions. What cannot work (`files:`, the
memory folder, which walk folders without following a link) is refused by `check`. No other module
names these functions; a test says so. Neighbour: `disk` uses them for files.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from pathlib import Path

from refold.errors import Invalid, Unavailable

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

O_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
O_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
O_NOCTTY = getattr(os, "O_NOCTTY", 0)
O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
SYSTEMS = "Linux and macOS (tried on Linux)"
_PAUSE_S = 0.001
_ACL, _ACL_USER, _ACL_GROUP = "system.posix_acl_access", 2, 8  # as Linux keeps them


def is_posix() -> bool:
    """Whether this system has what refold uses of POSIX."""
    return fcntl is not None and hasattr(os, "geteuid") and O_NOFOLLOW != 0


def check(what: str, instead: str) -> None:
    """Raises Invalid, with something that works, for what needs a POSIX system."""
    if not is_posix():
        raise Invalid(f"{what} needs Linux or macOS", hint=instead)


# --- processes ---


def signals(*names: str) -> tuple[int, ...]:
    """The numbers of these signals, as far as the system has them."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def is_in_front(terminal: int) -> bool:
    """Whether this process is of the group that a terminal sends its signals to."""
    return not hasattr(os, "getpgrp") or os.tcgetpgrp(terminal) == os.getpgrp()


def end_group(process: int) -> None:
    """Ends a process, and where there are groups, all that it started."""
    if hasattr(os, "killpg"):
        os.killpg(process, signal.SIGKILL)
    else:
        os.kill(process, signal.SIGTERM)


# --- users and modes ---


def user_id() -> int | None:
    """The number of this user; None on a system without such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def user_name(user: int) -> str:
    """The name of a user, or the number without one."""
    try:
        import pwd

        return pwd.getpwuid(user).pw_name
    except (ImportError, KeyError):
        return str(user)


def home() -> Path:
    """This user's home folder, by the system's own record. Unavailable if there is none."""
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, AttributeError):
        return Path.home()
    except KeyError as error:
        hint = "set XDG_DATA_HOME to a folder for it"
        raise Unavailable("this user has no home folder", hint=hint) from error


def members_of(group: int) -> list[str] | None:
    """The members that the system lists of this user's own group; None for another group."""
    import grp

    if group != os.getegid():
        return None
    try:
        return grp.getgrgid(group).gr_mem
    except KeyError:
        return []


def listed_writers(path: str) -> tuple[list[int], list[int]]:
    """The users and groups that the access control list of a path lets write it beside its owner
    and its group. Empty without a list, and on systems that show none (all but Linux)."""
    users: list[int] = []
    groups: list[int] = []
    if not hasattr(os, "getxattr"):
        return users, groups
    try:
        content = os.getxattr(path, _ACL, follow_symlinks=False)
    except OSError:
        return users, groups  # no list, or a disk without any
    for tag, allowed, who in struct.iter_unpack("<HHI", content[4 : len(content) // 8 * 8 + 4]):
        if allowed & 2 and tag in (_ACL_USER, _ACL_GROUP):
            (users if tag == _ACL_USER else groups).append(who)
    return users, groups


def set_mode(fd: int, mode: int) -> None:
    """Sets the mode of an open file, where there are modes."""
    if hasattr(os, "fchmod"):
        os.fchmod(fd, mode)


def is_read_only(path: str) -> bool:
    """Whether the disk of a path is mounted for reading only; False where that is unknown."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


# --- locks and durability ---


def lock(fd: int, *, shared: bool = False, waits: bool = True) -> bool:
    """Takes the lock of an open file; returns whether it did, without waiting unless it `waits`.
    Without POSIX, every lock is exclusive."""
    if fcntl is not None:
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(fd, how if waits else how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    while not _locked_by_msvcrt(fd):
        if not waits:
            return False
        time.sleep(_PAUSE_S)
    return True


def _locked_by_msvcrt(fd: int) -> bool:
    import msvcrt

    os.lseek(fd, 0, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


def unlock(fd: int) -> None:
    """Releases the lock of an open file."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_UN)
        return
    import msvcrt

    os.lseek(fd, 0, os.SEEK_SET)
    msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)


def sync(fd: int) -> None:
    """Makes the content of an open file durable."""
    if sys.platform == "darwin" and fcntl is not None:
        # There, fsync only passes the bytes to the drive, which may still lose them.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable, where a folder can be opened: without its name, even a
    synced file is lost."""
    if not O_DIRECTORY:
        return
    fd = os.open(folder, os.O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
