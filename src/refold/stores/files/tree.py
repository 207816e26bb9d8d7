"""The folders and small files of a `files:` store: their names, and how they are made, replaced,
locked and removed.

    DIR/conversations/ID/messages.jsonl   the log, one event a line
                         metadata.json    title, time, and where a fork left its parent
                         artifacts/       links to the contents that its events name, each with
                                          a `.meta.json`
                         bookmark         derived, disposable
                         bookmarks/       the same for earlier places, by seq
    DIR/artifacts/                        contents, kept once for all conversations
    DIR/index.json                        the list of conversations: derived, disposable

A conversation's folder appears complete, by one rename, and disappears by one. A name that begins
with a dot is being created or removed, and is garbage once the lock of the tree is free. The links
to artifacts are derived from log and contents: a missing one is still found by its digest.
Neighbours: `conversation_folder` is one folder, `store` the store.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import msgspec

from refold.core import codec, ids
from refold.core.model import Artifact, Event
from refold.errors import Corrupt, Invalid
from refold.stores import checks
from refold.system import disk, posix

LOCK_S = disk.LOCK_S
NEW, GONE = ".new-", ".gone-"
_OWN = posix.O_CLOEXEC | posix.O_NOFOLLOW
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)


class Tree:
    """The paths of one store."""

    def __init__(self, root: str, *, durable: bool = True, read_only: bool = False) -> None:
        self.root, self.durable, self.read_only = root, durable, read_only
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
        """Raises an error for a link that another user may point elsewhere, or for a file."""
        for name in (self.root, self.conversations):
            try:
                found = os.lstat(name)
            except FileNotFoundError:
                continue
            checks.refuse_link_of_another(name, found)
            if name == self.conversations:
                disk.refuse_link(name)
            if not os.path.isdir(name):
                hint = "name the folder of the store: files:.refold/tree"
                raise Invalid(f"{name} is not a folder", hint=hint)

    @contextmanager
    def locked(self, *, wait_s: float | None = None) -> Iterator[None]:
        """Locks the tree, to create, fork, erase or delete a conversation."""
        disk.make_folder(self.conversations, durable=self.durable)
        with disk.closing(open_own(self._lock_path, os.O_RDWR)) as fd:
            lock(fd, self._lock_path, wait_s=wait_s)
            self._sweep()
            yield

    def place(
        self,
        id: str,
        files: dict[str, bytes],
        *,
        durable: bool = False,
        fill: Callable[[str], None] | None = None,
    ) -> bool:
        """Creates the folder with these files and those that `fill` adds, all at once. False if it
        already exists."""
        pending = self._hidden(NEW)
        disk.make_folder(pending, durable=False)
        try:
            for name, content in files.items():
                # An empty file has nothing to sync.
                is_durable = durable and bool(content)
                write_file(os.path.join(pending, name), content, durable=is_durable)
            if fill:
                fill(pending)
            os.rename(pending, self.folder(id))
        except BaseException as error:
            shutil.rmtree(pending, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in _TAKEN:
                return False
            raise
        return True

    def _hidden(self, prefix: str) -> str:
        """A path for a folder that is being created or removed."""
        return os.path.join(self.conversations, prefix + secrets.token_hex(16))

    def remove(self, id: str) -> None:
        """Removes the folder: hides it by one rename, then deletes it."""
        gone = self._hidden(GONE)
        os.rename(self.folder(id), gone)
        if self.durable:
            disk.sync_folder(self.conversations)
        shutil.rmtree(gone)

    def _sweep(self) -> None:
        """Removes the leftovers of killed processes. The caller holds the lock of the tree."""
        if self._swept:
            return
        for name in os.listdir(self.conversations):
            if name.startswith((NEW, GONE)):
                shutil.rmtree(os.path.join(self.conversations, name), ignore_errors=True)
        self._swept = True


def folder_of(id: str) -> str:
    """The name of a conversation's folder: its id, followed by a bit mask of its capital letters if
    it has any, so that ids that differ only in case have two folders on every file system."""
    ids.conversation_checked(id)
    capitals = sum(1 << at for at, letter in enumerate(id) if letter.isupper())
    return f"{id}~{capitals:x}" if capitals else id


def id_of(name: str) -> str | None:
    """The conversation whose folder has this name; None for a foreign name."""
    id = name.partition("~")[0]
    try:
        return id if folder_of(id) == name else None
    except Invalid:
        return None


def lock(fd: int, path: str, *, wait_s: float | None = None) -> None:
    """Locks an open file, waiting up to a timeout. The kernel releases the lock of a dead
    process."""
    disk.lock(fd, path, wait_s=LOCK_S if wait_s is None else wait_s)


def unlock(fd: int) -> None:
    posix.unlock(fd)


def open_own(path: str, flags: int) -> int:
    """Opens a file that only its owner can read, whatever the umask; created if it is missing."""
    fd = os.open(path, flags | os.O_CREAT | _OWN, 0o600)
    posix.set_mode(fd, 0o600)
    return fd


def open_new(path: str) -> int:
    """Opens an empty file that only its owner can read; a half-written one is truncated."""
    return open_own(path, os.O_RDWR | os.O_TRUNC | os.O_APPEND)


def write_all(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_file(path: str, content: bytes, *, durable: bool) -> None:
    with disk.closing(open_new(path)) as fd:
        write_all(fd, content)
        if durable:
            disk.sync(fd)


def replace_file(path: str, content: bytes, *, durable: bool) -> None:
    """Replaces the file: a reader sees the old content or the new. The caller holds a lock."""
    write_file(path + ".new", content, durable=durable)
    os.rename(path + ".new", path)


def remove_file(path: str) -> None:
    """Removes a file if it exists, and the half-written replacement of a killed process."""
    for name in (path, path + ".new"):
        with suppress(FileNotFoundError):
            os.unlink(name)


def read_file(path: str) -> bytes | None:
    """The content of a small file; None if there is no file."""
    try:
        fd = os.open(path, os.O_RDONLY | posix.O_NONBLOCK | _OWN)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb", buffering=0) as file:
        return file.read()


def read_derived(path: str) -> bytes | None:
    """The content of a derived file; None also if it is unreadable."""
    try:
        return read_file(path)
    except OSError:
        return None


def sync_path(path: str) -> None:
    """Makes the content of a closed file survive power loss, if the file exists."""
    # Opening a named pipe in its place could wait forever.
    if not disk.is_regular(path):
        return
    with suppress(FileNotFoundError), disk.closing(os.open(path, os.O_RDONLY | _OWN)) as fd:
        disk.sync(fd)


# --- links to artifacts ---

META = ".meta.json"

Location = Callable[[str], str | None]


def link(folder: str, events: Iterable[Event], location: Location) -> None:
    """Links the artifacts of these events into the folder, each with its metadata beside it."""
    for event in events:
        artifact = artifact_of(event)
        path = None
        # A store keeps every event, even one with a malformed digest.
        with suppress(Invalid):
            path = location(artifact.digest) if artifact else None
        if path is None:
            continue
        disk.refuse_link(folder)
        disk.make_folder(folder, durable=False)
        name = os.path.join(folder, os.path.basename(path))
        # Where the link already exists, or the disk has no hard links, the .meta.json leads to the
        # content.
        with suppress(OSError):
            os.link(path, name)
        created = datetime.fromtimestamp(min(event.at_ms, disk.HAPPENED_MS_MAX) / 1_000, UTC)
        about = {**msgspec.to_builtins(artifact), "createdAt": created.isoformat()}
        meta = msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n"
        replace_file(name + META, meta, durable=False)


def unlink(folder: str, digest: str, path: str | None) -> None:
    """Removes the link to some content, and the content's metadata, from the folder. `path` is
    where the content is or was, if that is known."""
    if os.path.islink(folder):
        return
    stems = {ids.artifact_id(digest), _stem(os.path.basename(path or ""))}
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if _stem(name) in stems:
                os.unlink(os.path.join(folder, name))


def _stem(name: str) -> str:
    return name.partition(".")[0]


def artifact_of(event: Event) -> Artifact | None:
    """The body of an artifact event; None for any other, and for an unreadable one: the fold
    reports it."""
    if event.kind != "artifact":
        return None
    try:
        body = codec.decode(event)
    except Corrupt:
        return None
    return body if isinstance(body, Artifact) else None
