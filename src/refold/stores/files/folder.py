"""One conversation's folder, open: its log, its metadata, its bookmark; who may write, and what a
killed writer left.

The lock is on the log file itself. An erase puts another file in its place, so whoever got the lock
looks again whether it is the lock of the file that is there now. The title is written before the
event that gives it, together with the title before: whichever of the two a killed writer leaves,
the head of the log tells which one holds. Neighbours: `tree` has the names, `log` the lines.

The conversations' folders that are open, and those that are still to be synced.

Only so many folders stay open, and one that is closed is synced first: only a file that was open
all the time is sure to hear of a failed write. Neighbours: `folder` is one of them, `ancestry`
reads through them, `store` is above.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Corrupt, Denied, NotFound, RefoldError
from refold.stores import checks
from refold.stores.checks import batch_of
from refold.stores.files import tree
from refold.stores.files.log import LogFile
from refold.stores.files.tree import Tree
from refold.stores.protocol import Recovery
from refold.system import disk

VERSION = 1
LOG, METADATA, BOOKMARK, ARTIFACTS = "messages.jsonl", "metadata.json", "bookmark", "artifacts"
DAMAGED = f"{LOG}.damaged-"  # and when it was repaired
DIGEST_BYTES = 16

Stamp = tuple[int, int, int]


def stamp_of(path: str) -> Stamp | None:
    """What changes whenever the file does; None if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a conversation besides its log. `title_seq` is the event that gave the
    title, or one after it; where it lies above the head, that event was never written and
    `title_before` still holds."""

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
        """The title that holds while the log ends at `head`."""
        return self.title if self.title_seq <= head else self.title_before


_METADATA = decoding.decoder(Metadata)


class Folder:
    """The folder of one conversation. `is_new` says that names in it are still to be synced."""

    def __init__(
        self, id: str, path: str, *, durable: bool = True, read_only: bool = False
    ) -> None:
        self.id, self.path, self.durable, self._read_only = id, path, durable, read_only
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise Denied(f"{path} is a link", hint="put the folder itself there")
        self.log = self._open_log()
        self.is_new = self.is_held = False
        self._metadata: Metadata | None = None
        self._stamp: Stamp | None = None

    def _open_log(self) -> LogFile:
        try:
            return LogFile(self.file(LOG), read_only=self._read_only)
        except FileNotFoundError as error:
            # A folder comes whole and goes whole. An empty one is nobody's, and becomes ours with
            # the first append.
            if os.listdir(self.path):
                hint = "restore it from a copy, or move it away"
                raise Corrupt(f"{self.path} has no {LOG}", hint=hint) from error
            raise

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def close(self) -> None:
        self.log.close()

    # --- what it knows ---

    def refresh(self) -> None:
        """Learns what other writers appended."""
        try:
            self.log.refresh()
        except Corrupt:
            # While a torn tail is moved aside, old and new bytes may be read as one line: look
            # again, undisturbed. A file that may only be read has a lock as well.
            if not self.log.writable and not self._read_only:
                raise
            with self.exclusive():
                self.log.refresh()
        if self.log.newest is None and self.is_emptied:
            what = f"{self.log.path} is empty, but its bookmark is of events that it had"
            raise Corrupt(what, hint=codec.REPAIR)

    @property
    def is_emptied(self) -> bool:
        """Whether the log lost all its events: a bookmark is only kept of a log that has some. A
        fork has those of its parent."""
        if os.fstat(self.log.fd).st_size or self.metadata.parent:
            return False
        return self.bookmark() is not None

    @property
    def head(self) -> int:
        """The seq of the newest event; 0 if there is none, and then there is no conversation."""
        newest = self.log.newest
        return newest.seq if newest else self.metadata.parent_seq

    @property
    def metadata(self) -> Metadata:
        stamp = stamp_of(self.file(METADATA))
        if self._metadata is None or stamp != self._stamp:
            self._metadata, self._stamp = self._read_metadata(), stamp
        return self._metadata

    def about(self) -> Conversation:
        """The conversation, as a list shows it."""
        known, newest = self.metadata, self.log.newest
        return Conversation(
            id=self.id,
            head=self.head,
            chain=newest.chain if newest else bytes.fromhex(known.parent_chain),
            title=known.title_at(self.head),
            parent=known.parent,
            parent_seq=known.parent_seq,
            at_ms=known.at_ms,
            updated_ms=newest.at_ms if newest else known.at_ms,
        )

    def _read_metadata(self) -> Metadata:
        path = self.file(METADATA)
        content = tree.read_file(path)
        try:
            known = _METADATA.decode(content or b"")
            bytes.fromhex(known.parent_chain)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return self._metadata_by_log(error)
        if known.v > VERSION:
            raise checks.too_new(path, known.v, VERSION)
        if self.log.first not in (0, known.parent_seq + 1):
            said = f"{self.log.path} begins with event {self.log.first}"
            raise Corrupt(said, hint=codec.REPAIR)
        return known

    def _metadata_by_log(self, error: Exception) -> Metadata:
        """What the log itself tells: all there is to know, unless the conversation is a fork."""
        if self.log.first > 1:
            said = f"{self.file(METADATA)} does not say where {self.id!r} left its parent: {error}"
            hint = "restore the file from a copy; refold verify --repair keeps the log without it"
            raise Corrupt(said, hint=hint) from error
        if self.log.first == 0:
            return Metadata(id=self.id)
        title, title_seq = self.log.newest_title(checks.SEQ_MAX) or ("", 0)
        [first] = self.log.events(1, 1)
        return Metadata(id=self.id, title=title, title_seq=title_seq, at_ms=first.at_ms)

    # --- writing ---

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Alone with the log, which is up to date. False if another file has come in its place."""
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
        """Alone with the log, however damaged it is."""
        tree.lock(self.log.fd, self.log.path)
        try:
            yield
        finally:
            tree.unlock(self.log.fd)

    def append(self, events: Sequence[Event], batch: bytes) -> None:
        """Writes a batch; the caller holds the lock."""
        self._write_title(events)
        if self.head == 0:
            self.write_metadata(replace(self.metadata, at_ms=events[0].at_ms))
        self.log.append(events, batch)

    def _write_title(self, events: Sequence[Event]) -> None:
        """Writes the title that the events will give; one that a killed writer left for an event
        that never came goes."""
        known, head, title = self.metadata, self.head, checks.title_in(events)
        if title is not None:
            before, last = known.title_at(head), events[-1].seq
            self.write_metadata(replace(known, title=title, title_seq=last, title_before=before))
        elif known.title_seq > head:
            # Which event gave the title before is not known: none after the head.
            before = known.title_before
            self.write_metadata(replace(known, title=before, title_seq=head, title_before=""))

    def write_metadata(self, metadata: Metadata) -> None:
        """Replaces the metadata; the caller holds the lock."""
        tree.replace_file(self.file(METADATA), metadata.encoded(), durable=self.durable)
        self.is_new = True
        self._metadata = None

    def repair_if_free(self) -> Recovery | None:
        """Moves a torn tail aside, unless its writer is at work: then it is not torn."""
        if not self.log.writable or not disk.try_lock(self.log.fd):
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
        aside, size = f"{self.log.path}.quarantine", self.log.size - self.log.end
        self._copy_torn(aside)
        self.log.cut()
        return Recovery(conversation=self.id, file=aside, size_bytes=size)

    def _copy_torn(self, path: str) -> None:
        """Appends the torn tail to another file."""
        with disk.closing(tree.open_own(path, os.O_WRONLY | os.O_APPEND)) as fd:
            for piece in self.log.torn():
                tree.write_all(fd, piece)
            tree.write_all(fd, b"\n")
            if self.durable:
                disk.sync(fd)
                disk.sync_folder(self.path)

    def erase(self, seq: int) -> None:
        """Puts a log in place that has only the envelope of the event; the caller holds the lock.

        What was moved aside or kept goes as well: it may hold the same words.
        """
        with self._replacing() as fd:
            self.log.write_without(seq, fd)
            tree.remove_file(f"{self.log.path}.quarantine")
            for name in os.listdir(self.path):
                if name.startswith(DAMAGED):
                    os.unlink(self.file(name))

    def rewrite(self, events: Sequence[Event], metadata: Metadata, stamp: str) -> str:
        """Puts a log of these events in place and keeps the file that was there; gives its path.
        The caller holds the lock."""
        kept = self.file(f"{DAMAGED}{stamp}")
        with self._replacing() as fd:
            for event in events:
                tree.write_all(fd, batch_of([event]))
            os.link(self.log.path, kept)
            self.write_metadata(metadata)
        self.drop_bookmark()
        return kept

    @contextmanager
    def _replacing(self) -> Iterator[int]:
        """A new file that takes the place of the log at the end of the block. Whoever opens it
        must wait until we are done, as those do who have the old one."""
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
        """Makes everything that was written here survive power loss."""
        disk.sync(self.log.fd)
        if self.is_new:
            tree.sync_path(self.file(METADATA))
            disk.sync_folder(self.path)
            disk.sync_folder(os.path.dirname(self.path))
            self.is_new = False

    # --- the bookmark ---

    def bookmark(self) -> bytes | None:
        """The bookmark; None if there is none that can be read, or it is damaged, as it may be
        after power loss."""
        content = tree.read_derived(self.file(BOOKMARK))
        if content is None:
            return None
        digest, bookmark = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        return bookmark if codec.digest_of(b"", bookmark) == digest else None

    def keep_bookmark(self, bookmark: bytes) -> None:
        """Replaces the bookmark; the caller holds the lock. It is not synced, because it can be
        made again, but the log is: a bookmark of events that a power loss took would look like
        damage."""
        if self.durable:
            self.sync()
        content = codec.digest_of(b"", bookmark) + bookmark
        tree.replace_file(self.file(BOOKMARK), content, durable=False)

    def drop_bookmark(self) -> None:
        tree.remove_file(self.file(BOOKMARK))


OPEN_MAX = 64
RECOVERED_MAX = 100
TRIES_MAX = 100


class OpenFolders:
    """The open folders of a tree. `recovered` tells what was moved aside; `ended` is set by a
    sync that failed."""

    def __init__(self, tree: Tree) -> None:
        self.recovered: list[Recovery] = []
        self.ended: RefoldError | None = None
        self.has_changed = False
        self._tree = tree
        self._open: dict[str, Folder] = {}  # the last used comes last
        self._unsynced: set[str] = set()

    # --- one conversation ---

    def find(self, conversation: str) -> Folder | None:
        """The conversation's folder, opened and up to date; None if there is none."""
        folder = self._open.pop(codec.conversation_checked(conversation), None)
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
        """Where a file of a conversation lies."""
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
        """The folder as it lies there, its log not looked at: that may be damaged. NotFound if
        there is none. The caller closes it."""
        folder = self._folder_of(codec.conversation_checked(conversation))
        if folder is None:
            raise checks.unknown(conversation)
        return folder

    def known(self, conversation: str) -> Folder:
        """The folder, opened and up to date, or NotFound."""
        folder = self.find(conversation)
        if folder is None or folder.head == 0:
            raise checks.unknown(conversation)
        return folder

    @contextmanager
    def alone(self, conversation: str) -> Iterator[Folder | None]:
        """The folder, locked and repaired; None if there is none."""
        for _ in range(TRIES_MAX):
            # Whether an open one is up to date, the lock will tell.
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
                # Opening it for writing failed, and says why if it fails again.
                os.close(os.open(folder.log.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
            self.close(conversation)
        raise Conflict(f"{conversation!r} was replaced {TRIES_MAX} times", head=0)

    def about(self, conversation: str) -> Conversation | None:
        """What a list shows of it; None if there is none."""
        folder = self.find(conversation)
        return folder.about() if folder and folder.head else None

    def listed(self, conversation: str) -> Conversation | None:
        """The same, but one that is damaged is listed as well, without a head: it must not hide
        the others."""
        try:
            return self.about(conversation)
        except Corrupt:
            known = self._unread_metadata(conversation)
            return Conversation(
                id=conversation,
                head=0,
                chain=b"",
                parent=known.parent,
                parent_seq=known.parent_seq,
            )

    def close(self, conversation: str) -> None:
        """Closes the folder of one conversation; it is opened again when it is needed."""
        if folder := self._open.pop(conversation, None):
            folder.close()

    def close_all(self) -> None:
        """Closes every folder, without a sync."""
        while self._open:
            self._open.popitem()[1].close()

    def _close_oldest(self) -> None:
        """Closes what was not used for the longest time, until few enough are open."""
        while len(self._open) > OPEN_MAX:
            oldest = next(id for id, folder in self._open.items() if not folder.is_held)
            folder = self._open.pop(oldest)
            if oldest in self._unsynced:
                self.sync(folder)
            folder.close()

    def _note(self, recovery: Recovery | None) -> None:
        if recovery is not None and len(self.recovered) < RECOVERED_MAX:
            self.recovered.append(recovery)

    # --- what is to be synced ---

    def note_change(self, folder: Folder) -> None:
        """Notes that the folder is to be synced."""
        self._unsynced.add(folder.id)
        self.has_changed = True

    def note_new_name(self, conversation: str) -> None:
        """Notes that the folder, or the log in it, has just got its name: names are to be synced
        as well."""
        folder = self.known(conversation)
        folder.is_new = True
        self.note_change(folder)

    def sync(self, folder: Folder) -> None:
        """Makes what the folder holds survive power loss. A sync that fails ends the store."""
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
        """What is known about every conversation, besides its log, which may be damaged."""
        for id in self._tree.ids():
            try:
                folder = self.find(id)
            except Corrupt:
                known = self._unread_metadata(id)
                if not known.at_ms:
                    # Nothing is known of it: it may be a fork of any other.
                    raise
                yield id, known
                continue
            if folder and folder.head:
                yield id, folder.metadata

    def _unread_metadata(self, conversation: str) -> Metadata:
        """What the metadata say; nothing where they are damaged as well."""
        try:
            folder = self.unread(conversation)
        except (Corrupt, NotFound):
            return Metadata(id=conversation)
        with closing(folder):
            return folder.metadata
