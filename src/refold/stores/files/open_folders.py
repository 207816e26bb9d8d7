"""The conversations' folders that are open, and those that are still to be synced.

Only so many folders stay open, and one that is closed is synced first: only a file that was open
all the time is sure to hear of a failed write. Neighbours: `folder` is one of them, `ancestry`
reads through them, `store` is above.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from refold.core import codec
from refold.core.model import Conversation
from refold.errors import Conflict, Corrupt, NotFound, RefoldError
from refold.stores import checks
from refold.stores.files.folder import Folder, Metadata
from refold.stores.files.tree import Tree
from refold.stores.protocol import Recovery
from refold.system import disk

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
