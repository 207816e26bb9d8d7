"""What the index takes from the logs of a store: events, what they say, and who holds them.

Only reads. An artifact whose bytes are missing, damaged or not text says nothing here: `refold
verify` reports it, and everything else must still be found. Neighbours: `documents` turns an event
into documents, `upkeep` indexes them, `searcher` reads the events of its hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from refold.core.codec import decode
from refold.core.model import Artifact, Conversation, Event
from refold.errors import Corrupt, NotFound
from refold.log.log import near_runs
from refold.log.reading import pages_of
from refold.search.documents import Document, documents_of
from refold.search.index import Entry
from refold.stores.protocol import Store

PAGE_EVENTS = 200
BATCH_CHARS = 4_000_000
LOOK_BACK_EVENTS = 20
ARTIFACT_BYTES_MAX = 16 * 1024 * 1024
BINARY_SAMPLE_BYTES = 4_096
NOT_TEXT = ("image/", "audio/", "video/")

EventDocuments = tuple[Event, list[Document]]


# --- conversations ---


def family(store: Store, ids: Iterable[str]) -> list[Conversation]:
    """These conversations and what they were forked from."""
    found: dict[str, Conversation] = {}
    for id in ids:
        while id and id not in found:
            found[id] = store.conversation(id)
            id = found[id].parent
    return list(found.values())


def holder(store: Store, about: Conversation, seq: int) -> str:
    """The conversation that holds an event: this one, or the ancestor it shares the event with."""
    while about.parent and seq <= about.parent_seq:
        about = store.conversation(about.parent)
    return about.id


# --- events ---


def events_of(store: Store, entries: Iterable[Entry]) -> dict[tuple[str, int], Event]:
    """The events of entries by conversation and seq, near ones read together; those that are gone
    or damaged are left out."""
    found: dict[tuple[str, int], Event] = {}
    for conversation, seqs in _seqs_by_conversation(entries).items():
        for first, last in near_runs(seqs):
            try:
                events = store.read(conversation, after=first - 1, last=last)
            except (NotFound, Corrupt):
                break
            found.update(((conversation, event.seq), event) for event in events)
    return found


def _seqs_by_conversation(entries: Iterable[Entry]) -> dict[str, list[int]]:
    seqs: dict[str, list[int]] = {}
    for entry in entries:
        seqs.setdefault(entry.conversation, []).append(entry.seq)
    return seqs


# --- what they say ---


def documents(store: Store, event: Event, calls: dict[str, str]) -> list[Document]:
    """What an event gives the index, the text of its artifact included."""
    content = artifact_text(store, event) if event.kind == "artifact" else ""
    return documents_of(event, calls, content)


def next_batch(
    store: Store, about: Conversation, after: int, most: int, calls: dict[str, str]
) -> list[EventDocuments]:
    """The next events with what they say: bounded in number and in size."""
    batch: list[EventDocuments] = []
    chars = 0
    while len(batch) < most and chars < BATCH_CHARS:
        limit = min(PAGE_EVENTS, most - len(batch))
        events = store.read(about.id, after=after + len(batch), last=about.head, limit=limit)
        page = [(event, documents(store, event, calls)) for event in events]
        batch += page
        chars += sum(len(one.text) for _, found in page for one in found)
        if len(events) < limit:
            break
    return batch


def calls_before(store: Store, conversation: str, seq: int) -> dict[str, str]:
    """The tool of each call shortly before a message."""
    calls: dict[str, str] = {}
    if seq <= 1:
        return calls
    for event in store.read(conversation, after=max(0, seq - LOOK_BACK_EVENTS), last=seq - 1):
        if event.kind == "message":
            documents_of(event, calls)
    return calls


def texts_of(store: Store, entries: Mapping[int, Entry]) -> dict[int, str]:
    """What these entries say, by id, read again from the log."""
    ids = {(one.conversation, one.kind, one.seq, one.start): id for id, one in entries.items()}
    texts: dict[int, str] = {}
    for conversation, seqs in _seqs_by_conversation(entries.values()).items():
        for one in _documents_at(store, conversation, set(seqs)):
            id = ids.get((conversation, one.kind, one.seq, one.start))
            if id is not None:
                texts[id] = one.text
    return texts


def _documents_at(store: Store, conversation: str, seqs: set[int]) -> Iterator[Document]:
    for page in pages_of(store, conversation, after=min(seqs) - 1, last=max(seqs)):
        for event in page:
            if event.seq in seqs:
                yield from documents(store, event, {})


def artifact_text(store: Store, event: Event) -> str:
    """The text of the artifact that an event names; nothing if it is not text, or not there."""
    artifact = None if event.erased else decode(event)
    if not isinstance(artifact, Artifact) or artifact.mime.startswith(NOT_TEXT):
        return ""
    try:
        content = _first_bytes(store, artifact.digest)
    except (NotFound, Corrupt):
        return ""
    if b"\0" in content[:BINARY_SAMPLE_BYTES]:
        return ""
    return content.decode("utf-8", "replace")


def _first_bytes(store: Store, digest: str) -> bytes:
    """A content, up to the chunk that passes the limit."""
    content = bytearray()
    for chunk in store.get(digest):
        content += chunk
        if len(content) > ARTIFACT_BYTES_MAX:
            break
    return bytes(content)
