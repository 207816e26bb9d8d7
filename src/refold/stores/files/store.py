"""Logs as a readable tree of plain files: one line of JSON an event, for `less`, `grep`, `jq` and
version control.

An append is one write at the end of `messages.jsonl` under the lock of that file; it survives kill
-9. `flush` is one fdatasync a log that was written to, and a sync of the folders where a name is
new. Readers take no lock: what lies before the last whole batch never changes under them. After a
failed sync the store ends, because the kernel may have dropped the pages and would report success
the next time; opened again, it reads what really is on the disk.

Making, forking, erasing and deleting also hold the lock of the tree, which is taken before that of
a log. Neighbours: `files_tree` has the names and locks, `files_folders` the conversations,
`files_folder` one of them, `files_log` its lines, `files_index` the list, `files_shelf` and
`artifacts` the contents.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.stores import checks as door
from refold.stores.contents import Artifacts
from refold.stores.files import artifact_links as files_shelf
from refold.stores.files.conversation_list import Index
from refold.stores.files.folder import ARTIFACTS, LOG, METADATA, Folder, Metadata
from refold.stores.files.log import batch_of
from refold.stores.files.open_folders import TRIES_MAX, Folders
from refold.stores.files.tree import Tree
from refold.stores.protocol import Recovery

P = ParamSpec("P")
R = TypeVar("R")


def _guarded(
    method: Callable[Concatenate[FilesStore, P], R],
) -> Callable[Concatenate[FilesStore, P], R]:
    """One thread at a time, and only errors of the family leave."""

    @functools.wraps(method)
    def guarded(self: FilesStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with self._lock:
                self._check_alive()
                return method(self, *args, **kwargs)
        except OSError as error:
            raise door.os_failure(error, f"cannot use {self.root}") from error

    return guarded


class FilesStore:
    """Keeps logs and artifacts as files in a folder; satisfies `Store`."""

    def __init__(self, path: str, *, durable: bool = True) -> None:
        self.root = os.path.abspath(path)
        self.url = f"files:{self.root}"
        self._tree = Tree(self.root, durable=durable)
        self._artifacts = Artifacts(os.path.join(self.root, "artifacts"), durable=durable)
        self._index = Index(self._tree)
        self._lock = threading.RLock()
        self._folders = Folders(self._tree)
        _OPEN.add(self)

    @property
    def recovered(self) -> list[Recovery]:
        """What dead writers had left half written, and where it was moved."""
        return self._folders.recovered

    # --- logs ---

    @_guarded
    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        self._tree.check()
        found: list[Conversation] = []
        for id in self._tree.ids():
            if len(found) >= limit:
                break
            if id > after and (about := self._index.about(id, self._folders.listed)):
                found.append(about)
        return found

    @_guarded
    def conversation(self, conversation: str) -> Conversation:
        return self._folders.known(conversation).about()

    @_guarded
    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        head, after = self._folders.known(conversation).head, door.bounded(after)
        end = head if last is None else min(door.bounded(last), head)
        return (
            self._folders.span(conversation, after, end, door.bounded(limit)) if after < end else []
        )

    @_guarded
    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        door.append_checked(conversation, events, expect)
        if not events:
            return
        batch = batch_of(events)
        for _ in range(TRIES_MAX):
            with self._folders.alone(conversation) as folder:
                if folder is not None:
                    self._append(folder, events, batch, expect)
                    return
            if expect:
                raise door.moved(conversation, expect, 0)
            if self._create(conversation, events, batch):
                return
        raise Conflict(f"{conversation!r} came and went {TRIES_MAX} times", head=0)

    def _append(self, folder: Folder, events: Sequence[Event], batch: bytes, expect: int) -> None:
        head = folder.head
        if head != expect:
            if events[-1].seq <= head and self._has(folder.id, events):
                return
            raise door.moved(folder.id, expect, head)
        files_shelf.show(folder.file(ARTIFACTS), events, self._artifacts.location)
        folder.append(events, batch)
        self._folders.changed(folder)

    def _create(self, conversation: str, events: Sequence[Event], batch: bytes) -> bool:
        """A new folder with the first events in it. False if somebody else was faster."""
        title = door.title_in(events)
        metadata = Metadata(
            id=conversation,
            title=title or "",
            title_seq=events[-1].seq if title is not None else 0,
            at_ms=events[0].at_ms,
        )
        with self._structure():

            def fill(folder: str) -> None:
                files_shelf.show(os.path.join(folder, ARTIFACTS), events, self._artifacts.location)

            if not self._tree.place(
                conversation, {METADATA: metadata.encoded(), LOG: batch}, fill=fill
            ):
                return False
            self._folders.entered(conversation)
        return True

    def _has(self, conversation: str, events: Sequence[Event]) -> bool:
        """True if just these events are there already: a retry of an append whose answer was
        lost."""
        kept = self._folders.span(conversation, events[0].seq - 1, events[-1].seq, len(events))
        return [event.chain for event in kept] == [event.chain for event in events]

    @_guarded
    def bookmark(self, conversation: str) -> bytes | None:
        folder = self._folders.find(conversation)
        return folder.bookmark() if folder else None

    @_guarded
    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        with self._folders.alone(conversation) as folder:
            if folder is None or folder.head == 0:
                raise door.unknown(conversation)
            folder.keep_bookmark(bytes(data))

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
        # The names in the conversations' folders would keep the bytes alive.
        was = self._artifacts.location(digest)
        if not self._artifacts.drop(digest, before_ms=before_ms):
            return False
        for id in self._tree.ids():
            files_shelf.take_away(
                os.path.join(self._tree.folder(id), ARTIFACTS), digest, lambda _: was
            )
        return True

    # --- families ---

    @_guarded
    def fork(self, conversation: str, at: int, new: str) -> None:
        codec.conversation_checked(new)
        self._folders.known(conversation)
        with self._structure():
            parent = self._folders.known(conversation).about()
            if there := self._folders.about(new):
                raise door.taken(new, there.head)
            if not 1 <= at <= parent.head:
                raise door.outside(conversation, at, parent.head)
            [left] = self._folders.span(conversation, at - 1, at, 1)
            title, title_seq = self._folders.title(conversation, at)
            metadata = Metadata(
                id=new,
                title=title,
                title_seq=title_seq,
                at_ms=left.at_ms,
                parent=conversation,
                parent_seq=at,
                parent_chain=left.chain.hex(),
            )
            # What the fork stands on must not be lost where the fork is kept.
            self._folders.sync(self._folders.known(self._folders.holder(conversation, at)))
            if self._folders.find(new):
                self._folders.forget(new)
                self._tree.remove(new)
            # Where it left its parent stands nowhere else, so it must be on the disk before the
            # folder has its name.
            files = {METADATA: metadata.encoded(), LOG: b""}
            if not self._tree.place(new, files, durable=self._tree.durable):
                raise door.taken(new, 0)
            self._folders.entered(new)

    @_guarded
    def erase(self, conversation: str, seq: int) -> None:
        self._folders.known(conversation)
        with self._structure():
            head = self._folders.known(conversation).head
            if not 1 <= seq <= head:
                raise NotFound(
                    f"{conversation!r} has no event {seq}", hint=f"its events are 1 to {head}"
                )
            [event] = self._folders.span(conversation, seq - 1, seq, 1)
            holder = self._folders.holder(conversation, seq)
            # First what was derived from the body: whoever is killed on the way erases again.
            for reader in self._folders.readers(holder):
                self._scrub(reader, event)
            if event.kind == "meta":
                self._index.forget()
            with self._folders.alone(holder) as folder:
                assert folder is not None, "nobody deletes while we hold the lock of the tree"
                if not event.erased:
                    self._take_away(folder, event)
                    folder.erase(seq)
            self._folders.forget(holder)
            self._folders.entered(holder)

    def _scrub(self, conversation: str, event: Event) -> None:
        """Removes the bookmark, and the title if it may be that of the event which is about to
        be erased."""
        with self._folders.alone(conversation) as folder:
            assert folder is not None
            folder.drop_bookmark()
            if event.kind == "meta":
                title, title_seq = self._folders.title(conversation, folder.head, without=event.seq)
                folder.write_metadata(
                    replace(folder.metadata, title=title, title_seq=title_seq, title_before="")
                )
                self._folders.changed(folder)

    def _take_away(self, folder: Folder, event: Event) -> None:
        """Takes from the shelf what the event named, and says of it what the others that name it
        say."""
        if artifact := files_shelf.artifact_of(event):
            location = self._artifacts.location
            files_shelf.take_away(folder.file(ARTIFACTS), artifact.digest, location)
            others = [
                other for other in folder.log.naming(artifact.digest) if other.seq != event.seq
            ]
            files_shelf.show(folder.file(ARTIFACTS), others[-1:], location)

    @_guarded
    def delete(self, conversation: str) -> None:
        self._folders.known(conversation)
        with self._structure():
            head = self._folders.known(conversation).head
            for id, metadata in self._folders.metadatas():
                if metadata.parent == conversation:
                    raise door.forked(conversation, id, head)
            with self._folders.alone(conversation) as folder:
                assert folder is not None, "nobody deletes while we hold the lock of the tree"
                self._tree.remove(conversation)
            self._folders.forget(conversation)
            self._index.forget()

    # --- the end ---

    @_guarded
    def flush(self) -> None:
        self._folders.flush()

    def close(self) -> None:
        with self._lock:
            try:
                if self._folders.ended is None:
                    self.flush()
                    self._save_index()
            finally:
                self._folders.leave()
                closed = Invalid(f"{self.url} is closed", hint="open the store again")
                self._folders.ended = self._folders.ended or closed

    def _save_index(self) -> None:
        """Brings `index.json` up to date, if we changed anything: those who only read write
        nothing."""
        if not self._folders.has_changed:
            return
        # Where that fails, or others are at work, the entries stay old: whoever lists looks into
        # the folders instead.
        with suppress(OSError, RefoldError), self._tree.locked(wait_s=0):
            self._index.save(
                [id for id in self._tree.ids() if self._index.about(id, self._folders.listed)]
            )

    def _check_alive(self) -> None:
        if ended := self._folders.ended:
            raise type(ended)(str(ended), hint=ended.hint)

    def _reborn(self) -> None:
        """In a forked child: the open files share their locks with the parent's, so they are
        opened anew."""
        self._lock = threading.RLock()
        self._folders.leave()

    @contextmanager
    def _structure(self) -> Iterator[None]:
        """Alone in the tree, for what makes, forks, erases or removes a conversation."""
        self._tree.check()
        with self._tree.locked():
            self._folders.has_changed = True
            yield


_OPEN: weakref.WeakSet[FilesStore] = weakref.WeakSet()


def _let_go() -> None:
    for store in list(_OPEN):
        store._reborn()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
