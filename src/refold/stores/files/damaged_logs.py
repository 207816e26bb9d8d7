"""Logs across files: the ancestors that a fork shares events with, and logs that may be damaged.

A fork's log begins in its parent's file; its ancestors are walked in a loop. Salvaging only decides
whether each line is an event, and ignores its position; blank lines are skipped, and bytes after
the last complete batch count as half-written. A repair keeps the damaged file beside the new one.
Neighbours: `conversation_folder` has the conversations, `log` reads a sound file,
`conversations.repairer` judges salvaged pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing

from msgspec.structs import replace

from refold.core.codec import REPAIR
from refold.core.model import Event
from refold.errors import Corrupt, NotFound
from refold.stores import checks
from refold.stores.event_lines import LINE_BYTES_MAX, event_of
from refold.stores.files.conversation_folder import Folder, Metadata, OpenFolders, drop_bookmarks
from refold.stores.files.log import LogFile
from refold.stores.protocol import Salvage

Piece = Event | str


class DamagedLogs:
    """Reads and replaces logs that may be damaged."""

    def __init__(self, folders: OpenFolders, ancestry: Ancestry) -> None:
        self._folders, self._ancestry = folders, ancestry

    def salvage(self, conversation: str) -> Salvage:
        """The lines of a log and of its ancestors: an event, or a message for a line that is not
        one. Raises NotFound if there are no lines."""
        with closing(self._folders.unread(conversation)) as folder:
            salvage = self._salvaged(folder)
        if not salvage.pieces and not salvage.parent:
            raise checks.unknown(conversation)
        return salvage

    def _salvaged(self, folder: Folder) -> Salvage:
        parent, parent_seq = folder.metadata.parent, folder.metadata.parent_seq
        pieces: list[Piece] = []
        if parent:
            try:
                pieces += pieces_up_to(self.salvage(parent).pieces, parent_seq)
            except (Corrupt, NotFound) as error:
                pieces.append(f"the parent {parent} cannot be read: {error}")
        pieces += pieces_of(folder.log)
        if folder.is_emptied:
            pieces.append(f"{folder.log.path} is empty: it lost all events that it had")
        return Salvage(pieces=tuple(pieces), parent=parent, parent_seq=parent_seq)

    def rewrite(self, conversation: str, events: Sequence[Event], after: int, seen: Salvage) -> str:
        """Replaces the log by these events; returns the path of the kept old file. The caller
        holds the lock of the tree."""
        with closing(self._folders.unread(conversation)) as folder, folder.exclusive():
            if not folder.log.is_current() or self._salvaged(folder) != seen:
                raise checks.written_meanwhile(conversation, len(seen.pieces))
            metadata = self._metadata_after(folder, events, after)
            copy = folder.rewrite(events, metadata, checks.stamp())
        self._folders.close(conversation)
        for reader in self._ancestry.readers(conversation):
            drop_bookmarks(self._folders.path(reader, ""))
        return copy

    def _metadata_after(self, folder: Folder, events: Sequence[Event], after: int) -> Metadata:
        """The metadata of the conversation with these events."""
        title, title_seq = checks.title_in(events), events[-1].seq if events else 0
        if not after:
            at_ms = events[0].at_ms if events else 0
            title_seq = 0 if title is None else title_seq
            return Metadata(id=folder.id, at_ms=at_ms, title=title or "", title_seq=title_seq)
        if title is None:
            title, title_seq = self._ancestry.title(folder.metadata.parent, after)
        return replace(folder.metadata, title=title, title_seq=title_seq, title_before="")


def pieces_of(log: LogFile) -> Iterator[Piece]:
    """The events in the file, and a message for each unreadable line."""
    size = os.fstat(log.fd).st_size
    end = log.last_complete_batch_end(size)
    with open(os.dup(log.fd), "rb") as file:
        file.seek(0)
        while (start := file.tell()) < end:
            line = file.readline(LINE_BYTES_MAX + 1)
            while line and not line.endswith(b"\n") and file.tell() < end:
                # Longer than any event: skipped, not held in memory.
                line = b"#" + file.readline(LINE_BYTES_MAX + 1)
            if line.strip():
                try:
                    yield event_of(line)
                except Corrupt as error:
                    yield f"{log.path}, byte {start:,}: {error}"
    if size > end:
        yield f"{log.path}, byte {end:,}: {size - end:,} bytes were half-written"


def pieces_up_to(pieces: Sequence[Piece], last: int) -> Iterator[Piece]:
    """The events up to `last`, and the messages between them."""
    is_before = True
    for piece in pieces:
        if isinstance(piece, str):
            if is_before:
                yield piece
        elif piece.seq <= last:
            yield piece
        else:
            is_before = False


class Ancestry:
    """The conversations of a tree, each with the events it shares with its ancestors."""

    def __init__(self, folders: OpenFolders) -> None:
        self._folders = folders

    def span(self, conversation: str, after: int, last: int, limit: int) -> list[Event]:
        """Events with after < seq <= last, at most `limit`, whichever conversation holds them."""
        ranges = []
        for holder, begin, end in self.upwards(conversation, min(last, after + limit)):
            ranges.append((holder, max(after, begin) + 1, end))
            if begin <= after:
                break
        events: list[Event] = []
        for holder, first, end in reversed(ranges):
            if first > end:
                continue
            folder = self._folders.existing(holder)
            if folder.head < end:
                message = f"{folder.log.path} ends at event {folder.head}, its forks begin later"
                raise Corrupt(message, hint=REPAIR)
            events += folder.log.events(first, end)
        return events

    def has(self, conversation: str, events: Sequence[Event]) -> bool:
        """Whether exactly these events are stored already."""
        first, last = events[0].seq, events[-1].seq
        kept = self.span(conversation, first - 1, last, len(events))
        return checks.is_repeat(kept, events)

    def event(self, conversation: str, seq: int) -> Event:
        """An existing event, whichever conversation holds it."""
        [event] = self.span(conversation, seq - 1, seq, 1)
        return event

    def holder(self, conversation: str, seq: int) -> str:
        """The conversation whose file holds the event."""
        return next(self.upwards(conversation, seq))[0]

    def title(self, conversation: str, last: int, *, without: int = 0) -> tuple[str, int]:
        """The newest title in the log up to `last`, and the seq of the event that gave it;
        `without` is ignored."""
        metadata = self._folders.existing(conversation).metadata
        if metadata.title_seq <= last and not without:
            return metadata.title, metadata.title_seq
        for holder, _, end in self.upwards(conversation, last):
            log = self._folders.existing(holder).log
            if newest := log.newest_title(end, without=without):
                return newest
        return "", 0

    def readers(self, conversation: str) -> list[str]:
        """The conversation and everything forked from it, directly or not."""
        forks: dict[str, list[str]] = {}
        for id, metadata in self._folders.metadatas():
            forks.setdefault(metadata.parent, []).append(id)
        readers = [conversation]
        for reader in readers:
            readers += forks.get(reader, ())
        return readers

    def upwards(self, conversation: str, last: int) -> Iterator[tuple[str, int, int]]:
        """The conversation and its ancestors, each with the range of seqs (after, last) to read
        from it."""
        while True:
            metadata = self._folders.existing(conversation).metadata
            if last > metadata.parent_seq:
                yield conversation, metadata.parent_seq, last
            last = min(last, metadata.parent_seq)
            if not metadata.parent or last == 0:
                return
            conversation = metadata.parent
