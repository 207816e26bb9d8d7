"""The open folder of one conversation: log, metadata, bookmark, lock, and repair after a killed
writer; and the set of all open folders.

The lock is on the log file itself. An erase replaces that file, so a writer that gets the lock
checks whether the file is still the current one. The title is written before the event that sets
it, together with the previous title: if the writer is killed in between, the head of the log shows
which of the two is valid. The number of open folders is limited, and a folder is synced before it
is closed: only a file that stayed open is sure to report a failed write. Neighbours: `tree` has the
names, `log` the lines, `damaged_logs` reads through the folders, `store` is above.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.core import codec, ids
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Corrupt, Denied, NotFound, RefoldError
from refold.stores import checks
from refold.stores.event_lines import batch_of
from refold.stores.files import tree
from refold.stores.files.log import LogFile
from refold.stores.files.tree import Tree
from refold.stores.protocol import Recovery
from refold.system import disk, posix

VERSION = 1
LOG, METADATA, BOOKMARK, ARTIFACTS = "messages.jsonl", "metadata.json", "bookmark", "artifacts"
BOOKMARKS = "bookmarks"  # for places, by seq
DAMAGED = f"{LOG}.damaged-"  # and when it was repaired
DIGEST_BYTES = 16

Stamp = tuple[int, int, int]


def stamp_of(path: str) -> Stamp | None:
    """A value that changes with the file; None if there is no file."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a conversation. `title_seq` is the event that set the title, or a later one;
    if it is above the head, that event was never written and `title_before` is valid."""

    id: str
    title: str = ""
    title_seq: int = 0
    title_before: str = ""
    at_ms: int = 0
    parent: str = ""
    parent_seq: int = 0
    parent_chain: str = ""
    v: int = VERSION

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def title_at(self, head: int) -> str:
        """The valid title of a log that ends at `head`."""
        return self.title if self.title_seq <= head else self.title_before


_METADATA = decoding.decoder(Metadata)


class Folder:
    """The folder of one conversation. `is_new`: names in it need a sync."""

    def __init__(
        self, id: str, path: str, *, durable: bool = True, read_only: bool = False
    ) -> None:
        self.id, self.path, self.durable, self._read_only = id, path, durable, read_only
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise Denied(f"{path} is a link", hint="put the folder itself there")
        try:
            self.log = LogFile(self.file(LOG), read_only=read_only)
        except FileNotFoundError as error:
            # Folders appear and disappear complete. The first append takes over an empty one.
            if os.listdir(path):
                hint = "restore it from a copy, or move it away"
                raise Corrupt(f"{path} has no {LOG}", hint=hint) from error
            raise
        self.is_new = self.is_held = False
        self._metadata: Metadata | None = None
        self._stamp: Stamp | None = None

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def close(self) -> None:
        self.log.close()

    # --- reading ---

    def refresh(self) -> None:
        """Picks up the appends of other writers."""
        try:
            self.log.refresh()
        except Corrupt:
            # While a torn tail is moved aside, old and new bytes may be read as one line: read
            # again under the lock. A file without write permission has a lock as well.
            if not self.log.writable and not self._read_only:
                raise
            with self.exclusive():
                self.log.refresh()
        if self.log.newest is None and self.is_emptied:
            message = f"{self.log.path} is empty, but its bookmark was made from events"
            raise Corrupt(message, hint=codec.REPAIR)

    @property
    def is_emptied(self) -> bool:
        """Whether the log lost all its events: only a log with events has a bookmark. A fork shows
        its parent's events."""
        if os.fstat(self.log.fd).st_size or self.metadata.parent:
            return False
        return self.bookmark() is not None

    @property
    def head(self) -> int:
        """The seq of the newest event; 0 without events, and then there is no conversation."""
        newest = self.log.newest
        return newest.seq if newest else self.metadata.parent_seq

    @property
    def metadata(self) -> Metadata:
        stamp = stamp_of(self.file(METADATA))
        if self._metadata is None or stamp != self._stamp:
            self._metadata, self._stamp = self._read_metadata(), stamp
        return self._metadata

    def about(self) -> Conversation:
        """The conversation, for a listing."""
        metadata, newest = self.metadata, self.log.newest
        return Conversation(
            id=self.id,
            head=self.head,
            chain=newest.chain if newest else bytes.fromhex(metadata.parent_chain),
            title=metadata.title_at(self.head),
            parent=metadata.parent,
            parent_seq=metadata.parent_seq,
            at_ms=metadata.at_ms,
            updated_ms=newest.at_ms if newest else metadata.at_ms,
        )

    def _read_metadata(self) -> Metadata:
        path = self.file(METADATA)
        content = tree.read_file(path)
        try:
            metadata = _METADATA.decode(content or b"")
            bytes.fromhex(metadata.parent_chain)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return self._metadata_from_log(error)
        if metadata.v > VERSION:
            raise checks.too_new(path, metadata.v, VERSION)
        if self.log.first not in (0, metadata.parent_seq + 1):
            message = f"{self.log.path} begins with event {self.log.first}"
            raise Corrupt(message, hint=codec.REPAIR)
        return metadata

    def _metadata_from_log(self, error: Exception) -> Metadata:
        """The metadata from the log; Corrupt for a fork, because only the metadata file names its
        parent."""
        if self.log.first > 1:
            path = self.file(METADATA)
            message = f"{path} does not record where {self.id!r} left its parent: {error}"
            hint = "restore the file from a copy; refold verify --repair keeps its own events"
            raise Corrupt(message, hint=hint) from error
        if self.log.first == 0:
            return Metadata(id=self.id)
        title, title_seq = self.log.newest_title(checks.SEQ_MAX) or ("", 0)
        [first] = self.log.events(1, 1)
        return Metadata(id=self.id, title=title, title_seq=title_seq, at_ms=first.at_ms)

    # --- writing ---

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Locks the log and refreshes it. False if another file has replaced it."""
        with self.exclusive():
            is_current = self.log.is_current()
            if is_current:
                self.log.refresh()
            self.is_held = True
            try:
                yield is_current
            finally:
                self.is_held = False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Locks the log, however damaged it is."""
        tree.lock(self.log.fd, self.log.path)
        try:
            yield
        finally:
            tree.unlock(self.log.fd)

    def append(self, events: Sequence[Event], batch: bytes) -> None:
        """Writes a batch, after the title that its events set; the caller holds the lock."""
        metadata, head, title = self.metadata, self.head, checks.title_in(events)
        if title is not None:
            before, last = metadata.title_at(head), events[-1].seq
            self.write_metadata(replace(metadata, title=title, title_seq=last, title_before=before))
        elif metadata.title_seq > head:
            # A killed writer left the title of an event that it never wrote. The event that set the
            # previous title is unknown, but it is not above the head.
            before = metadata.title_before
            self.write_metadata(replace(metadata, title=before, title_seq=head, title_before=""))
        if head == 0:
            self.write_metadata(replace(self.metadata, at_ms=events[0].at_ms))
        self.log.append(events, batch)

    def write_metadata(self, metadata: Metadata) -> None:
        """Replaces the metadata; the caller holds the lock."""
        tree.replace_file(self.file(METADATA), metadata.encoded(), durable=self.durable)
        self.is_new = True
        self._metadata = None

    def repair_if_free(self) -> Recovery | None:
        """Moves a torn tail aside, unless a writer holds the lock: then it is not torn."""
        if not self.log.writable or not posix.lock(self.log.fd, waits=False):
            return None
        try:
            if not self.log.is_current():
                return None
            self.log.refresh()
            return self.repair()
        finally:
            tree.unlock(self.log.fd)

    def repair(self) -> Recovery | None:
        """Moves a torn tail aside; the caller holds the lock."""
        if not self.log.is_torn:
            return None
        quarantine, size = f"{self.log.path}.quarantine", self.log.size - self.log.end
        with disk.closing(tree.open_own(quarantine, os.O_WRONLY | os.O_APPEND)) as fd:
            for chunk in self.log.torn():
                tree.write_all(fd, chunk)
            tree.write_all(fd, b"\n")
            if self.durable:
                disk.sync(fd)
                disk.sync_folder(self.path)
        self.log.cut()
        return Recovery(conversation=self.id, file=quarantine, size_bytes=size)

    def erase(self, seq: int) -> None:
        """Replaces the log by one with only the envelope of the event. Quarantined tails and copies
        of repairs are removed: they may have the same text. The caller holds the lock."""
        with self._replacing() as fd:
            self.log.write_without(seq, fd)
            tree.remove_file(f"{self.log.path}.quarantine")
            for name in os.listdir(self.path):
                if name.startswith(DAMAGED):
                    os.unlink(self.file(name))

    def rewrite(self, events: Sequence[Event], metadata: Metadata, stamp: str) -> str:
        """Replaces the log by these events; returns the path under which the old file is kept. The
        caller holds the lock."""
        copy = self.file(f"{DAMAGED}{stamp}")
        with self._replacing() as fd:
            for event in events:
                tree.write_all(fd, batch_of([event]))
            os.link(self.log.path, copy)
            self.write_metadata(metadata)
        self.drop_bookmarks()
        return copy

    @contextmanager
    def _replacing(self) -> Iterator[int]:
        """Opens a new file that replaces the log at the end of the block. It is locked, so that
        writers wait for it as they do for the old one."""
        path, new = self.log.path, self.log.path + ".new"
        with disk.closing(tree.open_new(new)) as fd:
            tree.lock(fd, new)
            yield fd
            if self.durable:
                disk.sync(fd)
            os.rename(new, path)
            if self.durable:
                disk.sync_folder(self.path)

    def sync(self) -> None:
        """Makes every write to this folder survive power loss."""
        disk.sync(self.log.fd)
        if self.is_new:
            tree.sync_path(self.file(METADATA))
            disk.sync_folder(self.path)
            disk.sync_folder(os.path.dirname(self.path))
            self.is_new = False

    # --- the bookmark ---

    def bookmark(self) -> bytes | None:
        """The bookmark; None if it is missing, unreadable, or damaged as after a power loss."""
        content = tree.read_derived(self.file(BOOKMARK))
        if content is None:
            return None
        digest, bookmark = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        return bookmark if codec.digest_of(b"", bookmark) == digest else None

    def keep_bookmark(self, bookmark: bytes) -> None:
        """Replaces the bookmark; the caller holds the lock. The log is synced first: a bookmark of
        events that were lost in a power cut would look like damage. The bookmark itself is
        disposable."""
        if self.durable:
            self.sync()
        content = codec.digest_of(b"", bookmark) + bookmark
        tree.replace_file(self.file(BOOKMARK), content, durable=False)

    def bookmark_upto(self, at: int) -> bytes | None:
        """The newest bookmark for a position up to `at`."""
        path = self.file(BOOKMARKS)
        try:
            seqs = [int(name) for name in os.listdir(path) if name.isdecimal()]
        except OSError:
            return None
        newest = max((seq for seq in seqs if seq <= at), default=None)
        return None if newest is None else tree.read_derived(os.path.join(path, str(newest)))

    def keep_bookmark_at(self, at: int, bookmark: bytes) -> None:
        """Keeps a bookmark for a position; the caller holds the lock."""
        path = self.file(BOOKMARKS)
        disk.refuse_link(path)
        disk.make_folder(path, durable=False)
        tree.replace_file(os.path.join(path, str(at)), bookmark, durable=False)

    def drop_bookmarks(self) -> None:
        drop_bookmarks(self.path)


def drop_bookmarks(folder: str) -> None:
    """Removes all bookmarks in the folder of a conversation."""
    tree.remove_file(os.path.join(folder, BOOKMARK))
    path = os.path.join(folder, BOOKMARKS)
    if os.path.lexists(path):
        disk.refuse_link(path)
        shutil.rmtree(path)


# --- all open folders ---

OPEN_MAX = 64
RECOVERED_MAX = 100
TRIES_MAX = 100


class OpenFolders:
    """The open folders of a tree. `recovered` lists the torn tails moved aside; a failed sync sets
    `ended`."""

    def __init__(self, tree: Tree) -> None:
        self.recovered: list[Recovery] = []
        self.ended: RefoldError | None = None
        self.has_changed = False
        self._tree = tree
        self._open: dict[str, Folder] = {}  # the last used comes last
        self._unsynced: set[str] = set()

    # --- one conversation ---

    def find(self, conversation: str) -> Folder | None:
        """The conversation's folder, opened and refreshed; None if there is no folder."""
        folder = self._open.pop(ids.conversation_checked(conversation), None)
        if folder is None or not folder.log.is_current():
            if folder is not None:
                folder.close()
            folder = self._folder_of(conversation)
            if folder is None:
                return None
        self._open[conversation] = folder
        self._close_oldest()
        folder.refresh()
        if folder.log.is_torn and not self._tree.read_only:
            self._note(folder.repair_if_free())
        return folder

    def path(self, conversation: str, name: str) -> str:
        """The path of a file of a conversation."""
        return os.path.join(self._tree.folder(conversation), name)

    def _folder_of(self, conversation: str) -> Folder | None:
        self._tree.check()
        path = self._tree.folder(conversation)
        try:
            durable, read_only = self._tree.durable, self._tree.read_only
            return Folder(conversation, path, durable=durable, read_only=read_only)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def unread(self, conversation: str) -> Folder:
        """The folder, without reading its log, which may be damaged; NotFound if there is no
        folder. The caller closes it."""
        folder = self._folder_of(ids.conversation_checked(conversation))
        if folder is None:
            raise checks.unknown(conversation)
        return folder

    def existing(self, conversation: str) -> Folder:
        """The folder, opened and refreshed, or NotFound."""
        folder = self.find(conversation)
        if folder is None or folder.head == 0:
            raise checks.unknown(conversation)
        return folder

    @contextmanager
    def alone(self, conversation: str) -> Iterator[Folder | None]:
        """The folder, locked and repaired; None if there is no folder."""
        for _ in range(TRIES_MAX):
            # The lock tells whether an open folder is current.
            folder = self._open.get(conversation) or self.find(conversation)
            if folder is None:
                yield None
                return
            if folder.log.writable:
                with folder.locked() as is_current:
                    if is_current:
                        self._note(folder.repair())
                        yield folder
                        return
            else:
                # Opening it for writing failed; a second attempt raises the reason.
                os.close(os.open(folder.log.path, os.O_RDWR | posix.O_CLOEXEC | posix.O_NOFOLLOW))
            self.close(conversation)
        raise Conflict(f"{conversation!r} was replaced {TRIES_MAX} times", head=0)

    def about(self, conversation: str) -> Conversation | None:
        """The conversation, for a listing; None if there is no such conversation."""
        folder = self.find(conversation)
        return folder.about() if folder and folder.head else None

    def listed(self, conversation: str) -> Conversation | None:
        """The same, but with head 0 for a damaged log, which must not hide the other
        conversations."""
        try:
            return self.about(conversation)
        except Corrupt:
            metadata = self._unread_metadata(conversation)
            parent, parent_seq = metadata.parent, metadata.parent_seq
            return Conversation(
                id=conversation, head=0, chain=b"", parent=parent, parent_seq=parent_seq
            )

    def close(self, conversation: str) -> None:
        """Closes the folder of one conversation; the next use opens it again."""
        if folder := self._open.pop(conversation, None):
            folder.close()

    def close_all(self) -> None:
        """Closes every folder, without a sync."""
        while self._open:
            self._open.popitem()[1].close()

    def _close_oldest(self) -> None:
        """Closes the least recently used folders above the limit."""
        while len(self._open) > OPEN_MAX:
            oldest = next(id for id, folder in self._open.items() if not folder.is_held)
            folder = self._open.pop(oldest)
            if oldest in self._unsynced:
                self.sync(folder)
            folder.close()

    def _note(self, recovery: Recovery | None) -> None:
        if recovery is not None and len(self.recovered) < RECOVERED_MAX:
            self.recovered.append(recovery)

    # --- syncing ---

    def note_change(self, folder: Folder) -> None:
        """Notes that the folder needs a sync."""
        self._unsynced.add(folder.id)
        self.has_changed = True

    def note_new_name(self, conversation: str) -> None:
        """Notes that the folder, or the log in it, has a new name, which needs a sync as well."""
        folder = self.existing(conversation)
        folder.is_new = True
        self.note_change(folder)

    def sync(self, folder: Folder) -> None:
        """Makes the folder's files survive power loss. A failed sync ends the store."""
        try:
            folder.sync()
        except OSError as error:
            self.ended = disk.os_failure(error, f"cannot sync {folder.path}; open the store again")
            raise self.ended from error
        self._unsynced.discard(folder.id)

    def flush(self) -> None:
        """Syncs every folder that was written to."""
        for conversation in sorted(self._unsynced):
            if folder := self._open.get(conversation) or self.find(conversation):
                self.sync(folder)
            self._unsynced.discard(conversation)

    def metadatas(self) -> Iterator[tuple[str, Metadata]]:
        """The metadata of every conversation, including those with a damaged log."""
        for id in self._tree.ids():
            try:
                folder = self.find(id)
            except Corrupt:
                metadata = self._unread_metadata(id)
                if not metadata.at_ms:
                    # Without metadata it may be a fork of any other.
                    raise
                yield id, metadata
                continue
            if folder and folder.head:
                yield id, folder.metadata

    def _unread_metadata(self, conversation: str) -> Metadata:
        """The metadata of a damaged log; empty if they are damaged as well."""
        try:
            folder = self.unread(conversation)
        except (Corrupt, NotFound):
            return Metadata(id=conversation)
        with closing(folder):
            return folder.metadata
