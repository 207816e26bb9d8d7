"""The conversations of a `files:` store: which are open, which are to be synced, and who reads
whose log.

A fork's log begins in its parent's; what lies below is found by walking up, in a loop. Only so many
folders stay open, and one that leaves is synced first: only a file that was open all the time is
sure to hear of a failed write. Neighbours: `files_folder` is one of them, `files` the store above.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Corrupt, RefoldError
from refold.stores import checks as door
from refold.stores.files.folder import Folder, Metadata
from refold.stores.files.tree import Tree
from refold.stores.protocol import Recovery

OPEN_MAX = 64
RECOVERED_MAX = 100
TRIES_MAX = 100


class Folders:
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
            self._tree.check()
            try:
                folder = Folder(
                    conversation, self._tree.folder(conversation), durable=self._tree.durable
                )
            except (FileNotFoundError, NotADirectoryError):
                return None
        self._open[conversation] = folder
        self._make_space()
        folder.refresh()
        if folder.log.is_torn:
            self._note(folder.mend())
        return folder

    def known(self, conversation: str) -> Folder:
        """The same, or NotFound."""
        folder = self.find(conversation)
        if folder is None or folder.head == 0:
            raise door.unknown(conversation)
        return folder

    @contextmanager
    def alone(self, conversation: str) -> Iterator[Folder | None]:
        """The folder, locked and mended; None if there is none."""
        for _ in range(TRIES_MAX):
            # Whether an open one is up to date, the lock will tell.
            folder = self._open.get(conversation) or self.find(conversation)
            if folder is None:
                yield None
                return
            if folder.log.writable:
                with folder.locked() as is_current:
                    if is_current:
                        self._note(folder.mended())
                        yield folder
                        return
            else:
                # Opening it for writing failed, and says why if it fails again.
                os.close(os.open(folder.log.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
            self.forget(conversation)
        raise Conflict(f"{conversation!r} was replaced {TRIES_MAX} times", head=0)

    def about(self, conversation: str) -> Conversation | None:
        """What a list shows of it; None if there is none."""
        folder = self.find(conversation)
        return folder.about() if folder and folder.head else None

    def listed(self, conversation: str) -> Conversation | None:
        """The same, but one that is damaged is listed too, without a head: it must not hide the
        others."""
        try:
            return self.about(conversation)
        except Corrupt:
            return Conversation(id=conversation, head=0, chain=b"")

    def forget(self, conversation: str) -> None:
        if folder := self._open.pop(conversation, None):
            folder.close()

    def leave(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _make_space(self) -> None:
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

    def changed(self, folder: Folder) -> None:
        self._unsynced.add(folder.id)
        self.has_changed = True

    def entered(self, conversation: str) -> Folder:
        """The folder of a conversation, after it or its log has just got its name."""
        folder = self.known(conversation)
        folder.is_new = True
        self.changed(folder)
        return folder

    def sync(self, folder: Folder) -> None:
        try:
            folder.sync()
        except OSError as error:
            self.ended = door.os_failure(error, f"cannot sync {folder.path}; open the store again")
            raise self.ended from error
        self._unsynced.discard(folder.id)

    def flush(self) -> None:
        for conversation in sorted(self._unsynced):
            if folder := self._open.get(conversation) or self.find(conversation):
                self.sync(folder)
            self._unsynced.discard(conversation)

    # --- lines of descent ---

    def span(self, conversation: str, after: int, last: int, limit: int) -> list[Event]:
        """Events with after < seq <= last, at most `limit`, whichever conversation holds them."""
        parts = []
        for holder, begin, end in self._upwards(conversation, min(last, after + limit)):
            parts.append((holder, max(after, begin) + 1, end))
            if begin <= after:
                break
        events: list[Event] = []
        for holder, first, end in reversed(parts):
            if first <= end:
                events += self._held(holder, first, end)
        return events

    def _held(self, holder: str, first: int, last: int) -> list[Event]:
        folder = self.known(holder)
        if folder.head < last:
            raise Corrupt(
                f"{folder.log.path} ends at event {folder.head}, its forks begin later",
                hint="refold verify",
            )
        return folder.log.events(first, last)

    def holder(self, conversation: str, seq: int) -> str:
        """The conversation whose file holds the event."""
        return next(self._upwards(conversation, seq))[0]

    def title(self, conversation: str, last: int, *, without: int = 0) -> tuple[str, int]:
        """The newest title in the log up to `last`, and the event that gave it; one event may be
        left out."""
        known = self.known(conversation).metadata
        if known.title_seq <= last and not without:
            return known.title, known.title_seq
        for holder, _, end in self._upwards(conversation, last):
            if found := self.known(holder).log.newest_title(end, without=without):
                return found
        return "", 0

    def metadatas(self) -> Iterator[tuple[str, Metadata]]:
        """What is known of every conversation, besides its log."""
        for id in self._tree.ids():
            if (folder := self.find(id)) and folder.head:
                yield id, folder.metadata

    def readers(self, conversation: str) -> list[str]:
        """The conversation and everything forked from it, directly or not."""
        forks: dict[str, list[str]] = {}
        for id, metadata in self.metadatas():
            forks.setdefault(metadata.parent, []).append(id)
        readers = [conversation]
        for reader in readers:
            readers += forks.get(reader, ())
        return readers

    def _upwards(self, conversation: str, last: int) -> Iterator[tuple[str, int, int]]:
        """The conversation and its ancestors: after which seq and up to which seq each is read."""
        while True:
            metadata = self.known(conversation).metadata
            if last > metadata.parent_seq:
                yield conversation, metadata.parent_seq, last
            last = min(last, metadata.parent_seq)
            if not metadata.parent or last == 0:
                return
            conversation = metadata.parent
