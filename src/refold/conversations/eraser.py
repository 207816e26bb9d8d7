"""What was said is erased for good: bodies go, envelopes stay, and so does the shape of the page.

An erase event says so first, then the body goes, here and, by the next sync, wherever the log is.
What was made of the words goes with them: copies that are off the page; summaries and shortened
forms that cover them, here and in forks; memories taken from them; the content of an artifact that
nobody else names; their place in the index. A device that has erased what another one asked for
says so by a note. Neighbours: `deleter` removes whole conversations from one store, `Store.erase`
empties one event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.conversations.deleter import unnamed
from refold.core.codec import decode
from refold.core.laws import calls_of, results_of
from refold.core.model import (
    ERASED_NOTE,
    MOMENT,
    Artifact,
    Conversation,
    Erase,
    Event,
    Hide,
    Memory,
    Message,
    Note,
    Replace,
    Summarize,
    ToolResult,
)
from refold.core.switches import switches
from refold.errors import Corrupt, NotFound
from refold.log.draft import Draft
from refold.log.front import mark_of
from refold.log.log import Log, now_ms
from refold.log.trace import conversations, events_of, is_memory
from refold.search import fronts
from refold.search.upkeep import SEARCH_EVENTS, Upkeep, index_path
from refold.stores import erase_events
from refold.stores.protocol import Store

BY = "eraser"
WORDLESS = ("erase", "revert", "restore", "pin")  # they name other events, and keep them off


class Erased(Struct, frozen=True, kw_only=True):
    """What is erased of a conversation, by seq; how many summaries and memories went because of
    it now, and how many contents; which devices have said that they erased it too, by seq; and the
    seq of the last event that says so."""

    conversation: str
    seqs: tuple[int, ...] = ()
    derived: int = 0
    contents: int = 0
    confirmed: dict[int, tuple[str, ...]] = {}
    said_at: int = 0
    notes: tuple[str, ...] = ()


def erase(store: Store, id: str, seqs: Sequence[int] | None) -> Erased:
    """Erases these events, or all that the conversation says. NotFound, and nothing is erased, if
    one of them does not exist."""
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
    going = [
        (other, *_going(store, other, shared))
        for other in [id, *_others(store, id)]
        if (shared := [seq for seq in targets if _has(store, other, events[seq])])
    ]
    # Every log that reads them says so before the bytes go: no page is without an explanation.
    for other, own, made in going:
        _announce(store, other, [*own, *made], ids)
    for other, own, made in going:
        erase_events(store, other, [event.seq for event in (*own, *made)])
    derived = sum(len(made) for _, _, made in going)
    derived += _erase_memories(store, id, set(targets))
    contents, notes = _drop(store, named)
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
    )


def erased(store: Store, id: str) -> Erased:
    """What is erased of a conversation, and which devices have said that they did it too."""
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
    told = {seq: tuple(devices) for seq, devices in confirmed.items() if seq in seqs}
    return Erased(conversation=id, seqs=tuple(seqs), confirmed=told, said_at=said_at)


# --- what goes ---


def _chosen(about: Conversation, events: dict[int, Event], seqs: Sequence[int] | None) -> list[int]:
    if seqs is None:
        return [seq for seq, one in events.items() if one.kind not in WORDLESS and not one.erased]
    for seq in seqs:
        if seq not in events:
            said = f"{about.id!r} has no event {seq}"
            raise NotFound(said, hint=f"its events are 1 to {about.head}")
    chosen = [seq for seq in dict.fromkeys(seqs) if not events[seq].erased]
    return [*chosen, *_copies(events, chosen)]


def _copies(events: dict[int, Event], chosen: Sequence[int]) -> list[int]:
    """The messages that were taken off the page and say what the chosen ones say: a session that
    an import follows may have been written again from some place on."""
    said = {words for seq in chosen if (words := _words(events[seq])) is not None}
    off = switches(events.values()).off if said else ()
    return [seq for seq in sorted(off) if seq not in chosen and _words(events[seq]) in said]


def _of_same_lines(events: dict[int, Event], chosen: Sequence[int]) -> list[int]:
    """What came from the lines of the chosen ones and says a part of it: messages that were taken
    off the page, and the notes of a branch that was left."""
    lines = {id: events[seq] for seq in chosen for id in _ids(events[seq], MOMENT)}
    off = switches(events.values()).off if lines else ()
    others = (event for event in events.values() if event.kind == "note" or event.seq in off)
    return [one.seq for one in others if one.seq not in chosen and _is_of_lines(one, lines)]


def _still_said(events: dict[int, Event], chosen: Sequence[int]) -> Iterator[str]:
    """What else of the log came from the same lines: it may say more than was chosen, so whoever
    erases decides."""
    lines = {id: events[seq] for seq in chosen for id in _ids(events[seq], MOMENT)}
    for event in events.values() if lines else ():
        if event.seq not in chosen and event.kind == "message" and _is_of_lines(event, lines):
            yield f"#{event.seq} has the same lines of a file and still says them: erase it too"


def _is_of_lines(event: Event, lines: dict[str, Event]) -> bool:
    """Whether a message or note came from the line of a chosen one, and is the same part of it: a
    line may be results and a message of the user."""
    body = _body(event)
    same = (_body(lines[id]) for id in _ids(event, MOMENT) if id in lines)
    return any(
        not isinstance(one, Message)
        or not isinstance(body, Message)
        or (one.role, results_of(one)) == (body.role, results_of(body))
        for one in same
    )


def _ids(event: Event, without: str = "\0") -> list[str]:
    """The ids of the lines that a message or note came from, but for those that begin so."""
    body = _body(event) if event.kind in ("message", "note") else None
    ids = body.ids if isinstance(body, Message | Note) else ()
    return [id for id in ids if not id.startswith(without)]


def _words(event: Event) -> bytes | None:
    """What a message says, under whatever key; None for what is no message, or erased."""
    body = _body(event) if event.kind == "message" else None
    return mark_of(body) if isinstance(body, Message) else None


def _with_artifacts(events: dict[int, Event], chosen: Sequence[int]) -> list[Event]:
    """The events that keep artifacts of the chosen ones."""
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


def _others(store: Store, id: str) -> list[str]:
    """The other conversations: one that was forked once may have become a log of its own."""
    return [about.id for about in conversations(store) if about.id != id]


def _has(store: Store, id: str, event: Event) -> bool:
    found = store.read(id, after=event.seq - 1, last=event.seq, limit=1)
    return bool(found) and found[0].id == event.id


def _going(store: Store, id: str, targets: Sequence[int]) -> tuple[list[Event], list[Event]]:
    """Which events of one log go: the targets, and what was made of them."""
    events = [event for event in events_of(store, store.conversation(id)) if not event.erased]
    own = [event for event in events if event.seq in targets]
    made = [
        event for event in events if event.seq not in targets and _covers(_body(event), targets)
    ]
    return own, made


def _announce(store: Store, id: str, events: Sequence[Event], ids: set[str]) -> None:
    if events:
        Log(store, id).append([Draft(body=_erase_of(event, ids), by=BY) for event in events])


def _covers(body: object, targets: Sequence[int]) -> bool:
    """Whether an edit shows words of the targets, or stands for them."""
    match body:
        case Summarize(span=span) | Hide(span=span):
            return any(seq in span for seq in targets)
        case Replace(seq=seq):
            return seq in targets
        case _:
            return False


def _erase_of(event: Event, ids: set[str]) -> Erase:
    """The event that says it, with the shape that the page keeps, and those of these ids by which
    an import knows it again. Whatever else a copy had was not chosen."""
    body, own = _body(event), tuple(id for id in _ids(event) if id in ids)
    if not isinstance(body, Message):
        return Erase(seq=event.seq, ids=own)
    return Erase(
        seq=event.seq,
        role=body.role,
        calls=tuple(calls_of(body)),
        results=tuple(results_of(body)),
        ids=own,
    )


def _erase_memories(store: Store, id: str, seqs: set[int]) -> int:
    """Erases what was remembered from the events; gives how many entries went."""
    count = 0
    for about in _memories(store):
        from_here = [
            event.seq
            for event in events_of(store, about)
            if isinstance(body := _body(event), Memory)
            and body.source is not None
            and body.source[0] == id
            and body.source[1] in seqs
        ]
        if from_here:
            Log(store, about.id).append([Draft(body=Erase(seq=seq), by=BY) for seq in from_here])
            erase_events(store, about.id, from_here)
            count += len(from_here)
    return count


def _memories(store: Store) -> Iterator[Conversation]:
    after = ""
    while page := store.conversations(after=after, limit=200):
        yield from (about for about in page if is_memory(about.id))
        after = page[-1].id


def _drop(store: Store, named: dict[str, int]) -> tuple[int, list[str]]:
    """Drops contents that nobody names any more, whenever they were put."""
    free, notes = unnamed(store, named)
    at_ms = now_ms() + 1
    dropped = [store.drop(digest, before_ms=at_ms) for digest in free]
    return sum(dropped), notes


def _body(event: Event) -> object:
    try:
        return decode(event)
    except Corrupt:
        return None  # it is erased as it is


def _erase_from_index(store: Store) -> None:
    """Lets the derived files there are read that the words are gone."""
    fronts.forget(store)
    upkeep = Upkeep(store, index_path(store), tell=lambda name, reason: None)
    try:
        if upkeep.has_file():
            while upkeep.catch_up(SEARCH_EVENTS):
                pass
    finally:
        upkeep.close()
