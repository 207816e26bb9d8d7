"""Stored logs, read page by page: whole, or as much of a damaged one as can still be read.

Every read has a bound, so a log of any length costs the memory of one page. `events_of` insists on
every event; `readable` goes on where one is damaged and gives the error in its place. Neighbours: a
store below; `search`, `artifacts` and `conversations` above; `conversations.verifier` says what is
wrong with a log.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from refold.core import codec
from refold.core.model import DEVICE_PREFIX, MEMORY_PREFIX, Artifact, Conversation, Event
from refold.errors import Corrupt, Invalid, NotFound
from refold.stores.protocol import Store

READ_EVENTS = 500
LIST_CONVERSATIONS = 200
OTHERS = (MEMORY_PREFIX, DEVICE_PREFIX)  # how ids begin that are not of conversations


def conversations(store: Store) -> Iterator[Conversation]:
    """All conversations of a store, by id. A log of memories is none, nor is that of a device."""
    return (about for about in _logs(store) if not about.id.lower().startswith(OTHERS))


def kept_logs(store: Store) -> Iterator[Conversation]:
    """All conversations of a store and its memories, by id: what somebody wrote there."""
    return (about for about in _logs(store) if not about.id.lower().startswith(DEVICE_PREFIX))


def _logs(store: Store) -> Iterator[Conversation]:
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
        store.conversation(id)
    except NotFound:
        return False
    except Corrupt:
        return True
    return True


def branches(store: Store, id: str) -> list[str]:
    """The conversations that share a beginning with one, by their forks: its parents, its forks,
    and theirs; itself among them."""
    parents = {about.id: about.parent for about in conversations(store)}
    root = _root(parents, id)
    return [one for one in parents if _root(parents, one) == root]


def _root(parents: Mapping[str, str], id: str) -> str:
    """The conversation that a fork of a fork comes from."""
    for _ in parents:
        if not parents.get(id):
            break
        id = parents[id]
    return id


def is_memory(id: str) -> bool:
    """Whether the log of this id holds memories, which outlive conversations."""
    return id.lower().startswith(MEMORY_PREFIX)


def open_id_checked(id: str) -> str:
    """The id itself, if a conversation may have it."""
    if is_memory(codec.conversation_checked(id)):
        said = f"{id!r} is the name of a memory, not of a conversation"
        raise Invalid(said, hint="refold.open_memory opens a memory; choose another id")
    if id.lower().startswith(DEVICE_PREFIX):
        said = f"{id!r} is the name of a device's log, not of a conversation"
        raise Invalid(said, hint="refold sync devices lists them; choose another id")
    return id


def pages_of(
    store: Store, id: str, *, after: int = 0, last: int, size: int = READ_EVENTS
) -> Iterator[list[Event]]:
    """The events after `after` up to `last`, in pages; fewer if the log has no more."""
    while after < last and (events := store.read(id, after=after, last=last, limit=size)):
        yield events
        after = events[-1].seq


def whole_pages(
    store: Store, about: Conversation, after: int = 0, size: int = READ_EVENTS
) -> Iterator[list[Event]]:
    """The events after `after` up to the head that `about` has, in pages. Corrupt if the log ends
    before."""
    for events in pages_of(store, about.id, after=after, last=about.head, size=size):
        yield events
        after = events[-1].seq
    if after < about.head:
        raise _missing(about, after + 1)


def events_of(store: Store, about: Conversation) -> Iterator[Event]:
    """The log up to the head that `about` has. Corrupt if it ends before."""
    for events in whole_pages(store, about):
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


# --- damaged logs ---


def readable(store: Store, about: Conversation, after: int = 0) -> Iterator[Event | Corrupt]:
    """Every event after `after` up to the head, and the error in the place of one that cannot be
    read. Where two in a row fail for the same reason, the whole log does, and the walk ends."""
    if not about.head:
        # No log is empty: a list may show what asking for it finds to be damaged.
        about = yield from _asked_again(store, about)
    reason = ""
    for event in _each_readable(store, about, after):
        yield event
        if isinstance(event, Corrupt) and str(event) == reason:
            return
        reason = str(event) if isinstance(event, Corrupt) else ""


def _each_readable(store: Store, about: Conversation, after: int) -> Iterator[Event | Corrupt]:
    for start in range(after, about.head, READ_EVENTS):
        last = min(start + READ_EVENTS, about.head)
        yield from _readable_page(store, about.id, start, last)


def _asked_again(store: Store, about: Conversation) -> Generator[Corrupt, None, Conversation]:
    try:
        return store.conversation(about.id)
    except Corrupt as error:
        yield error
        return about


def _readable_page(store: Store, id: str, after: int, last: int) -> Iterator[Event | Corrupt]:
    """These events; one by one if any of them is damaged."""
    try:
        yield from store.read(id, after=after, last=last, limit=READ_EVENTS)
    except Corrupt as error:
        if last == after + 1:
            yield error
            return
        for seq in range(after + 1, last + 1):
            yield from _readable_page(store, id, seq - 1, seq)


def named_by(store: Store, about: Conversation, after: int = 0) -> tuple[list[Artifact], bool]:
    """The artifacts that the readable events name, and whether those are all: an event that
    cannot be read may name another."""
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
    """The artifact that an event names, if it names one. An error in its place is raised."""
    if isinstance(event, Corrupt):
        raise event
    body = codec.decode(event) if event.kind == "artifact" else None
    return body if isinstance(body, Artifact) else None
