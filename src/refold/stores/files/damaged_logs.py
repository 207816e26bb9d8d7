"""What a log file still holds, however damaged it is, and a sound log in its place.

A line is an event or it is not; nothing is said here about its place in the log. A blank line holds
nothing. What follows the last whole batch is half written and not part of the log. The file that
was damaged is kept beside the new one. Neighbours: `log` reads a sound file,
`conversations.repairer` judges what is found here.

Who reads whose log: a fork's log begins in its parent's.

What a conversation does not hold itself is found by walking up to its ancestors, in a loop.
Neighbours: `open_folders` has the conversations, `store` asks.
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
from refold.stores.checks import LINE_BYTES_MAX, event_of
from refold.stores.files import tree
from refold.stores.files.folder import BOOKMARK, Folder, Metadata, OpenFolders
from refold.stores.files.log import LogFile
from refold.stores.protocol import Salvage

Piece = Event | str


class DamagedLogs:
    """Reads and replaces logs that need not be sound."""

    def __init__(self, folders: OpenFolders, ancestry: Ancestry) -> None:
        self._folders, self._ancestry = folders, ancestry

    def salvage(self, conversation: str) -> Salvage:
        """What lies in the place of a log, and of its ancestors'."""
        with closing(self._folders.unread(conversation)) as folder:
            found = self._salvaged(folder)
        if not found.pieces and not found.parent:
            raise checks.unknown(conversation)
        return found

    def _salvaged(self, folder: Folder) -> Salvage:
        known = folder.metadata
        pieces: tuple[Piece, ...] = (*self._inherited(known), *pieces_of(folder.log))
        if folder.is_emptied:
            pieces += (f"{folder.log.path} is empty: all events that it had",)
        return Salvage(pieces=pieces, parent=known.parent, parent_seq=known.parent_seq)

    def _inherited(self, known: Metadata) -> Iterator[Piece]:
        """What lies in the logs of the ancestors."""
        if not known.parent:
            return
        try:
            parent = self.salvage(known.parent)
        except (Corrupt, NotFound) as error:
            yield f"the parent {known.parent} cannot be read: {error}"
        else:
            yield from upto(parent.pieces, known.parent_seq)

    def rewrite(self, conversation: str, events: Sequence[Event], after: int, seen: Salvage) -> str:
        """Puts these events in place of the log; gives the path of the file that was there. The
        caller holds the lock of the tree."""
        with closing(self._folders.unread(conversation)) as folder, folder.exclusive():
            if not folder.log.is_current() or self._salvaged(folder) != seen:
                raise checks.written_meanwhile(conversation, len(seen.pieces))
            metadata = self._metadata_after(folder, events, after)
            kept = folder.rewrite(events, metadata, checks.stamp())
        self._folders.close(conversation)
        for reader in self._ancestry.readers(conversation):
            tree.remove_file(self._folders.path(reader, BOOKMARK))
        return kept

    def _metadata_after(self, folder: Folder, events: Sequence[Event], after: int) -> Metadata:
        """What is to be known of the conversation once it has these events."""
        title, title_seq = checks.title_in(events), events[-1].seq if events else 0
        if not after:
            at_ms = events[0].at_ms if events else 0
            title_seq = 0 if title is None else title_seq
            return Metadata(id=folder.id, at_ms=at_ms, title=title or "", title_seq=title_seq)
        known = folder.metadata
        if title is None:
            title, title_seq = self._ancestry.title(known.parent, after)
        return replace(known, title=title, title_seq=title_seq, title_before="")


def pieces_of(log: LogFile) -> Iterator[Piece]:
    """The events that the file holds, and a text for each line that is none."""
    size = os.fstat(log.fd).st_size
    end = log.whole(size)
    with open(os.dup(log.fd), "rb") as file:
        file.seek(0)
        while (start := file.tell()) < end:
            line = file.readline(LINE_BYTES_MAX + 1)
            while line and not line.endswith(b"\n") and file.tell() < end:
                # Longer than any event: it is passed over, not held.
                line = b"#" + file.readline(LINE_BYTES_MAX + 1)
            if line.strip():
                yield _piece_of(line, f"{log.path}, byte {start:,}")
    if size > end:
        yield f"{log.path}, byte {end:,}: {size - end:,} bytes were half written"


def _piece_of(line: bytes, place: str) -> Piece:
    try:
        return event_of(line)
    except Corrupt as error:
        return f"{place}: {error}"


def upto(pieces: Sequence[Piece], last: int) -> Iterator[Piece]:
    """The events up to `last`, and what stands between them."""
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
    """The conversations of a tree, each with what it shares with its ancestors."""

    def __init__(self, folders: OpenFolders) -> None:
        self._folders = folders

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
                events += self._own_events(holder, first, end)
        return events

    def _own_events(self, holder: str, first: int, last: int) -> list[Event]:
        folder = self._folders.known(holder)
        if folder.head < last:
            said = f"{folder.log.path} ends at event {folder.head}, its forks begin later"
            raise Corrupt(said, hint=REPAIR)
        return folder.log.events(first, last)

    def has(self, conversation: str, events: Sequence[Event]) -> bool:
        """Whether exactly these events are there already."""
        first, last = events[0].seq, events[-1].seq
        kept = self.span(conversation, first - 1, last, len(events))
        return checks.is_repeat(kept, events)

    def event(self, conversation: str, seq: int) -> Event:
        """One event that is there, whichever conversation holds it."""
        [event] = self.span(conversation, seq - 1, seq, 1)
        return event

    def holder(self, conversation: str, seq: int) -> str:
        """The conversation whose file holds the event."""
        return next(self._upwards(conversation, seq))[0]

    def title(self, conversation: str, last: int, *, without: int = 0) -> tuple[str, int]:
        """The newest title in the log up to `last`, and the event that gave it; one event may be
        left out."""
        known = self._folders.known(conversation).metadata
        if known.title_seq <= last and not without:
            return known.title, known.title_seq
        for holder, _, end in self._upwards(conversation, last):
            log = self._folders.known(holder).log
            if found := log.newest_title(end, without=without):
                return found
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

    def _upwards(self, conversation: str, last: int) -> Iterator[tuple[str, int, int]]:
        """The conversation and its ancestors: after which seq and up to which seq each is read."""
        while True:
            known = self._folders.known(conversation).metadata
            if last > known.parent_seq:
                yield conversation, known.parent_seq, last
            last = min(last, known.parent_seq)
            if not known.parent or last == 0:
                return
            conversation = known.parent
