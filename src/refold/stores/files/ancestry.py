"""Who reads whose log: a fork's log begins in its parent's.

What a conversation does not hold itself is found by walking up to its ancestors, in a loop.
Neighbours: `open_folders` has the conversations, `store` asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refold.core.codec import REPAIR
from refold.core.model import Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.files.folder import OpenFolders


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
