"""A fold's state at a `seq`, without bodies, so that a conversation opens without reading its log.

Derived and disposable: a missing, older or foreign bookmark costs a full fold, nothing else. `kept`
encodes it; `resumed` restores the fold, given the events it refers to (visible bodies, their edits,
the system prompt and the tools). A bookmark of an earlier place (`is_along`) leaves out the lists
that the fold at any later head has, too. Neighbour: `fold`.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping
from typing import Any

import msgspec

from refold import decoding
from refold.core.active_events import ControlLog
from refold.core.codec import decode, digest_of
from refold.core.fold import FactPlace, Fold
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
from refold.core.thinking_validity import Change

VERSION = 12
DIGEST_BYTES = 16
SIZE_MAX = 1 << 28  # of a compressed one
_COMPRESSED = zlib.compress(b"")[:1]  # no packed bookmark begins like this

SlotKey = tuple[int, int, int, tuple[Applied, ...]]  # seq, last, tokens and edits
Known = Mapping[SlotKey, Slot]
Facts = Mapping[FactPlace, Fact]


class Bookmark(msgspec.Struct, array_like=True, kw_only=True):
    version: int
    head: int
    chain: bytes
    slots: list[SlotKey]
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
    facts: list[FactPlace]
    told: list[Fact]  # the same facts; not in a bookmark along the log, which they would make large
    undoable: list[tuple[int, str]]
    purposes: dict[str, str]
    lessons: dict[str, Lesson]
    reached_at: int
    times: tuple[int, int, int]
    wishes: tuple[int, int]
    said_tokens: int
    eras: list[tuple[int, int, int, tuple[int, int]]]
    newest: Change | None
    edited: list[Span]
    controls: tuple[bytes, int]


NOTHING: Known = {}
NO_FACTS: Facts = {}
_DECODER = decoding.packed_decoder(Bookmark)


def kept(state: Fold, *, is_along: bool = False) -> bytes:
    """The state as bytes, after their digest: a damaged bookmark is detected, and costs a fold."""
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
            artifacts=[] if is_along else state.artifacts.tolist(),
            checkpoints=state.checkpoints,
            facts=list(state.fact_places.values()),
            told=[] if is_along else list(state.facts.values()),
            undoable=[] if is_along else state.undoable,
            purposes=state.purposes,
            lessons=state.lessons,
            reached_at=state.reached_at,
            times=(state.first_at_ms, state.updated_ms, state.called_ms),
            wishes=(state.wish, state.wish_before),
            said_tokens=state.said_tokens,
            eras=[(era.since, era.until, era.until_native, era.front) for era in state.eras],
            newest=state.newest,
            edited=state.edited,
            controls=(b"", 0) if is_along else state.controls.packed(),
        )
    )
    if is_along:
        data = zlib.compress(data, 1)
    return digest_of(b"", data) + data


def read(data: bytes | None) -> Bookmark | None:
    """The bookmark in the bytes; None if it is damaged or of another version."""
    if not data or digest_of(b"", data[DIGEST_BYTES:]) != data[:DIGEST_BYTES]:
        return None
    packed = data[DIGEST_BYTES:]
    try:
        if packed[:1] == _COMPRESSED:
            packed = zlib.decompressobj().decompress(packed, SIZE_MAX)
        mark = _DECODER.decode(packed)
    except (msgspec.DecodeError, ValueError, zlib.error):
        return None
    return mark if mark.version == VERSION else None


def needed(mark: Bookmark, known: Known = NOTHING, facts: Facts = NO_FACTS) -> list[int]:
    """The seqs of the events that `resumed` needs."""
    seqs = {seq for seq, _ in (mark.system, mark.tools) if seq}
    seqs.update(*mark.contents)
    if not mark.told:
        seqs.update(seq for seq, at in mark.facts if (seq, at) not in facts)
    for place in mark.slots:
        if place in known:
            continue
        seq, _, _, edits = place
        seqs.update(edit.seq for edit in edits)
        if not (edits and edits[0].block < 0):
            seqs.add(seq)
    return sorted(seqs)


def size(mark: Bookmark) -> View:
    """A view with the size of the page, but without its slots."""
    return View(
        slot_tokens=sum(tokens for _, _, tokens, _ in mark.slots),
        system_tokens=mark.system[1],
        tools_tokens=mark.tools[1],
        anchor=mark.anchor,
        calibration=mark.calibration,
    )


def resumed(
    mark: Bookmark,
    events: Mapping[int, Event],
    known: Known = NOTHING,
    facts: Facts = NO_FACTS,
) -> Fold:
    """The fold at the bookmark. What is the same in `known` and `facts` is taken from there."""
    state = Fold()
    state.head, state.chain = mark.head, mark.chain
    state.erased = mark.erased
    state.slots = [known.get(place) or _slot(*place, events, mark.erased) for place in mark.slots]
    state.slot_tokens = sum(slot.tokens for slot in state.slots)
    _add_contents(state, mark, events)
    state.system_seq, state.system_tokens = mark.system
    state.tools_seq, state.tools_tokens = mark.tools
    state.pins, state.request = set(mark.pins), mark.request
    state.anchor, state.totals = mark.anchor, mark.totals
    state.responses, state.calibration, state.counts = mark.responses, mark.calibration, mark.counts
    state.artifacts, state.checkpoints = array("q", mark.artifacts), mark.checkpoints
    told = dict(zip(mark.facts, mark.told)) or facts
    bodies = {seq: decode(events[seq]) for seq, at in mark.facts if (seq, at) not in told}
    for seq, at in mark.facts:
        body = bodies.get(seq)
        fact = body.facts[at] if isinstance(body, Summarize) else told.get((seq, at))
        if fact is not None:
            state.facts[fact.kind, fact.text] = fact
            state.fact_places[fact.kind, fact.text] = seq, at
    state.undoable, state.lessons = list(mark.undoable), mark.lessons
    state.purposes = mark.purposes
    state.reached_at = mark.reached_at
    state.first_at_ms, state.updated_ms, state.called_ms = mark.times
    state.wish, state.wish_before = mark.wishes
    state.said_tokens = mark.said_tokens
    state.eras = [
        Era(since=since, until=until, until_native=native, front=front)
        for since, until, native, front in mark.eras
    ]
    state.newest, state.edited = mark.newest, mark.edited
    state.controls = ControlLog(*mark.controls)
    return state


def _add_contents(state: Fold, mark: Bookmark, events: Mapping[int, Event]) -> None:
    """Adds the current system prompt and tools, and those that a later event may refer to."""
    systems, toolsets = mark.contents
    for seq in systems:
        if isinstance(meta := decode(events[seq]), Meta):
            state.systems[seq] = meta.system
    for seq in toolsets:
        if isinstance(meta := decode(events[seq]), Meta) and meta.tools is not None:
            state.toolsets[seq] = meta.tools
    current: dict[str, Any] = {}
    system, tools = (decode(events[seq]) if seq else None for seq, _ in (mark.system, mark.tools))
    if isinstance(system, Meta):
        current["system"] = state.systems.get(system.system_seq or mark.system[0])
    if isinstance(tools, Meta):
        current["tools"] = state.toolsets.get(tools.tools_seq or mark.tools[0])
    state.meta = msgspec.structs.replace(mark.meta, **current)


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
    for applied in edits:
        edit = decode(events[applied.seq])
        if isinstance(edit, Replace):
            shown = edited(shown, edit)
    return Slot(seq, last, shown, tokens, edits)
