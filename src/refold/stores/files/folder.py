"""One conversation's folder, open: its log, its metadata, its bookmark; who may write, and what a
killed writer left.

The lock is on the log file itself. An erase puts another file in its place, so whoever got the lock
looks again whether it is the lock of the file that is there now. The title is written before the
event that gives it, together with the title before: whichever of the two a killed writer leaves,
the head of the log tells which one holds. Neighbours: `tree` has the names, `log` the lines.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Corrupt, Denied
from refold.stores import checks
from refold.stores.files import tree
from refold.stores.files.log import LogFile
from refold.stores.lines import batch_of
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
            hint = "restore the file from a copy; refold repair keeps the conversation's own events"
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
