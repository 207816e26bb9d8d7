"""Stored logs read page by page, and the conversations of a store.

A log of any length costs the memory of one page. `events_of` requires every event; `readable`
yields an error for a damaged one and continues. Neighbours: a store below; `search`, `artifacts`,
`conversations` and `Context.log` above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from refold.core import codec, ids
from refold.core.model import (
    DEVICE_PREFIX,
    MEMORY_PREFIX,
    Artifact,
    Conversation,
    Event,
)
from refold.errors import Corrupt, Invalid
from refold.stores import changing
from refold.stores.protocol import Store

READ_EVENTS = 500
FIRST_CONVERSATIONS, LIST_CONVERSATIONS = 50, 200


def conversations(store: Store) -> Iterator[Conversation]:
    """All conversations of a store, by id, without the logs of memories and devices."""
    return filter(is_conversation, _pages(store))


def is_conversation(about: Conversation) -> bool:
    """Whether this is a conversation: its id is one, and not that of a memory or a device."""
    return _is_id(about.id) and not about.id.lower().startswith((MEMORY_PREFIX, DEVICE_PREFIX))


def newest_first(store: Store) -> Iterator[Conversation]:
    """All conversations of a store, the last written first; a store that can list them in this
    order is read only as far as the caller iterates."""
    known, last, size = changing(store), None, FIRST_CONVERSATIONS
    while known is not None:
        try:
            page = known.newest(after=last, limit=size)
        except Corrupt:
            page = None  # the order is derived, and the conversations may be sound
        if page is None:
            break
        yield from filter(is_conversation, page)
        if len(page) < size:
            return
        last, size = page[-1], LIST_CONVERSATIONS
    rest = sorted(conversations(store), key=lambda about: (-about.updated_ms, about.id))
    seen = () if last is None else (-last.updated_ms, last.id)
    yield from (about for about in rest if (-about.updated_ms, about.id) > seen)


def conversations_and_memories(store: Store) -> Iterator[Conversation]:
    """All conversations and memories of a store, by id."""
    return (about for about in _logs(store) if not about.id.lower().startswith(DEVICE_PREFIX))


def misnamed(store: Store) -> Iterator[str]:
    """The ids in a store that no conversation can have: another program wrote them."""
    return (about.id for about in _pages(store) if not _is_id(about.id))


def _logs(store: Store) -> Iterator[Conversation]:
    return (about for about in _pages(store) if _is_id(about.id))


def _is_id(id: str) -> bool:
    try:
        return bool(ids.conversation_checked(id))
    except Invalid:
        return False


def _pages(store: Store) -> Iterator[Conversation]:
    after = ""
    while True:
        page = store.conversations(after=after, limit=LIST_CONVERSATIONS)
        yield from page
        if len(page) < LIST_CONVERSATIONS:
            return
        after = page[-1].id


def is_taken(store: Store, id: str) -> bool:
    """Whether a conversation has that id, readable or not."""
    try:
        return store.head(id) is not None
    except Corrupt:
        return True


def branches(store: Store, id: str) -> list[str]:
    """The conversations of the same fork tree, the given one included."""
    parents = {about.id: about.parent for about in conversations(store)}
    root = _root(parents, id)
    return [other for other in parents if _root(parents, other) == root]


def _root(parents: Mapping[str, str], id: str) -> str:
    """The conversation at the root of a fork tree."""
    for _ in parents:
        if not parents.get(id):
            break
        id = parents[id]
    return id


def is_memory(id: str) -> bool:
    """Whether this is the id of a memory's log."""
    return id.lower().startswith(MEMORY_PREFIX)


def open_id_checked(id: str) -> str:
    """The id itself, if a conversation may have it."""
    if is_memory(ids.conversation_checked(id)):
        what = f"{id!r} is the name of a memory, not of a conversation"
        raise Invalid(what, hint="refold.open_memory opens a memory; choose another id")
    if id.lower().startswith(DEVICE_PREFIX):
        what = f"{id!r} is the name of a device's log, not of a conversation"
        raise Invalid(what, hint="refold sync --devices lists them; choose another id")
    return id


def pages_of(
    store: Store, id: str, *, after: int = 0, last: int, size: int = READ_EVENTS
) -> Iterator[list[Event]]:
    """The events after `after` up to `last`, in pages; fewer if the log ends before."""
    while after < last and (events := store.read(id, after=after, last=last, limit=size)):
        yield events
        after = events[-1].seq


def complete_pages(
    store: Store, about: Conversation, after: int = 0, size: int = READ_EVENTS
) -> Iterator[list[Event]]:
    """The events after `after` up to the head in `about`, in pages. Raises Corrupt if the log ends
    before."""
    for events in pages_of(store, about.id, after=after, last=about.head, size=size):
        yield events
        after = events[-1].seq
    if after < about.head:
        raise _missing(about, after + 1)


def events_of(store: Store, about: Conversation) -> Iterator[Event]:
    """The log up to the head in `about`. Raises Corrupt if it ends before."""
    for events in complete_pages(store, about):
        yield from events


def _missing(about: Conversation, seq: int) -> Corrupt:
    """The error for an event that the log should have."""
    return Corrupt(f"{about.id}: event {seq} is missing", hint=codec.REPAIR)


def chain_at(store: Store, about: Conversation, seq: int) -> bytes:
    """The chain value of a log after its event `seq`; Corrupt if there is no such event."""
    if seq == 0:
        return codec.ZERO
    if seq == about.head:
        return about.chain
    events = store.read(about.id, after=seq - 1, last=seq, limit=1)
    if not events:
        raise _missing(about, seq)
    return events[0].chain


def readable(store: Store, about: Conversation, after: int = 0) -> Iterator[Event | Corrupt]:
    """Every event after `after` up to the head, with an error instead of an unreadable one. If two
    in a row fail for the same reason, the whole log does, and the walk ends."""
    if not about.head:
        # No log is empty: a list may contain a damaged conversation that a direct read detects.
        try:
            about = store.conversation(about.id)
        except Corrupt as error:
            yield error
    reason = ""
    for start in range(after, about.head, READ_EVENTS):
        last = min(start + READ_EVENTS, about.head)
        for event in _readable_page(store, about.id, start, last):
            yield event
            if isinstance(event, Corrupt) and str(event) == reason:
                return
            reason = str(event) if isinstance(event, Corrupt) else ""


def _readable_page(store: Store, id: str, after: int, last: int) -> Iterator[Event | Corrupt]:
    """These events; read one by one if any of them is damaged."""
    try:
        yield from store.read(id, after=after, last=last, limit=READ_EVENTS)
    except Corrupt as error:
        if last == after + 1:
            yield error
            return
        for seq in range(after + 1, last + 1):
            yield from _readable_page(store, id, seq - 1, seq)


def named_by(store: Store, about: Conversation, after: int = 0) -> tuple[list[Artifact], bool]:
    """The artifacts that readable events name, and whether the list is complete: an unreadable
    event may name another."""
    named: list[Artifact] = []
    is_all = True
    for event in readable(store, about, after):
        try:
            artifact = artifact_of(event)
        except Corrupt:
            is_all = False
            continue
        if artifact is not None:
            named.append(artifact)
    return named, is_all


def artifact_of(event: Event | Corrupt) -> Artifact | None:
    """The artifact that an event names, if any. Raises an error that takes the place of an
    event."""
    if isinstance(event, Corrupt):
        raise event
    body = codec.decode(event) if event.kind == "artifact" else None
    return body if isinstance(body, Artifact) else None


# --- clients' bookmarks ---

_BOUND = b"bookmark of "


def bound_bookmark(data: bytes, maker: str) -> bytes:
    """A bookmark for its maker alone, which others take for a damaged one. A server keeps those of
    its clients like this: it has not folded the log, and others need not believe them."""
    return _BOUND + maker.encode() + b"\n" + data


def is_bound(data: bytes) -> bool:
    return data.startswith(_BOUND)


def unbound_bookmark(data: bytes, maker: str) -> bytes | None:
    """The bookmark, if this is its maker."""
    before = bound_bookmark(b"", maker)
    return data[len(before) :] if data.startswith(before) else None
