"""The folders and small files of a `files:` store: their names, how they come to be, are replaced,
locked and swept.

    DIR/conversations/ID/messages.jsonl   the log, one event a line
                         metadata.json    title, time, and where a fork left its parent
                         artifacts/       what its events name: links to the contents, `.meta.json` beside each
                         bookmark         derived, disposable
    DIR/artifacts/                        contents, kept once for all conversations
    DIR/index.json                        the list of conversations: derived, rebuilt when it is missing or old

A conversation's folder appears whole, by one rename, and disappears by one. A name that begins with
a dot is on its way in or out and belongs to nobody once the lock of the tree is free. Neighbours:
`files_folder` is one folder, `files` the store.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from refold.core import codec
from refold.errors import Denied, Invalid, Unavailable
from refold.stores.contents import make_folder, sync_folder

LOCK_S = 10.0
PAUSE_S = 0.000_2
PAUSE_MAX_S = 0.005
NEW, GONE = ".new-", ".gone-"
_OWN = os.O_CLOEXEC | os.O_NOFOLLOW


class Tree:
    """Where everything of one store lies."""

    def __init__(self, root: str, *, durable: bool = True) -> None:
        self.root, self.durable = root, durable
        self.conversations = os.path.join(root, "conversations")
        self.index = os.path.join(root, "index.json")
        self._lock_path = os.path.join(root, ".lock")
        self._swept = False

    def folder(self, id: str) -> str:
        return os.path.join(self.conversations, folder_of(id))

    def ids(self) -> list[str]:
        """The conversations that have a folder, sorted."""
        try:
            names = os.listdir(self.conversations)
        except FileNotFoundError:
            return []
        return sorted(id for name in names if (id := id_of(name)) is not None)

    def check(self) -> None:
        """A link that somebody else may turn elsewhere is no place for a private log, and a file
        is no folder."""
        for name in (self.root, self.conversations):
            try:
                found = os.lstat(name)
            except FileNotFoundError:
                continue
            if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
                raise Denied(
                    f"{name} is a link that belongs to user {found.st_uid}",
                    hint="use the real path of the store",
                )
            if not os.path.isdir(name):
                raise Invalid(
                    f"{name} is not a folder",
                    hint="name the folder of the store: files:.refold/tree",
                )

    def make(self) -> None:
        """The folders of the store itself."""
        make_folder(self.conversations, durable=self.durable)

    @contextmanager
    def locked(self, *, wait_s: float | None = None) -> Iterator[None]:
        """Alone in the tree: what makes, forks, erases or removes a conversation waits for each
        other."""
        self.make()
        fd = open_own(self._lock_path, os.O_RDWR)
        try:
            lock(fd, self._lock_path, wait_s=wait_s)
            self._sweep()
            yield
        finally:
            os.close(fd)

    def place(
        self,
        id: str,
        files: dict[str, bytes],
        *,
        durable: bool = False,
        fill: Callable[[str], None] | None = None,
    ) -> bool:
        """Makes the folder with these files and what `fill` puts there, all at once. False if
        there is one already."""
        pending = os.path.join(self.conversations, NEW + secrets.token_hex(16))
        make_folder(pending, durable=False)
        try:
            for name, content in files.items():
                write_file(os.path.join(pending, name), content, durable=durable and bool(content))
            if fill:
                fill(pending)
            os.rename(pending, self.folder(id))
        except BaseException as error:
            shutil.rmtree(pending, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                return False
            raise
        return True

    def remove(self, id: str) -> None:
        """Takes the folder away by one rename, then empties it."""
        gone = os.path.join(self.conversations, GONE + secrets.token_hex(16))
        os.rename(self.folder(id), gone)
        if self.durable:
            sync_folder(self.conversations)
        shutil.rmtree(gone)

    def _sweep(self) -> None:
        """Removes what a killed process left on its way. We hold the lock, so it is nobody's."""
        if not self._swept:
            for name in os.listdir(self.conversations):
                if name.startswith((NEW, GONE)):
                    shutil.rmtree(os.path.join(self.conversations, name), ignore_errors=True)
            self._swept = True


def folder_of(id: str) -> str:
    """The name of a conversation's folder: its id. With capitals in it, a mark follows that
    tells which letters they are, so that ids that differ only in case have two folders on every
    file system."""
    codec.conversation_checked(id)
    capitals = sum(1 << at for at, sign in enumerate(id) if sign.isupper())
    return f"{id}~{capitals:x}" if capitals else id


def id_of(name: str) -> str | None:
    """The conversation whose folder has this name; None if it is not a folder of ours."""
    id = name.partition("~")[0]
    try:
        return id if folder_of(id) == name else None
    except Invalid:
        return None


def lock(fd: int, path: str, *, wait_s: float | None = None) -> None:
    """Takes the lock of an open file, which the kernel gives back when its holder dies. Waits,
    but not for ever."""
    deadline, pause_s = time.monotonic() + (LOCK_S if wait_s is None else wait_s), PAUSE_S
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            raise Unavailable(f"{path} is busy", retry_after_s=1.0, hint="another process holds it")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)


def open_own(path: str, flags: int) -> int:
    """A file for the owner alone, whatever the umask; made if it is missing."""
    fd = os.open(path, flags | os.O_CREAT | _OWN, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def open_new(path: str) -> int:
    """An empty file for the owner alone; what was left half written in it is gone."""
    return open_own(path, os.O_RDWR | os.O_TRUNC | os.O_APPEND)


def write_all(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_file(path: str, content: bytes, *, durable: bool) -> None:
    fd = open_new(path)
    try:
        write_all(fd, content)
        if durable:
            sync(fd)
    finally:
        os.close(fd)


def replace_file(path: str, content: bytes, *, durable: bool) -> None:
    """Puts the content in place of the file's: whoever reads sees the old or the new. The caller
    holds a lock."""
    write_file(path + ".new", content, durable=durable)
    os.rename(path + ".new", path)


def remove_file(path: str) -> None:
    """Removes a file that may be there, and what a killed process left of one that was to
    replace it."""
    for name in (path, path + ".new"):
        with suppress(FileNotFoundError):
            os.unlink(name)


def read_file(path: str) -> bytes | None:
    """All of a small file of ours; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _OWN)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb", buffering=0) as file:
        return file.read()


def sync(fd: int) -> None:
    """Makes the content of an open file survive power loss."""
    if sys.platform == "darwin":
        # There fsync only hands the bytes to the drive, which may still forget them.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def sync_path(path: str) -> None:
    """The same for a file that was closed; nothing if there is none."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_RDONLY | _OWN)
        try:
            sync(fd)
        finally:
            os.close(fd)
