"""The disk under `/memories`, reached by descriptors: each name is opened in the folder before it,
and no link is followed.

A path that is checked and then opened can be swapped in between; a descriptor cannot. What is
neither a regular file nor a folder is refused before it could block. New content is written whole
in a staging folder outside of the tree, synced, and moved to its place by one system call.
Neighbours: `path` gives the names, `tree` decides what is done.

Where a folder of memories lies: one place per scope, with the visible tree and what is beside
it.

    PLACE/memories/    what the model sees as /memories
    PLACE/staging/     files on their way in or out, empty between two changes
    PLACE/history.db   every change, and artifacts/ with the contents
    PLACE/lock         held while something changes

Nothing of ours is inside the tree, so no name of the model can clash with it. The scope `user` lies
in the user's own data folder, `project` and `agent.NAME` in the `.refold` folder of the project.
Neighbours: `tree` works in a place.
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
from refold.core.codec import conversation_checked
from refold.errors import Conflict, Denied, Invalid, NotFound
from refold.memory.files.commands import ROOT, MemoryPath
from refold.settings.sources import data_folder, project_folder
from refold.system import disk
from refold.system.disk import closing, sync

Kind = Literal["file", "folder", "link", "other", "absent"]

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would wait for its writer for ever.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_MODE, FOLDER_MODE = 0o600, 0o700
CHUNK_BYTES = 1 << 16
ENTRIES_MAX = 100_000
LEVELS_MAX = 64


class Content(Struct, frozen=True):
    """The bytes of a file, and what the file was when they were read."""

    data: bytes
    stamp: tuple[int, int, int, int]


class Entry(Struct, frozen=True):
    """A file or folder below another, by the names that lead to it."""

    names: tuple[str, ...]
    size_bytes: int
    is_folder: bool


# --- walking ---


@contextmanager
def opened_folder(root: str, path: MemoryPath, *, absent: str, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder that the path leads to, reached name by name. `absent` is what
    is said if there is none; with `make` missing folders are made."""
    fd = _opened_root(root, absent)
    try:
        for depth, name in enumerate(path.inner, 1 + path.mounted):
            here = MemoryPath(path.names[:depth], path.mounted)
            inner = _step(fd, name, here, absent=absent, make=make)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _opened_root(root: str, absent: str) -> int:
    try:
        return os.open(root, FOLDER)
    except FileNotFoundError as error:
        raise NotFound(absent) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Denied(f"Error: {ROOT} is not a folder here, or it is a link") from error
        raise


def _step(fd: int, name: str, path: MemoryPath, *, absent: str, make: bool) -> int:
    made = make and _make_folder(fd, name)
    try:
        inner = os.open(name, FOLDER, dir_fd=fd)
    except FileNotFoundError as error:
        raise NotFound(absent) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise not_followed(kind_at(fd, name), path) from error
        raise
    if made:
        os.fchmod(inner, FOLDER_MODE)
    return inner


def _make_folder(fd: int, name: str) -> bool:
    """Makes a folder for the owner alone. False if something has that name already."""
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=fd)
    except FileExistsError:
        return False
    os.fsync(fd)
    return True


def not_followed(kind: Kind, path: MemoryPath) -> Denied | Invalid:
    """The error for what stands where a folder or a file is expected."""
    if kind == "link":
        return Denied(f"Path {path} would escape {ROOT} directory via a link")
    if kind == "file":
        return Invalid(f"Error: The path {path} is not a directory")
    return Invalid(f"Error: The path {path} is neither a file nor a directory")


def kind_at(fd: int, name: str) -> Kind:
    """What has this name in a folder; a link is a link, wherever it leads."""
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
    """Every file and folder below a folder, sorted, each folder before what is in it. Links,
    devices and what is deeper than `LEVELS_MAX` are left out."""
    with os.scandir(fd) as found:
        here = sorted(found, key=lambda entry: entry.name)
    for entry in here:
        path = (*names, entry.name)
        if entry.is_dir(follow_symlinks=False):
            yield Entry(path, 0, True)
            if len(path) < LEVELS_MAX:
                yield from _entries_in(fd, path)
        elif entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # Somebody may have deleted it meanwhile.
                yield Entry(path, entry.stat(follow_symlinks=False).st_size, False)


def _entries_in(fd: int, path: tuple[str, ...]) -> Iterator[Entry]:
    """The entries of a folder, unless it went away or was swapped since it was listed."""
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
    with closing(_opened_file(fd, name, path, absent)) as file:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise not_followed("other", path)
        if found.st_size > bytes_max:
            raise Invalid(
                f"Error: {path} has {found.st_size:,} bytes, more than {bytes_max:,} are not read"
            )
        return Content(_read(file, bytes_max), _stamp(found))


def _opened_file(fd: int, name: str, path: MemoryPath, absent: str) -> int:
    try:
        return os.open(name, FILE, dir_fd=fd)
    except FileNotFoundError as error:
        raise NotFound(absent) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise not_followed("link", path) from error
        raise


def _read(file: int, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    left = bytes_max
    while left > 0 and (part := os.read(file, min(CHUNK_BYTES, left))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _stamp_now(fd: int, name: str) -> tuple[int, int, int, int] | None:
    """What the file of that name is now; None if there is none."""
    try:
        return _stamp(os.stat(name, dir_fd=fd, follow_symlinks=False))
    except FileNotFoundError:
        return None


# --- writing ---


def put_new(staging: int, data: bytes, fd: int, name: str) -> None:
    """Writes a file that is not there yet. FileExistsError if it is, and nothing is changed."""
    staged = _staged(staging, data)
    try:
        os.link(staged, name, src_dir_fd=staging, dst_dir_fd=fd, follow_symlinks=False)
    finally:
        os.unlink(staged, dir_fd=staging)
    os.fsync(fd)


def replace(staging: int, data: bytes, fd: int, name: str, *, seen: Content) -> None:
    """Puts other bytes in the place of a file, whole or not at all. Conflict if it is no longer
    the one that was seen: somebody without our lock was faster."""
    staged = _staged(staging, data)
    try:
        if _stamp_now(fd, name) != seen.stamp:
            raise Conflict("Error: The file was changed by somebody else meanwhile. View it again.")
        os.rename(staged, name, src_dir_fd=staging, dst_dir_fd=fd)
    except BaseException:
        os.unlink(staged, dir_fd=staging)
        raise
    os.fsync(fd)


def move(source: int, old: str, target: int, new: str) -> None:
    """Gives a file or folder another name, perhaps in another folder."""
    os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
    os.fsync(target)
    os.fsync(source)


def remove(staging: int, fd: int, name: str) -> None:
    """Takes a file or a folder out of the tree by one system call, then removes it. Of a link,
    the link goes."""
    staged = uuid.uuid4().hex
    os.rename(name, staged, src_dir_fd=fd, dst_dir_fd=staging)
    os.fsync(fd)
    clear(staging)


def clear(staging: int) -> None:
    """Removes what is left in the staging folder: of this change, or of one that was killed."""
    with os.scandir(staging) as found:
        left = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in left:
        if is_folder:
            shutil.rmtree(name, dir_fd=staging)
        else:
            os.unlink(name, dir_fd=staging)


def _staged(staging: int, data: bytes) -> str:
    """The name of a file in the staging folder that has these bytes, durably."""
    name = uuid.uuid4().hex
    with closing(os.open(name, NEW, FILE_MODE, dir_fd=staging)) as file:
        os.fchmod(file, FILE_MODE)
        with os.fdopen(os.dup(file), "wb") as stream:
            stream.write(data)
        sync(file)
    return name


SCOPES = ("user", "project", "agent.NAME")
LOCK_S = 10.0


def place_of(scope: str, environ: Mapping[str, str] | None = None) -> Place:
    """The place of a scope."""
    kind, _, name = scope.partition(".")
    if scope == "user":
        data = data_folder(os.environ if environ is None else environ)
        return Place(str(data / "refold" / "memory" / scope))
    if scope == "project" or (kind == "agent" and name):
        conversation_checked(name or scope)
        memory = project_folder() / "memory"
        return Place(str(memory / scope), plain=(str(memory), str(memory / scope)))
    raise Invalid(f"scope={quoted(scope)} is not a scope", hint=f"one of {', '.join(SCOPES)}")


class Place:
    """The files of one folder of memories. `plain` are folders on the way that may not be links:
    a project comes from others, who would say where memories are read and written."""

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
        """Denied if a link stands where only a file or folder of ours may be."""
        if any(map(os.path.islink, self._plain)):
            raise Denied(f"Error: A link leads away from the place of {ROOT}")

    def make(self) -> None:
        """Makes the place and its folders, for the owner alone."""
        for folder in (self.tree, self._staging):
            if not os.path.islink(folder):
                disk.make_folder(folder)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """A descriptor of the staging folder, while nobody else changes anything here."""
        self.check()
        self.make()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(os.path.join(self.folder, "lock"), flags, FILE_MODE)
        with disk.closing(lock):
            disk.lock(lock, ROOT, wait_s=LOCK_S)
            with disk.closing(self._opened_staging()) as staging:
                clear(staging)
                yield staging

    def _opened_staging(self) -> int:
        try:
            return os.open(self._staging, FOLDER)
        except NotADirectoryError as error:
            raise Denied(f"Error: the staging folder of {ROOT} is a link") from error
