"""Files inside a folder, opened by untrusted paths: name by name, without following links.

A path is checked after resolving it (links that stay inside are fine), then walked by descriptors,
so that nothing can be swapped between check and use. New content is written beside its target and
moved there by one call; a file keeps its mode. Neighbours: `disk` has the errors of failed calls;
the tools of a chat and the files of a restore use this.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from refold.checked import quoted
from refold.errors import Denied, Invalid, NotFound
from refold.system import posix
from refold.system.disk import check_name, closing, os_failure

BYTES_MAX = 16 * 1024 * 1024
NEW_MODE = 0o666  # minus the user's umask
_FOLDER = os.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would wait for its writer forever.
_FILE = os.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
_PERMISSIONS = 0o777
VERSION_CONTROL = (".git", ".hg", ".jj", ".svn")
_WRONG_KIND = (errno.ELOOP, errno.ENOTDIR)


class FileContent(Struct, frozen=True):
    """The bytes of a file, and its mode."""

    data: bytes
    mode: int


class Place(Struct, frozen=True):
    """A resolved path inside a folder: the folder, and the names below it."""

    root: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join(self.names) or "."

    @property
    def path(self) -> str:
        return os.path.join(self.root, *self.names)

    @property
    def plain_names(self) -> list[str]:
        """The names as any file system may take them: without case, invisible characters, and dots
        and spaces at the end."""
        printable = ("".join(filter(str.isprintable, name)) for name in self.names)
        return [name.casefold().rstrip(". ") for name in printable]

    def has(self, folders: Sequence[str]) -> bool:
        """Whether one of these hidden folders is on the path, also by its short name."""
        return any(
            name == folder or name.startswith(f"{folder[1:7]}~")
            for name in self.plain_names
            for folder in folders
        )


def place_in(root: str | Path, path: str) -> Place:
    """The resolved path, relative to the folder or absolute. Raises Denied if it is outside."""
    check_name(path)
    check_name(os.fspath(root))
    home = os.path.realpath(root)
    real = os.path.realpath(os.path.join(home, path))
    if real != home and not real.startswith(os.path.join(home, "")):
        hint = "only files inside the folder can be reached"
        raise Denied(f"{quoted(path)} leads out of the folder", hint=hint)
    relative = os.path.relpath(real, home)
    return Place(home, () if relative == "." else tuple(relative.split(os.sep)))


def read(place: Place, *, bytes_max: int = BYTES_MAX) -> FileContent | None:
    """The content of a file; None if there is no file. Raises Invalid for anything else."""
    try:
        with (
            _parent(place) as folder,
            closing(os.open(place.names[-1], _FILE, dir_fd=folder)) as fd,
        ):
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise Invalid(f"{quoted(str(place))} is not a file", hint="name a file")
            if status.st_size > bytes_max:
                reason = f"{quoted(str(place))} has {status.st_size:,} bytes"
                raise Invalid(reason, hint=f"at most {bytes_max:,} are read")
            with os.fdopen(os.dup(fd), "rb") as file:
                return FileContent(file.read(bytes_max), stat.S_IMODE(status.st_mode))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failure(error, place, "read") from error


def write(place: Place, data: bytes, *, mode: int | None = None) -> None:
    """Writes a file completely or not at all, and creates missing folders. Without a mode, an
    existing file keeps its own. The user's umask applies to a new file, and no file gets a bit that
    runs it as another user or group."""
    try:
        with _parent(place, make=True) as folder:
            _put(folder, place.names[-1], data, mode)
    except OSError as error:
        raise _failure(error, place, "write") from error


def _put(folder: int, name: str, data: bytes, mode: int | None) -> None:
    existing = _mode_of(folder, name)
    staged = f".{name[:100]}.{secrets.token_hex(4)}"
    fd = os.open(staged, _NEW, NEW_MODE if mode is None else mode & _PERMISSIONS, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if existing is not None:
                wanted = existing if mode is None else mode
                posix.set_mode(file.fileno(), wanted & _PERMISSIONS)
            file.flush()
            os.fsync(file.fileno())
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=folder)
        raise


def _mode_of(folder: int, name: str) -> int | None:
    """The mode of a file; None if it does not exist. Raises OSError for anything but a file."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EISDIR, "it is not a file")
    return stat.S_IMODE(status.st_mode)


def remove(place: Place) -> None:
    """Removes a file, if it exists."""
    try:
        with _parent(place) as folder, suppress(FileNotFoundError):
            _mode_of(folder, place.names[-1])
            os.unlink(place.names[-1], dir_fd=folder)
    except OSError as error:
        raise _failure(error, place, "remove") from error


@contextmanager
def _parent(place: Place, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder of a file, opened name by name."""
    if not place.names:
        raise Invalid("the folder itself is not a file", hint="name a file in it")
    fd = os.open(place.root, _FOLDER)
    try:
        for name in place.names[:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
            inner = os.open(name, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _failure(error: OSError, place: Place, verb: str) -> Exception:
    doing = f"cannot {verb} {quoted(str(place))}"
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{doing}: the folder is not there", hint="check its name")
    if error.errno in _WRONG_KIND or isinstance(error, IsADirectoryError):
        return Invalid(f"{doing}: a part of it is not a folder, or it is not a file")
    return os_failure(error, doing)
