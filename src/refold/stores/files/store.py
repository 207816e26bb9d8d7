"""Logs as a readable tree of plain files: one line of JSON an event, for `less`, `grep`, `jq` and
version control.

An append is one write at the end of `messages.jsonl` under the lock of that file; it survives kill
-9. `flush` is one fdatasync for each written log, and a sync of the folders with new names. Readers
take no lock: bytes before the last complete batch never change under them. After a failed sync the
store ends, because the kernel may have dropped the pages and would report success the next time;
opened again, it reads what really is on the disk. Creating, forking, erasing and deleting also hold
the lock of the tree, which is taken before the lock of a log.

Neighbours: `tree` has the names and locks, `conversation_folder` the open conversations,
`conversation_list` their list, `damaged_logs` forks and repairs, `stores.artifact_files` the
artifacts.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from refold.core.ids import (
    conversation_checked,
)
from refold.core.model import Conversation, Event
from refold.errors import Conflict, RefoldError
from refold.stores import checks
from refold.stores.artifact_files import Artifacts
from refold.stores.event_lines import batch_of
from refold.stores.files import tree
from refold.stores.files.conversation_folder import (
    ARTIFACTS,
    LOG,
    METADATA,
    TRIES_MAX,
    Folder,
    Metadata,
    OpenFolders,
)
from refold.stores.files.conversation_list import ConversationList
from refold.stores.files.damaged_logs import Ancestry, DamagedLogs
from refold.stores.files.tree import Tree
from refold.stores.protocol import Recovery, Salvage
from refold.system import disk, process_fork

P = ParamSpec("P")
R = TypeVar("R")


def _guarded(
    method: Callable[Concatenate[FilesStore, P], R],
) -> Callable[Concatenate[FilesStore, P], R]:
    """Runs a method for one thread at a time, and translates every error into one of refold's."""

    @functools.wraps(method)
    def guarded(self: FilesStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with self._lock:
                self._check_alive()
                return method(self, *args, **kwargs)
        except OSError as error:
            path = error.filename if isinstance(error.filename, str) else self.root
            raise disk.os_failure(error, f"cannot use {path}") from error

    return guarded


@checks.checked_store
class FilesStore:
    """Keeps logs and artifacts as files in a folder; satisfies `Store`."""

    def __init__(self, path: str, *, durable: bool = True, read_only: bool = False) -> None:
        self.root = os.path.abspath(path)
        self.url = f"files:{self.root}"
        self._tree = Tree(self.root, durable=durable, read_only=read_only)
        folder = os.path.join(self.root, "artifacts")
        self._artifacts = Artifacts(folder, durable=durable, read_only=read_only)
        self._list = ConversationList(self._tree)
        self._lock = threading.RLock()
        self._folders = OpenFolders(self._tree)
        self._ancestry = Ancestry(self._folders)
        self._damaged = DamagedLogs(self._folders, self._ancestry)
        process_fork.watch(self)

    @property
    def recovered(self) -> list[Recovery]:
        """The torn tails that killed writers left, and where they were moved."""
        return self._folders.recovered

    # --- logs ---

    @_guarded
    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        self._tree.check()
        found: list[Conversation] = []
        for id in self._tree.ids():
            if len(found) >= limit:
                break
            about = self._list.about(id, self._folders.listed) if id > after else None
            if about:
                found.append(about)
        return found

    @_guarded
    def head(self, conversation: str) -> int | None:
        folder = self._folders.find(conversation)
        return folder.head or None if folder else None

    @_guarded
    def conversation(self, conversation: str) -> Conversation:
        return self._folders.existing(conversation).about()

    @_guarded
    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        head, after = self._folders.existing(conversation).head, checks.bounded(after)
        end = head if last is None else min(checks.bounded(last), head)
        if after >= end:
            return []
        return self._ancestry.span(conversation, after, end, checks.bounded(limit))

    @_guarded
    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        checks.check_append(conversation, events, expect)
        if not events:
            return
        batch = batch_of(events)
        for _ in range(TRIES_MAX):
            with self._folders.alone(conversation) as folder:
                if folder is not None:
                    self._append(folder, events, batch, expect)
                    return
            if expect:
                raise checks.moved(conversation, expect, 0)
            if self._create(conversation, events, batch):
                return
        raise Conflict(f"{conversation!r} came and went {TRIES_MAX} times", head=0)

    def _append(self, folder: Folder, events: Sequence[Event], batch: bytes, expect: int) -> None:
        head = folder.head
        if head != expect:
            if events[-1].seq <= head and self._ancestry.has(folder.id, events):
                return
            raise checks.moved(folder.id, expect, head)
        tree.link(folder.file(ARTIFACTS), events, self._artifacts.location)
        folder.append(events, batch)
        self._folders.note_change(folder)

    def _create(self, conversation: str, events: Sequence[Event], batch: bytes) -> bool:
        """Creates the folder with the first events in it. Returns False if another process was
        faster."""

        def fill(folder: str) -> None:
            tree.link(os.path.join(folder, ARTIFACTS), events, self._artifacts.location)

        title = checks.title_in(events)
        metadata = Metadata(
            id=conversation,
            title=title or "",
            title_seq=0 if title is None else events[-1].seq,
            at_ms=events[0].at_ms,
        )
        files = {METADATA: metadata.encoded(), LOG: batch}
        with self._structure():
            if not self._tree.place(conversation, files, fill=fill):
                return False
            self._folders.note_new_name(conversation)
        return True

    @_guarded
    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        folder = self._folders.find(conversation)
        if folder is None or at is None:
            return folder.bookmark() if folder else None
        for holder, _, last in self._ancestry.upwards(conversation, at):
            found = self._folders.existing(holder).bookmark_upto(last)
            if found is not None:
                return found
        return None

    @_guarded
    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        with self._folders.alone(conversation) as folder:
            if folder is None or folder.head == 0:
                raise checks.unknown(conversation)
            if at is None:
                folder.keep_bookmark(bytes(data))
            else:
                folder.keep_bookmark_at(at, bytes(data))

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        self._check_alive()
        return self._artifacts.put(chunks, suffix=suffix)

    def get(self, digest: str) -> Iterator[bytes]:
        return self._artifacts.get(digest)

    def location(self, digest: str) -> str | None:
        return self._artifacts.location(digest)

    @_guarded
    def drop(self, digest: str, *, before_ms: int) -> bool:
        # The hard links in the conversations' folders would keep the bytes alive.
        path = self._artifacts.location(digest)
        if not self._artifacts.drop(digest, before_ms=before_ms):
            return False
        for id in self._tree.ids():
            tree.unlink(os.path.join(self._tree.folder(id), ARTIFACTS), digest, path)
        return True

    def derived_path(self, name: str) -> str:
        """A path in the folder of the store, which belongs to it alone."""
        return os.path.join(self.root, name)

    # --- forks, and removing ---

    @_guarded
    def fork(self, conversation: str, at: int, new: str) -> None:
        conversation_checked(new)
        self._folders.existing(conversation)
        with self._structure():
            head = self._folders.existing(conversation).head
            if existing := self._folders.about(new):
                raise checks.taken(new, existing.head)
            if not 1 <= at <= head:
                raise checks.outside(conversation, at, head)
            metadata = self._fork_metadata(conversation, at, new)
            # A power loss must not take the shared events and leave the fork.
            self._folders.sync(self._folders.existing(self._ancestry.holder(conversation, at)))
            if self._folders.find(new):
                self._folders.close(new)
                self._tree.remove(new)
            # Only the metadata say where the fork left its parent, so they must be on the disk
            # before the folder has its name.
            files = {METADATA: metadata.encoded(), LOG: b""}
            if not self._tree.place(new, files, durable=self._tree.durable):
                raise checks.taken(new, 0)
            self._folders.note_new_name(new)

    def _fork_metadata(self, conversation: str, at: int, new: str) -> Metadata:
        left = self._ancestry.event(conversation, at)
        title, title_seq = self._ancestry.title(conversation, at)
        return Metadata(
            id=new,
            title=title,
            title_seq=title_seq,
            at_ms=left.at_ms,
            parent=conversation,
            parent_seq=at,
            parent_chain=left.chain.hex(),
        )

    @_guarded
    def erase(self, conversation: str, seq: int) -> None:
        self._folders.existing(conversation)
        with self._structure():
            head = self._folders.existing(conversation).head
            if not 1 <= seq <= head:
                raise checks.no_event(conversation, seq, head)
            event = self._ancestry.event(conversation, seq)
            holder = self._ancestry.holder(conversation, seq)
            # Derived data is removed first: a caller that is killed in between erases again.
            self._erase_derived(holder, event)
            self._erase_body(holder, event)

    def _erase_derived(self, holder: str, event: Event) -> None:
        """Removes the bookmarks of all logs with this event, and the titles that it may have
        set."""
        for reader in self._ancestry.readers(holder):
            with self._folders.alone(reader) as folder:
                assert folder is not None, "nobody deletes while we hold the lock of the tree"
                folder.drop_bookmarks()
                if event.kind == "meta":
                    self._retitle(folder, without=event.seq)
        if event.kind == "meta":
            self._list.remove()

    def _retitle(self, folder: Folder, *, without: int) -> None:
        """Sets the title that the conversation has if one of its events is ignored."""
        title, title_seq = self._ancestry.title(folder.id, folder.head, without=without)
        metadata = replace(folder.metadata, title=title, title_seq=title_seq, title_before="")
        folder.write_metadata(metadata)
        self._folders.note_change(folder)

    def _erase_body(self, holder: str, event: Event) -> None:
        with self._folders.alone(holder) as folder:
            assert folder is not None, "nobody deletes while we hold the lock of the tree"
            if not event.erased:
                self._unlink_artifact(folder, event)
                folder.erase(event.seq)
        self._folders.close(holder)
        self._folders.note_new_name(holder)

    def _unlink_artifact(self, folder: Folder, event: Event) -> None:
        """Removes the link to the event's artifact. If other events name the same content, the
        link is created again with the metadata of the newest."""
        artifact = tree.artifact_of(event)
        if artifact is None:
            return
        path, location = folder.file(ARTIFACTS), self._artifacts.location
        tree.unlink(path, artifact.digest, location(artifact.digest))
        others = [one for one in folder.log.naming(artifact.digest) if one.seq != event.seq]
        tree.link(path, others[-1:], location)

    @_guarded
    def delete(self, conversation: str) -> None:
        self._folders.existing(conversation)
        with self._structure():
            head = self._folders.existing(conversation).head
            for id, metadata in self._folders.metadatas():
                if metadata.parent == conversation:
                    raise checks.forked(conversation, id, head)
            with self._folders.alone(conversation) as folder:
                assert folder is not None, "nobody deletes while we hold the lock of the tree"
                self._tree.remove(conversation)
            self._folders.close(conversation)
            self._list.remove()

    # --- repair ---

    @_guarded
    def salvage(self, conversation: str) -> Salvage:
        return self._damaged.salvage(conversation)

    @_guarded
    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        with self._structure():
            copy = self._damaged.rewrite(conversation, events, after, seen)
            self._list.remove()
        return copy

    # --- flushing, and the end ---

    @_guarded
    def flush(self) -> None:
        self._folders.flush()

    def close(self) -> None:
        with self._lock:
            try:
                if self._folders.ended is None:
                    self.flush()
                    self._save_list()
            finally:
                self._folders.close_all()
                self._folders.ended = self._folders.ended or checks.closed(self.url)

    def _save_list(self) -> None:
        """Brings `index.json` up to date if this store changed anything."""
        if not self._folders.has_changed:
            return
        # If that fails, or another process holds the lock, the entries stay outdated, and a listing
        # reads the folders instead.
        with suppress(OSError, RefoldError), self._tree.locked(wait_s=0):
            ids = [id for id in self._tree.ids() if self._list.about(id, self._folders.listed)]
            self._list.save(ids)

    def _check_alive(self) -> None:
        if ended := self._folders.ended:
            raise type(ended)(ended.message, hint=ended.hint)

    def before_fork(self) -> None:
        """Nothing: the parent keeps its open files."""

    def after_fork(self, *, in_child: bool) -> None:
        """Replaces the lock and the open files in the child: the files share their locks with the
        parent's, and the thread that may hold the lock is missing."""
        if in_child:
            self._lock = threading.RLock()
            self._folders.close_all()

    @contextmanager
    def _structure(self) -> Iterator[None]:
        """Locks the tree, to create, fork, erase or delete a conversation."""
        self._tree.check()
        with self._tree.locked():
            self._folders.has_changed = True
            yield
