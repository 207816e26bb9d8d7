"""Which messages a conversation's page shows now, known without folding its log where possible.

A bookmark and the few events after it are usually enough. Where only the whole of a long log would
tell, the answer is that nobody knows. Neighbours: `core.bookmark` keeps the fold's state,
`searcher` marks its hits.
"""

from __future__ import annotations

from refold.core import bookmark
from refold.core.model import Conversation, Event
from refold.core.switches import CONTROLS
from refold.log.log import Log
from refold.stores.protocol import Store

TAIL_EVENTS = 2_000
PAGES_KEPT = 100


class ShownMessages:
    """What the pages of one store show, remembered until their logs go on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: dict[str, tuple[bytes, set[int] | None]] = {}

    def is_hidden(self, about: Conversation, seq: int) -> bool | None:
        """Whether the page does not show a message in its own words; None if only the whole log
        would tell."""
        seqs = self._seqs(about)
        return None if seqs is None else seq not in seqs

    def _seqs(self, about: Conversation) -> set[int] | None:
        chain, seqs = self._pages.get(about.id, (b"", None))
        if chain != about.chain:
            if len(self._pages) >= PAGES_KEPT:
                self._pages.clear()
            seqs = seqs_shown(self._store, about)
            self._pages[about.id] = about.chain, seqs
        return seqs


def seqs_shown(store: Store, about: Conversation) -> set[int] | None:
    """The seqs that the page shows in their own words; None if only the whole log would tell."""
    mark = bookmark.read(store.bookmark(about.id))
    head = mark.head if mark else 0
    if about.head - head > TAIL_EVENTS:
        return None
    tail = _tail(store, about, head)
    if mark is not None and not any(event.kind in CONTROLS for event in tail):
        slots = {seq for seq, _, _, edits in mark.slots if not edits}
        return slots | {event.seq for event in tail if event.kind == "message"}
    return {slot.seq for slot in Log(store, about.id).state.slots if not slot.edits}


def _tail(store: Store, about: Conversation, after: int) -> list[Event]:
    """The events after a seq, which are few."""
    if about.head <= after:
        return []
    return store.read(about.id, after=after, last=about.head, limit=TAIL_EVENTS)
