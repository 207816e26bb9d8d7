"""Permanent erasure of words: bodies are removed, envelopes stay, and so does the shape of the
page.

An erase event is written first, then the body is deleted, here and, by the next sync, in every copy
of the log. Everything derived from the words is erased too: copies off the page; summaries and
shortened forms, here and in forks; memories; hand-overs and shown memories in any conversation;
contents without another reference; index entries. A device that erased at another device's request
records that in a note. Neighbours: `deleter` removes whole conversations from one store,
`Store.erase` empties one event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.conversations.deleter import unnamed
from refold.conversations.listing import SESSION, WORDLESS
from refold.core.active_events import switches
from refold.core.codec import decode
from refold.core.laws import calls_of, results_of
from refold.core.model import (
    ERASED_NOTE,
    MEMORIES,
    MOMENT,
    Artifact,
    Conversation,
    Erase,
    Event,
    Hide,
    Memory,
    Message,
    Meta,
    Note,
    Replace,
    Summarize,
    ToolResult,
)
from refold.errors import Corrupt, NotFound
from refold.log.draft import Draft
from refold.log.fingerprints import mark_of
from refold.log.log import Log, now_ms
from refold.log.stored_logs import conversations, conversations_and_memories, events_of, is_memory
from refold.search import fingerprints
from refold.search.upkeep import SEARCH_EVENTS, Upkeep, index_path
from refold.stores import erase_events
from refold.stores.protocol import Store

BY = "eraser"


class Erased(Struct, frozen=True, kw_only=True):
    """The erased seqs of a conversation; the numbers of derived summaries and memories and of
    contents erased now; the devices that confirmed the erasure, by seq; the seq of the last erase
    event; and the number of events erased now in each conversation that has them."""

    conversation: str
    seqs: tuple[int, ...] = ()
    derived: int = 0
    contents: int = 0
    confirmed: dict[int, tuple[str, ...]] = {}
    said_at: int = 0
    notes: tuple[str, ...] = ()
    logs: dict[str, int] = {}


def erase(store: Store, id: str, seqs: Sequence[int] | None, *, dry_run: bool = False) -> Erased:
    """Erases these events, or the whole conversation. NotFound, before anything is erased, if one
    of them does not exist. A dry run returns the seqs and events that would be erased."""
    about = store.conversation(id)
    events = {event.seq: event for event in events_of(store, about)}
    chosen = _chosen(about, events, seqs)
    ids = {id for seq in chosen for id in _ids(events[seq])}
    chosen += _of_same_lines(events, chosen)
    named = {
        artifact.digest: event.at_ms
        for event in _with_artifacts(events, chosen)
        if isinstance(artifact := _body(event), Artifact)
    }
    targets = [*chosen, *(event.seq for event in _with_artifacts(events, chosen))]
    # Any conversation may share the events: one that was forked once may have a log of its own now.
    others = [about.id for about in conversations(store) if about.id != id]
    shared = {
        other: [seq for seq in targets if _has(store, other, events[seq])]
        for other in [id, *others]
    }
    handles = {f"{other}#{seq}" for other, seqs in shared.items() for seq in seqs}
    memories = _memories_from(store, handles) if handles else []
    shown = handles | {memory.entry for _, _, memory in memories}
    going = [(other, *_going(store, other, seqs, shown)) for other, seqs in shared.items() if shown]
    logs = {other: len(own) + len(made) for other, own, made in going if own or made}
    if dry_run:
        left = sorted(event.seq for other, own, _ in going if other == id for event in own)
        return Erased(conversation=id, seqs=tuple(left), logs=logs)
    # Every log that has them records it before the bytes go, so that every page can explain it.
    at_ms = now_ms()
    for other, own, made in going:
        if drafts := [Draft(body=_erase_of(event, ids, at_ms), by=BY) for event in (*own, *made)]:
            Log(store, other).append(drafts)
    for log in dict.fromkeys(log for log, _, _ in memories):
        from_here = [seq for other, seq, _ in memories if other == log]
        Log(store, log).append([Draft(body=Erase(seq=seq), by=BY) for seq in from_here])
        erase_events(store, log, from_here)
    # The chosen events come last: while they are there, the erasure can be repeated.
    for other, own, made in reversed(going):
        erase_events(store, other, [event.seq for event in (*made, *own)])
    derived = sum(len(made) for _, _, made in going) + len(memories)
    free, notes = unnamed(store, named)
    at_ms = now_ms() + 1  # whenever they were stored
    contents = sum(store.drop(digest, before_ms=at_ms) for digest in free)
    store.flush()
    _erase_from_index(store)
    found = erased(store, id)
    return Erased(
        conversation=id,
        seqs=found.seqs,
        derived=derived,
        contents=contents,
        confirmed=found.confirmed,
        said_at=found.said_at,
        notes=(*_still_said(events, chosen), *notes),
        logs=logs,
    )


def erased(store: Store, id: str) -> Erased:
    """The erased events of a conversation, and the devices that confirmed the erasure."""
    seqs: list[int] = []
    confirmed: dict[int, list[str]] = {}
    said_at = 0
    for event in events_of(store, store.conversation(id)):
        if event.erased:
            seqs.append(event.seq)
        if event.kind == "erase":
            said_at = event.seq
        body = _body(event) if event.kind == "note" else None
        if isinstance(body, Note) and body.kind == ERASED_NOTE and isinstance(body.data, dict):
            for seq in body.data.get("seqs", ()):
                confirmed.setdefault(seq, []).append(str(body.data.get("device", "")))
    devices = {seq: tuple(names) for seq, names in confirmed.items() if seq in seqs}
    return Erased(conversation=id, seqs=tuple(seqs), confirmed=devices, said_at=said_at)


# --- choosing ---


def _chosen(about: Conversation, events: dict[int, Event], seqs: Sequence[int] | None) -> list[int]:
    if seqs is None:
        return [seq for seq, one in events.items() if one.kind not in WORDLESS and not one.erased]
    for seq in seqs:
        if seq not in events:
            missing = f"{about.id!r} has no event {seq}"
            raise NotFound(missing, hint=f"its events are 1 to {about.head}")
    chosen = [seq for seq in dict.fromkeys(seqs) if not events[seq].erased]
    # Copies off the page: an imported session may have been rewritten from some point on.
    words = {mark for seq in chosen if (mark := _words(events[seq])) is not None}
    off = switches(events.values()).off if words else ()
    later = (seq for seq in sorted(events) if seq in off and seq not in chosen)
    copies = [seq for seq in later if _words(events[seq]) in words]
    return [*chosen, *copies]


def _of_same_lines(events: dict[int, Event], chosen: Sequence[int]) -> list[int]:
    """Events from the same lines of a file as the chosen ones, with some of their words: messages
    off the page, and notes of an abandoned branch."""
    lines = {id: events[seq] for seq in chosen for id in _ids(events[seq], MOMENT)}
    off = switches(events.values()).off if lines else ()
    others = (event for event in events.values() if event.kind == "note" or event.seq in off)
    return [one.seq for one in others if one.seq not in chosen and _is_of_lines(one, lines)]


def _still_said(events: dict[int, Event], chosen: Sequence[int]) -> Iterator[str]:
    """Notices about other messages from the same lines, which may say more than was chosen, so the
    caller decides."""
    lines = {id: events[seq] for seq in chosen for id in _ids(events[seq], MOMENT)}
    for event in events.values() if lines else ():
        if event.seq not in chosen and event.kind == "message" and _is_of_lines(event, lines):
            yield f"#{event.seq} has the same lines of a file and still says them: erase it too"


def _is_of_lines(event: Event, lines: dict[str, Event]) -> bool:
    """Whether a message or note is from the line of a chosen one, and the same part of it: a line
    may contain results and a user message."""
    body = _body(event)
    same = (_body(lines[id]) for id in _ids(event, MOMENT) if id in lines)
    return any(
        not isinstance(one, Message)
        or not isinstance(body, Message)
        or (one.role, results_of(one)) == (body.role, results_of(body))
        for one in same
    )


def _ids(event: Event, without: str = "\0") -> list[str]:
    """The ids of the lines of a message or note, except those with this beginning."""
    body = _body(event) if event.kind in ("message", "note") else None
    ids = body.ids if isinstance(body, Message | Note) else ()
    return [id for id in ids if not id.startswith(without)]


def _words(event: Event) -> bytes | None:
    """The fingerprint of a message's words; None for other events and erased messages."""
    body = _body(event) if event.kind == "message" else None
    return mark_of(body) if isinstance(body, Message) else None


def _with_artifacts(events: dict[int, Event], chosen: Sequence[int]) -> list[Event]:
    """The artifact events of the chosen ones."""
    ids = {id for seq in chosen for id in _artifacts_of(events[seq])}
    return [
        event
        for event in events.values()
        if event.kind == "artifact"
        and isinstance(body := _body(event), Artifact)
        and body.id in ids
    ]


def _artifacts_of(event: Event) -> Iterator[str]:
    body = _body(event)
    if isinstance(body, Artifact):
        yield body.id
    if isinstance(body, Message):
        for block in body.blocks:
            if isinstance(block, ToolResult) and block.artifact:
                yield block.artifact


def _has(store: Store, id: str, event: Event) -> bool:
    found = store.read(id, after=event.seq - 1, last=event.seq, limit=1)
    return bool(found) and found[0].id == event.id


def _going(
    store: Store, id: str, targets: Sequence[int], shown: set[str]
) -> tuple[list[Event], list[Event]]:
    """The events of one log to erase: the targets, and what is derived from them: messages that
    show one of these handles and entries, and edits."""
    events = [event for event in events_of(store, store.conversation(id)) if not event.erased]
    own = [event for event in events if event.seq in targets]
    showing = [one for one in events if one.seq not in targets and _shows(one, shown)]
    gone = [*targets, *(event.seq for event in showing)]
    edits = [event for event in events if event.kind == "edit" and _covers(_body(event), gone)]
    return own, [*showing, *(event for event in edits if event.seq not in targets)]


def _shows(event: Event, shown: set[str]) -> bool:
    """Whether an event is a message that shows one of these handles and entries."""
    if event.kind != "message" or MEMORIES.encode() not in event.body:
        return False
    body = _body(event)
    ids = body.metadata.get(MEMORIES) if isinstance(body, Message) else None
    return isinstance(ids, list | tuple) and not shown.isdisjoint(map(str, ids))


def _covers(body: object, targets: Sequence[int]) -> bool:
    """Whether an edit shows words of the targets, or replaces them."""
    match body:
        case Summarize(span=span) | Hide(span=span):
            return any(seq in span for seq in targets)
        case Replace(seq=seq):
            return seq in targets
        case _:
            return False


def _erase_of(event: Event, ids: set[str], at_ms: int) -> Erase:
    """The erase event, with the shape for the page, and the given ids by which an import recognizes
    the line again. Other ids of a copy were not chosen."""
    body, own = _body(event), tuple(id for id in _ids(event) if id in ids)
    if not isinstance(body, Message):
        metadata = (body.metadata or {}) if isinstance(body, Meta) else {}
        session = str(metadata.get(SESSION, ""))
        return Erase(seq=event.seq, ids=own, session=session, erased_ms=at_ms)
    return Erase(
        seq=event.seq,
        role=body.role,
        calls=tuple(calls_of(body)),
        results=tuple(results_of(body)),
        ids=own,
        erased_ms=at_ms,
    )


def _memories_from(store: Store, handles: set[str]) -> list[tuple[str, int, Memory]]:
    """The versions of memories taken from these messages, with their logs and seqs."""
    return [
        (about.id, event.seq, body)
        for about in conversations_and_memories(store)
        if is_memory(about.id)
        for event in events_of(store, about)
        if isinstance(body := _body(event), Memory)
        and body.source is not None
        and f"{body.source[0]}#{body.source[1]}" in handles
    ]


def _body(event: Event) -> object:
    try:
        return decode(event)
    except Corrupt:
        return None  # erased without being read


def _erase_from_index(store: Store) -> None:
    """Removes the words from the existing derived files."""
    fingerprints.forget(store)
    upkeep = Upkeep(store, index_path(store), tell=lambda name, reason: None)
    try:
        if upkeep.has_file():
            while upkeep.catch_up(SEARCH_EVENTS):
                pass
    finally:
        upkeep.close()
