"""The folders and small files of a `files:` store: their names, and how they are made, replaced,
locked and removed.

    DIR/conversations/ID/messages.jsonl   the log, one event a line
                         metadata.json    title, time, and where a fork left its parent
                         artifacts/       links to the contents that its events name, each with
                                          a `.meta.json`
                         bookmark         derived, disposable
    DIR/artifacts/                        contents, kept once for all conversations
    DIR/index.json                        the list of conversations: derived, rebuilt when it is
                                          missing or old

A conversation's folder appears whole, by one rename, and disappears by one. A name that begins with
a dot is on its way in or out and belongs to nobody once the lock of the tree is free. Neighbours:
`folder` is one folder, `store` the store.

`conversations/ID/artifacts/`: what the conversation's events name, for a person or a grep.

A content lies once in the store's own `artifacts/`; here it has a second name, and beside it
`NAME.meta.json` with what the event says about it. Derived from log and contents: whatever is
missing here is still found by its digest. Neighbour: `store` keeps the links up to date.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from refold.core import codec
from refold.core.model import Artifact, Event
from refold.errors import Corrupt, Invalid
from refold.stores import checks
from refold.system import disk

LOCK_S = disk.LOCK_S
NEW, GONE = ".new-", ".gone-"
_OWN = os.O_CLOEXEC | os.O_NOFOLLOW
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)


class Tree:
    """Where everything of one store lies."""

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
        """Refuses a link that another user may point elsewhere, and what is not a folder."""
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

    def make(self) -> None:
        """The folders of the store itself."""
        disk.make_folder(self.conversations, durable=self.durable)

    @contextmanager
    def locked(self, *, wait_s: float | None = None) -> Iterator[None]:
        """Alone in the tree: what makes, forks, erases or removes a conversation waits for each
        other."""
        self.make()
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
        """Makes the folder with these files and what `fill` puts there, all at once. False if
        there is one already."""
        pending = self._hidden(NEW)
        disk.make_folder(pending, durable=False)
        try:
            write_files(pending, files, durable=durable)
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
        """A path for a folder that is on its way in or out."""
        return os.path.join(self.conversations, prefix + secrets.token_hex(16))

    def remove(self, id: str) -> None:
        """Takes the folder away by one rename, then empties it."""
        gone = self._hidden(GONE)
        os.rename(self.folder(id), gone)
        if self.durable:
            disk.sync_folder(self.conversations)
        shutil.rmtree(gone)

    def _sweep(self) -> None:
        """Removes what a killed process left on its way. We hold the lock, so it is nobody's."""
        if self._swept:
            return
        for name in os.listdir(self.conversations):
            if name.startswith((NEW, GONE)):
                shutil.rmtree(os.path.join(self.conversations, name), ignore_errors=True)
        self._swept = True


def folder_of(id: str) -> str:
    """The name of a conversation's folder: its id. With capitals in it, a mark follows that
    tells which letters they are, so that ids that differ only in case have two folders on every
    file system."""
    codec.conversation_checked(id)
    capitals = sum(1 << at for at, letter in enumerate(id) if letter.isupper())
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
    disk.lock(fd, path, wait_s=LOCK_S if wait_s is None else wait_s)


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


def write_files(folder: str, files: dict[str, bytes], *, durable: bool) -> None:
    """Writes several files; an empty one has nothing to sync."""
    for name, content in files.items():
        write_file(os.path.join(folder, name), content, durable=durable and bool(content))


def write_file(path: str, content: bytes, *, durable: bool) -> None:
    with disk.closing(open_new(path)) as fd:
        write_all(fd, content)
        if durable:
            disk.sync(fd)


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


def read_derived(path: str) -> bytes | None:
    """The same for a file that can be made again: one that cannot be read is none."""
    try:
        return read_file(path)
    except OSError:
        return None


def sync_path(path: str) -> None:
    """Makes the content of a file that was closed survive power loss; nothing if there is none. To
    open something else in its place could wait for ever."""
    if not disk.is_regular(path):
        return
    with suppress(FileNotFoundError), disk.closing(os.open(path, os.O_RDONLY | _OWN)) as fd:
        disk.sync(fd)


META = ".meta.json"

Location = Callable[[str], str | None]


def link(folder: str, events: Iterable[Event], location: Location) -> None:
    """Puts the contents that these events name into the folder."""
    for event in events:
        artifact = artifact_of(event)
        path = _path_of(artifact, location) if artifact else None
        if artifact and path:
            _link_one(folder, artifact, path)


def _link_one(folder: str, artifact: Artifact, path: str) -> None:
    disk.refuse_link(folder)
    disk.make_folder(folder, durable=False)
    name = os.path.join(folder, os.path.basename(path))
    # Where it has this name already, or the disk has no hard links, the .meta.json leads to the
    # content.
    with suppress(OSError):
        os.link(path, name)
    meta = msgspec.json.format(msgspec.json.encode(artifact), indent=2) + b"\n"
    replace_file(name + META, meta, durable=False)


def unlink(folder: str, digest: str, path: str | None) -> None:
    """Removes a content's name, and what is said about it, from the folder. `path` is where the
    content lies or lay, if that is known."""
    if os.path.islink(folder):
        return
    stems = {codec.artifact_id(digest), _stem(os.path.basename(path or ""))}
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if _stem(name) in stems:
                os.unlink(os.path.join(folder, name))


def _stem(name: str) -> str:
    return name.partition(".")[0]


def artifact_of(event: Event) -> Artifact | None:
    """What an artifact event says; None for any other, and for one that cannot be read: the fold
    will complain."""
    if event.kind != "artifact":
        return None
    try:
        body = codec.decode(event)
    except Corrupt:
        return None
    return body if isinstance(body, Artifact) else None


def _path_of(artifact: Artifact, location: Location) -> str | None:
    try:
        return location(artifact.digest)
    except Invalid:
        # A store keeps what it is given, even an event that names nothing.
        return None
