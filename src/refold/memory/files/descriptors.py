"""Disk access under `/memories` by descriptors: each name is opened in its parent folder, and no
link is followed.

    PLACE/memories/    the tree that the model sees as /memories
    PLACE/staging/     files on their way in or out, empty between two changes
    PLACE/history.db   every change, and artifacts/ with the contents
    PLACE/lock         held during a change

A checked path can be swapped before it is opened; a descriptor cannot. Anything but a regular file
or a folder is refused before it could block. New content is written to the staging folder, synced,
and moved by one system call. The tree contains none of our own files, so a model's name cannot
clash with one. The scope `user` is in the user's data folder, `project` and `agent.NAME` in the
project's `.refold` folder. Neighbours: `commands` parses paths, `tree` decides.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal

from msgspec import Struct

from refold.checked import quoted
from refold.core.ids import conversation_checked
from refold.errors import Conflict, Denied, Invalid, NotFound
from refold.memory.files.commands import ROOT, MemoryPath
from refold.settings.permissions import data_folder
from refold.settings.sources import check_owner, project_folder
from refold.system import disk, posix
from refold.system.disk import closing, sync

Kind = Literal["file", "folder", "link", "other", "absent"]

FOLDER = os.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would wait for its writer forever.
FILE = os.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
FILE_MODE, FOLDER_MODE = 0o600, 0o700
CHUNK_BYTES = 1 << 16
ENTRIES_MAX = 100_000
LEVELS_MAX = 64
SCOPES = ("user", "project", "agent.NAME")
LOCK_S = 10.0


class Content(Struct, frozen=True):
    """The bytes of a file, and its stamp when they were read."""

    data: bytes
    stamp: tuple[int, int, int, int]


class Entry(Struct, frozen=True):
    """A file or folder below another, by its relative path."""

    names: tuple[str, ...]
    size_bytes: int
    is_folder: bool


# --- walking ---


@contextmanager
def opened_folder(root: str, path: MemoryPath, *, absent: str, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder at a path, opened name by name. `absent` is the error text for a
    missing folder; with `make`, missing folders are created."""
    try:
        fd = os.open(root, FOLDER)
    except FileNotFoundError as error:
        raise NotFound(absent) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Denied(f"Error: {ROOT} is not a folder here, or it is a link") from error
        raise
    try:
        for depth, name in enumerate(path.inner, 1 + path.mounted):
            here = MemoryPath(path.names[:depth], path.mounted)
            inner = _step(fd, name, here, absent=absent, make=make)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _step(fd: int, name: str, path: MemoryPath, *, absent: str, make: bool) -> int:
    """Opens, and with `make` creates, a folder in a folder."""
    is_new = False
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=fd)
            os.fsync(fd)
            is_new = True
    try:
        inner = os.open(name, FOLDER, dir_fd=fd)
    except FileNotFoundError as error:
        raise NotFound(absent) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise not_followed(kind_at(fd, name), path) from error
        raise
    if is_new:
        posix.set_mode(inner, FOLDER_MODE)
    return inner


def not_followed(kind: Kind, path: MemoryPath) -> Denied | Invalid:
    """The error for an entry that is not the expected file or folder."""
    if kind == "link":
        return Denied(f"Path {path} would escape {ROOT} directory via a link")
    if kind == "file":
        return Invalid(f"Error: The path {path} is not a directory")
    return Invalid(f"Error: The path {path} is neither a file nor a directory")


def kind_at(fd: int, name: str) -> Kind:
    """The kind of an entry in a folder; links are not followed."""
    try:
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return "absent"
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def entries(fd: int, names: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Every file and folder below a folder, sorted, each folder before its content. Links, devices
    and anything deeper than `LEVELS_MAX` are left out."""
    with os.scandir(fd) as found:
        here = sorted(found, key=lambda entry: entry.name)
    for entry in here:
        path = (*names, entry.name)
        if entry.is_dir(follow_symlinks=False):
            yield Entry(path, 0, True)
            if len(path) < LEVELS_MAX:
                yield from _entries_in(fd, path)
        elif entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # deleted in the meantime
                yield Entry(path, entry.stat(follow_symlinks=False).st_size, False)


def _entries_in(fd: int, path: tuple[str, ...]) -> Iterator[Entry]:
    """The entries of a folder, unless it was deleted or swapped since it was listed."""
    try:
        inner = os.open(path[-1], FOLDER, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return
        raise
    with closing(inner):
        yield from entries(inner, path)


# --- reading ---


def read_file(fd: int, name: str, path: MemoryPath, *, absent: str, bytes_max: int) -> Content:
    """The bytes of a regular file."""
    kind = kind_at(fd, name)
    if kind == "absent":
        raise NotFound(absent)
    if kind == "folder":
        raise Invalid(f"Error: The path {path} is not a file.")
    if kind != "file":
        raise not_followed(kind, path)
    try:
        opened = os.open(name, FILE, dir_fd=fd)
    except FileNotFoundError as error:
        raise NotFound(absent) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise not_followed("link", path) from error
        raise
    with closing(opened) as file:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise not_followed("other", path)
        if found.st_size > bytes_max:
            raise Invalid(
                f"Error: {path} has {found.st_size:,} bytes; the limit for reading is {bytes_max:,}"
            )
        parts: list[bytes] = []
        left = bytes_max
        while left > 0 and (part := os.read(file, min(CHUNK_BYTES, left))):
            parts.append(part)
            left -= len(part)
        return Content(b"".join(parts), _stamp(found))


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


# --- writing ---


def put_new(staging: int, data: bytes, fd: int, name: str) -> None:
    """Writes a new file. FileExistsError, and no change, if the name exists."""
    staged = _staged(staging, data)
    try:
        os.link(staged, name, src_dir_fd=staging, dst_dir_fd=fd, follow_symlinks=False)
    finally:
        os.unlink(staged, dir_fd=staging)
    os.fsync(fd)


def replace(staging: int, data: bytes, fd: int, name: str, *, seen: Content) -> None:
    """Replaces the bytes of a file, all or nothing. Conflict if it changed since it was read: a
    writer without our lock was faster."""
    staged = _staged(staging, data)
    try:
        stamp = None
        with suppress(FileNotFoundError):
            stamp = _stamp(os.stat(name, dir_fd=fd, follow_symlinks=False))
        if stamp != seen.stamp:
            raise Conflict("Error: The file has changed since it was read. View it again.")
        os.rename(staged, name, src_dir_fd=staging, dst_dir_fd=fd)
    except BaseException:
        os.unlink(staged, dir_fd=staging)
        raise
    os.fsync(fd)


def move(source: int, old: str, target: int, new: str) -> None:
    """Renames a file or folder, possibly into another folder."""
    os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
    os.fsync(target)
    os.fsync(source)


def remove(staging: int, fd: int, name: str) -> None:
    """Moves a file, folder or link out of the tree by one system call, then deletes it."""
    staged = uuid.uuid4().hex
    os.rename(name, staged, src_dir_fd=fd, dst_dir_fd=staging)
    os.fsync(fd)
    clear(staging)


def clear(staging: int) -> None:
    """Empties the staging folder, after this change or a killed one."""
    with os.scandir(staging) as found:
        left = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in left:
        if is_folder:
            shutil.rmtree(name, dir_fd=staging)
        else:
            os.unlink(name, dir_fd=staging)


def _staged(staging: int, data: bytes) -> str:
    """Writes a durable file with these bytes to the staging folder, and returns its name."""
    name = uuid.uuid4().hex
    with closing(os.open(name, NEW, FILE_MODE, dir_fd=staging)) as file:
        posix.set_mode(file, FILE_MODE)
        with os.fdopen(os.dup(file), "wb") as stream:
            stream.write(data)
        sync(file)
    return name


# --- places ---


def place_of(scope: str, environ: Mapping[str, str] | None = None) -> Place:
    """The place of a scope."""
    kind, _, name = scope.partition(".")
    if scope == "user":
        data = data_folder(os.environ if environ is None else environ)
        return Place(str(data / "refold" / "memory" / scope))
    if scope == "project" or (kind == "agent" and name):
        conversation_checked(name or scope)
        memory = project_folder() / "memory"
        check_owner(memory, memory / scope)
        return Place(str(memory / scope), plain=(str(memory), str(memory / scope)))
    raise Invalid(f"scope={quoted(scope)} is not a scope", hint=f"one of {', '.join(SCOPES)}")


class Place:
    """The files of one folder of memories. `plain` are parent folders that must not be links: a
    project from another author could redirect memories elsewhere."""

    def __init__(self, folder: str, *, plain: tuple[str, ...] = ()) -> None:
        disk.check_name(folder)
        if not folder or os.path.expanduser(folder).startswith("~"):
            raise Invalid(f"folder={quoted(folder, 200)} is not a folder", hint="give its path")
        self.folder = os.path.abspath(os.path.expanduser(folder))
        self.tree = os.path.join(self.folder, "memories")
        self._staging = os.path.join(self.folder, "staging")
        history = os.path.join(self.folder, "history")
        self.history = f"sqlite:{history}.db"
        self._plain = (*plain, f"{history}.db", f"{history}.artifacts")

    def check(self) -> None:
        """Raises Denied if one of our files or folders is a link."""
        if any(map(os.path.islink, self._plain)):
            raise Denied(f"Error: A link leads out of the folder of {ROOT}")

    @contextmanager
    def locked(self) -> Iterator[int]:
        """A descriptor of the staging folder, under the lock of the place."""
        self.check()
        for folder in (self.tree, self._staging):
            if not os.path.islink(folder):
                disk.make_folder(folder)
        flags = os.O_RDWR | os.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
        lock = os.open(os.path.join(self.folder, "lock"), flags, FILE_MODE)
        with disk.closing(lock):
            disk.lock(lock, ROOT, wait_s=LOCK_S)
            try:
                opened = os.open(self._staging, FOLDER)
            except NotADirectoryError as error:
                raise Denied(f"Error: the staging folder of {ROOT} is a link") from error
            with disk.closing(opened) as staging:
                clear(staging)
                yield staging
