"""A fold's state at a `seq`, without bodies: what lets a conversation open without reading its log.

Derived and disposable: a bookmark that is missing, older or of another version costs a full fold,
nothing else. `kept` writes it; `resumed` makes a fold of it again, given the events it names (the
visible bodies, their edits, the system prompt and the tools). Neighbour: `fold`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from refold import decoding
from refold.core.codec import decode, digest_of
from refold.core.eras import Change
from refold.core.fold import Fold
from refold.core.model import (
    Anchor,
    Applied,
    Era,
    Erase,
    Event,
    Fact,
    Hide,
    Lesson,
    Message,
    Meta,
    Replace,
    Slot,
    Span,
    Summarize,
    Totals,
    View,
)
from refold.core.shortened import edited, skeleton, standin, summary_text

VERSION = 8
DIGEST_BYTES = 16


class Bookmark(msgspec.Struct, array_like=True, kw_only=True):
    version: int
    head: int
    chain: bytes
    slots: list[tuple[int, int, int, tuple[Applied, ...]]]
    meta: Meta
    system: tuple[int, int]
    tools: tuple[int, int]
    contents: tuple[list[int], list[int]]
    pins: list[int]
    request: int
    erased: dict[int, Erase]
    anchor: Anchor | None
    totals: Totals
    responses: list[str]
    calibration: dict[str, float]
    counts: dict[str, int]
    artifacts: list[int]
    checkpoints: dict[str, int]
    facts: list[Fact]
    undoable: list[tuple[int, str]]
    purposes: dict[str, str]
    lessons: dict[str, Lesson]
    reached_at: int
    times: tuple[int, int, int]
    wishes: tuple[int, int]
    said_tokens: int
    eras: list[tuple[int, int, int]]
    newest: Change | None
    edited: list[Span]


_DECODER = decoding.packed_decoder(Bookmark)


def kept(state: Fold) -> bytes:
    """The state as bytes, after their digest: a damaged bookmark is found, and costs a fold."""
    data = msgspec.msgpack.encode(
        Bookmark(
            version=VERSION,
            head=state.head,
            chain=state.chain,
            slots=[(s.seq, s.last, s.tokens, s.edits) for s in state.slots],
            meta=msgspec.structs.replace(state.meta, system=None, tools=None),
            system=(state.system_seq, state.system_tokens),
            tools=(state.tools_seq, state.tools_tokens),
            contents=(list(state.systems), list(state.toolsets)),
            pins=sorted(state.pins),
            request=state.request,
            erased=state.erased,
            anchor=state.anchor,
            totals=state.totals,
            responses=state.responses,
            calibration=state.calibration,
            counts=state.counts,
            artifacts=state.artifacts.tolist(),
            checkpoints=state.checkpoints,
            facts=list(state.facts.values()),
            undoable=state.undoable,
            purposes=state.purposes,
            lessons=state.lessons,
            reached_at=state.reached_at,
            times=(state.first_at_ms, state.updated_ms, state.called_ms),
            wishes=(state.wish, state.wish_before),
            said_tokens=state.said_tokens,
            eras=[(era.since, era.until, era.until_native) for era in state.eras],
            newest=state.newest,
            edited=state.edited,
        )
    )
    return digest_of(b"", data) + data


def read(data: bytes | None) -> Bookmark | None:
    """The bookmark that the bytes hold; None if it is of no use."""
    if not data or digest_of(b"", data[DIGEST_BYTES:]) != data[:DIGEST_BYTES]:
        return None
    try:
        mark = _DECODER.decode(data[DIGEST_BYTES:])
    except (msgspec.DecodeError, ValueError):
        return None
    return mark if mark.version == VERSION else None


def needed(mark: Bookmark) -> list[int]:
    """The seqs of the events that `resumed` must be given."""
    wanted = {seq for seq, _ in (mark.system, mark.tools) if seq}
    wanted.update(*mark.contents)
    for seq, _, _, edits in mark.slots:
        wanted.update(edit.seq for edit in edits)
        if not (edits and edits[0].block < 0):
            wanted.add(seq)
    return sorted(wanted)


def size(mark: Bookmark) -> View:
    """A view without slots that is as large as the page was, for questions about its size."""
    return View(
        slot_tokens=sum(tokens for _, _, tokens, _ in mark.slots),
        system_tokens=mark.system[1],
        tools_tokens=mark.tools[1],
        anchor=mark.anchor,
        calibration=mark.calibration,
    )


def resumed(mark: Bookmark, events: Mapping[int, Event]) -> Fold:
    """The fold that the bookmark was taken of."""
    state = Fold()
    state.head, state.chain = mark.head, mark.chain
    state.erased = mark.erased
    state.slots = [
        _slot(seq, last, tokens, edits, events, mark.erased)
        for seq, last, tokens, edits in mark.slots
    ]
    state.slot_tokens = sum(slot.tokens for slot in state.slots)
    _add_contents(state, mark, events)
    state.meta = msgspec.structs.replace(mark.meta, **_fixed(mark, state, events))
    state.system_seq, state.system_tokens = mark.system
    state.tools_seq, state.tools_tokens = mark.tools
    state.pins, state.request = set(mark.pins), mark.request
    state.anchor, state.totals = mark.anchor, mark.totals
    state.responses, state.calibration, state.counts = mark.responses, mark.calibration, mark.counts
    state.artifacts, state.checkpoints = array("q", mark.artifacts), mark.checkpoints
    state.facts = {(fact.kind, fact.text): fact for fact in mark.facts}
    state.undoable, state.lessons = list(mark.undoable), mark.lessons
    state.purposes = mark.purposes
    state.reached_at = mark.reached_at
    state.first_at_ms, state.updated_ms, state.called_ms = mark.times
    state.wish, state.wish_before = mark.wishes
    state.said_tokens = mark.said_tokens
    state.eras = [
        Era(since=since, until=until, until_native=native) for since, until, native in mark.eras
    ]
    state.newest, state.edited = mark.newest, mark.edited
    return state


def _add_contents(state: Fold, mark: Bookmark, events: Mapping[int, Event]) -> None:
    """The system prompts and the tools that a later event may name."""
    systems, toolsets = mark.contents
    for seq in systems:
        if isinstance(meta := decode(events[seq]), Meta):
            state.systems[seq] = meta.system
    for seq in toolsets:
        if isinstance(meta := decode(events[seq]), Meta) and meta.tools is not None:
            state.toolsets[seq] = meta.tools


def _fixed(mark: Bookmark, state: Fold, events: Mapping[int, Event]) -> dict[str, Any]:
    """The system prompt and the tools, from the events that set them or name them."""
    found: dict[str, Any] = {}
    system, tools = (decode(events[seq]) if seq else None for seq, _ in (mark.system, mark.tools))
    if isinstance(system, Meta):
        found["system"] = state.systems.get(system.system_seq or mark.system[0])
    if isinstance(tools, Meta):
        found["tools"] = state.toolsets.get(tools.tools_seq or mark.tools[0])
    return found


def _slot(
    seq: int,
    last: int,
    tokens: int,
    edits: tuple[Applied, ...],
    events: Mapping[int, Event],
    erased: dict[int, Erase],
) -> Slot:
    if edits and edits[0].block < 0:
        event = events[edits[0].seq]
        body = decode(event)
        if isinstance(body, Summarize):
            return standin(seq, last, summary_text(body), event, body)
        return standin(seq, last, body.notice if isinstance(body, Hide) else "", event)
    message = None if seq in erased else decode(events[seq])
    shown = message if isinstance(message, Message) else skeleton(erased.get(seq))
    for edit in _in_order(edits, events):
        shown = edited(shown, edit)
    return Slot(seq, last, shown, tokens, edits)


def _in_order(edits: Iterable[Applied], events: Mapping[int, Event]) -> Iterable[Replace]:
    for applied in edits:
        body = decode(events[applied.seq])
        if isinstance(body, Replace):
            yield body
