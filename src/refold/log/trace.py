"""The history of a message: the events that touched it, oldest first; and stored logs, read page by
page.

A trace has every edit with its strategy and reason, the revert or restore that switched it off, a
pin that prevented it, the artifact of a large result, and the call that made its text stale. Stored
logs are read in bounded pages, so a log of any length costs the memory of one: `events_of` requires
every event, `readable` yields an error for a damaged one and continues. Neighbours: a store below;
`search`, `artifacts`, `conversations` and `Context.log` above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
from refold.core import codec
from refold.core.codec import decode, unknown_in
from refold.core.model import (
    DEVICE_PREFIX,
    MEMORY_PREFIX,
    Artifact,
    Block,
    Body,
    Conversation,
    Erase,
    Event,
    Hide,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
    ToolResult,
)
from refold.core.switches import CONTROLS, Switches, switches
from refold.errors import Corrupt, Invalid
from refold.ledger.actions import made_stale
from refold.log.log import Log, message_of
from refold.log.undo import message_event
from refold.stores import changing
from refold.stores.protocol import Store

READ_EVENTS = 500
FIRST_CONVERSATIONS, LIST_CONVERSATIONS = 50, 200


class Trace(Struct, frozen=True, kw_only=True):
    """One event that touched a message: its action, its author or strategy (`by`), whether it is in
    effect now (`live`), the changed block (-1: the whole message), and the `handle` of the
    originals."""

    seq: int
    at_ms: int
    action: str
    by: str = ""
    reason: str = ""
    batch: str = ""
    block: int = -1
    handle: str = ""
    live: bool = True


def message_history(log: Log, seq: int, config: Config) -> list[Trace]:
    """The history of one message; NotFound if there is no such message."""
    event = message_event(log, seq)
    message = message_of(event, log.state)
    blocks = message.blocks if message else ()
    traces = [*_offloads(event, blocks), *_stale(log, seq, config)]
    controls = [event for event in log.read(seq) if event.kind in CONTROLS]
    traces += _control_traces(controls, seq, len(blocks))
    traces += _unknown_parts(log.read(seq - 1), seq)
    return sorted(traces, key=lambda trace: trace.seq)


def history_of(events: Iterable[Event]) -> list[Trace]:
    """All changes to the page of a log, oldest first: every edit, pin, undo, restore and erasure,
    and whether it is in effect now."""
    controls = [event for event in events if event.kind in CONTROLS]
    switched = switches(controls)
    history = []
    for event in controls:
        body = decode(event)
        if body is not None:
            at = body.seq if isinstance(body, Replace) else 0
            history.append(_trace(event, body, live=_is_live(event, body, at, switched)))
    return history


def _offloads(event: Event, blocks: Sequence[Block]) -> Iterator[Trace]:
    """Results that were too large for the page: each is an artifact, and the page has a stub."""
    for index, block in enumerate(blocks):
        if isinstance(block, ToolResult) and block.artifact:
            yield Trace(
                seq=event.seq,
                at_ms=event.at_ms,
                action=f"kept as artifact {block.artifact}",
                by=event.by,
                reason="too large for the page: replaced by a stub",
                block=index,
                handle=block.artifact,
            )


def _unknown_parts(events: Iterable[Event], seq: int) -> Iterator[Trace]:
    """Parts of the message, and later events, that a newer version wrote and this one ignores."""
    for event in events:
        if event.kind == "message" and event.seq != seq:
            continue
        for name in unknown_in(event):
            yield Trace(
                seq=event.seq,
                at_ms=event.at_ms,
                action=f"unknown {name}",
                by=event.by,
                reason="a newer version wrote it; this one ignores it",
                live=False,
            )


def _stale(log: Log, seq: int, config: Config) -> list[Trace]:
    """The call that made a text on the page stale. The text stays: there is no newer one."""
    change = made_stale(log.state.view(), seq, config)
    if change is None:
        return []
    at, path = change
    return [
        Trace(
            seq=at,
            at_ms=event.at_ms,
            action="made stale",
            by=event.by,
            reason=f"{path} was changed after this was read",
            handle=str(Span(at, at)),
        )
        for event in log.read(at - 1, at)
    ]


def _control_traces(controls: Sequence[Event], seq: int, blocks: int) -> Iterator[Trace]:
    """Traces of the control events that touched a message with this number of blocks."""
    switched = switches(controls)
    batches: set[str] = set()
    seen: set[int] = set()
    for event in controls:
        body = decode(event)
        if body is None or not _touches(body, seq, batches, seen):
            continue
        seen.add(event.seq)
        if isinstance(body, Replace | Hide | Summarize):
            batches.add(body.batch)
        # The fold ignores a replacement of a block that does not exist.
        has_block = not isinstance(body, Replace) or 0 <= body.block < blocks
        yield _trace(event, body, live=has_block and _is_live(event, body, seq, switched))


def _is_live(event: Event, body: Body, seq: int, switched: Switches) -> bool:
    """Whether the event is in effect: not switched off, prevented by a pin, or superseded."""
    if event.seq in switched.off:
        return False
    match body:
        case Replace():
            is_newest = switched.winners.get((body.seq, body.block)) == event.seq
            return is_newest and seq not in switched.pins
        case Hide() | Summarize():
            return seq not in switched.pins
        case _:
            return True


def _touches(body: Body, seq: int, batches: set[str], seen: set[int]) -> bool:
    """Whether an event concerns the message, directly or by switching off an event that does."""
    match body:
        case Replace() | Pin() | Erase():
            return body.seq == seq
        case Hide() | Summarize():
            return body.span.first <= seq <= body.span.last
        case Restore():
            return body.seq < max([seq, *seen])
        case Revert():
            return body.batch in batches if body.batch else body.seq in seen
        case _:
            return False


def _trace(event: Event, body: Body, *, live: bool) -> Trace:
    trace = Trace(seq=event.seq, at_ms=event.at_ms, action=_action(body), by=event.by, live=live)
    if not isinstance(body, Replace | Hide | Summarize):
        return trace
    trace = replace(trace, reason=body.reason, batch=body.batch)
    if isinstance(body, Replace):
        return replace(trace, block=body.block, handle=str(Span(body.seq, body.seq)))
    return replace(trace, handle=str(body.span))


def _action(body: Body) -> str:
    match body:
        case Replace():
            return "shortened"
        case Hide():
            return "hidden"
        case Summarize():
            return "summarized"
        case Pin():
            return "pinned" if body.on else "unpinned"
        case Revert():
            return f"reverted batch {body.batch}" if body.batch else f"reverted #{body.seq}"
        case Restore():
            return f"restored to #{body.seq}"
        case _:
            return "erased"


def conversations(store: Store) -> Iterator[Conversation]:
    """All conversations of a store, by id, without the logs of memories and devices."""
    return filter(is_conversation, _logs(store))


def is_conversation(about: Conversation) -> bool:
    """Whether this is not the log of a memory or a device."""
    return not about.id.lower().startswith((MEMORY_PREFIX, DEVICE_PREFIX))


def newest_first(store: Store) -> Iterator[Conversation]:
    """All conversations of a store, the last written first; a store that knows this order is read
    only as far as the caller goes."""
    known, last, size = changing(store), None, FIRST_CONVERSATIONS
    while known is not None:
        try:
            page = known.newest(after=last, limit=size)
        except Corrupt:
            page = None  # the order is derived, and the conversations may be sound
        if page is None:
            break
        yield from (about for about in page if _is_id(about.id) and is_conversation(about))
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
    """The ids in a store that no conversation can have: somebody else wrote them."""
    return (about.id for about in _pages(store) if not _is_id(about.id))


def _logs(store: Store) -> Iterator[Conversation]:
    return (about for about in _pages(store) if _is_id(about.id))


def _is_id(id: str) -> bool:
    try:
        return bool(codec.conversation_checked(id))
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
    if is_memory(codec.conversation_checked(id)):
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
    """The artifact that an event names, if any. Raises an error given instead of an event."""
    if isinstance(event, Corrupt):
        raise event
    body = codec.decode(event) if event.kind == "artifact" else None
    return body if isinstance(body, Artifact) else None
