"""The messages that showed an entry on a page: found and erased when it is forgotten.

Every message by `memory` names the entries that it shows. One that shows a forgotten entry is
erased whole; what else it showed comes again when it is needed. Neighbours:
`engine.shown_memories` writes such messages, `semantic` forgets.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.codec import decode
from refold.core.model import MEMORIES, Erase, Message
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.reading import conversations, pages_of
from refold.search.upkeep import SEARCH_EVENTS, Upkeep, index_path
from refold.stores.protocol import Store

BY = "memory"


def erase_shown(store: Store, entries: Sequence[str]) -> int:
    """Erases the messages of all conversations that show one of these entries; gives how many."""
    erased = 0
    for about in list(conversations(store)):
        seqs = _showing(store, about.id, about.head, set(entries))
        if not seqs:
            continue
        log = Log(store, about.id)
        log.append([Draft(body=Erase(seq=seq, role="user"), by=BY) for seq in seqs])
        for seq in seqs:
            store.erase(about.id, seq)
        erased += len(seqs)
    if erased:
        _erase_from_index(store)
    return erased


def _showing(store: Store, id: str, head: int, entries: set[str]) -> list[int]:
    found = []
    for events in pages_of(store, id, last=head):
        for event in events:
            body = decode(event) if event.by == BY and event.kind == "message" else None
            if isinstance(body, Message) and entries & set(body.metadata.get(MEMORIES, ())):
                found.append(event.seq)
    return found


def _erase_from_index(store: Store) -> None:
    """Lets the index of search read that the messages are gone, if there is one."""
    path = index_path(store)
    upkeep = Upkeep(store, path, tell=lambda name, reason: None)
    try:
        if upkeep.has_file():
            while upkeep.catch_up(SEARCH_EVENTS):
                pass
    finally:
        upkeep.close()
