"""What a log has of a session's file: its places, which are compared with the file one after the
other, its notes, and what it was told of the session.

Only what an import itself took off counts as gone. Whatever a user did since (restored, undid,
compacted, pinned, renamed, erased) changes the page and not what was imported. Each place knows its
events, so that it can be taken off alone. Neighbours: `follow` compares, `owner` asks whose a
conversation is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.codec import decode
from refold.core.model import (
    MIRRORED,
    Erase,
    Event,
    Hide,
    Message,
    Meta,
    Note,
    Pin,
    Replace,
    Summarize,
    Usage,
)
from refold.core.switches import switches
from refold.edges.importers.entry import ADOPTED, REWOUND, STAND_IN, UNREAD
from refold.edges.importers.parts import MORE, continued
from refold.edges.importers.trace import Trace, moments_of, shape_of, trace_of
from refold.engine.context import Context
from refold.log.keys import Name, name_of
from refold.tokens.billed import together

PLACED = frozenset({"", ADOPTED, REWOUND, UNREAD})  # kinds of notes that are places; "": a message
SAID = ("model", "title", "system", "tools")
TAKEN = "taken"  # in a note on what was taken back: by how many events directly before it
_PAGE_EVENTS = 500


class Place(Struct):
    """One thing of the file that the log has: its key (empty if it was erased), the events by
    which it is there, what is left of it if it, or what it told, was erased, and the ids of its
    lines."""

    key: str
    seqs: list[int]
    trace: Trace | None = None
    ids: tuple[str, ...] = ()


class Known(Struct):
    """What a log has of a file. `said` are the values that it was ever told of the session;
    `was_erased` says that some of them, or of what was billed, were erased. `traces` are of all
    that was erased and had a place, or ids, also of what an import took off."""

    places: list[Place]
    traces: list[Trace]
    notes: set[str]
    erased_notes: Counter[int]  # by their times; nothing else is left of these
    said: set[tuple[str, bytes]]
    more: dict[str, list[Place]]  # what continues messages, by the keys that these have in the file
    billed: dict[str, Usage]  # by response
    models: set[str]  # for which messages were counted
    moments: set[int]  # of the lines of messages that were not erased, also of those taken off
    was_erased: bool = False

    def has_said(self, field: str, value: Any) -> bool:
        """Whether the log was ever told this, or may have been."""
        return self.was_erased or self.says(field, value)

    def standing(self) -> list[Place]:
        """What of the file stands in the log."""
        more = (one for ones in self.more.values() for one in ones)
        return [*(place for place in self.places if place.key and not place.trace), *more]

    def says(self, field: str, value: Any) -> bool:
        """Whether the log was ever told this, and it was not erased."""
        return (field, encoded(value)) in self.said


def known(context: Context, source: str, after: int = 0) -> Known:
    """What the log has of a file of this source, after a seq."""
    walk = _Walk(source)
    for event in events_of(context, after):
        walk.take(event)
    return walk.found()


def events_of(context: Context, after: int = 0) -> Iterator[Event]:
    """The events of the log, read page by page."""
    while page := context.log.events(after=after, limit=_PAGE_EVENTS):
        yield from page
        after = page[-1].seq


def told_in(meta: Meta) -> Iterator[tuple[str, bytes]]:
    """Each value that a meta event tells, under the name of its field."""
    for field in SAID:
        if (value := getattr(meta, field)) is not None:
            yield field, encoded(value)
    for field, value in (meta.metadata or {}).items():
        yield f"metadata.{field}", encoded(value)


def encoded(value: Any) -> bytes:
    """A value as it is compared; what JSON cannot carry is like nothing."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""


class _Walk:
    """Reads a log once, oldest event first."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._run: list[Event] = []  # the edits and reverts of imports directly before
        self._reverts: list[Event] = []  # of imports, of what the file no longer has
        self._named: list[tuple[Name, Place]] = []
        self._erased: list[tuple[str, Event]] = []  # with what they were
        self._shapes: dict[int, Erase] = {}
        self._moments: set[int] = set()
        self._erased_notes: list[Event] = []
        self._said: set[tuple[str, bytes]] = set()
        self._billed: dict[str, Usage] = {}
        self._models = {""}
        self._was_erased = False

    def take(self, event: Event) -> None:
        if event.by == self._source and event.kind in ("edit", "revert"):
            self._run.append(event)
            return
        run, self._run = self._run, []
        name = self._erased_name(event, run) if event.erased else name_of(event)
        made = _made(event, name, run)
        # What the file itself took back is still in it.
        left = run[: len(run) - len(made)] if name.kind == REWOUND else run
        self._reverts += [one for one in left if one.kind == "revert"]
        if event.erased:
            self._take_erased(event, name)
        elif name.key and not name.key.startswith(MIRRORED):
            self._take_named(event, name, made)
        else:
            self._hear(event)

    def _hear(self, event: Event) -> None:
        match decode(event) if event.kind in ("meta", "usage", "erase") else None:
            case Meta() as meta:
                self._said.update(told_in(meta))
                self._models.add(meta.model or "")
            case Usage() as usage if usage.response:
                before = self._billed.get(usage.response)
                self._billed[usage.response] = together(before, usage) if before else usage
            case Erase() as shape:
                self._shapes[shape.seq] = replace(shape, seq=0)

    def _take_named(self, event: Event, name: Name, made: list[Event]) -> None:
        if name.kind == ADOPTED and any(one.erased for one in made):
            self._erased.append((ADOPTED, event))  # what it told is gone, and it stays taken over
        place = Place(name.key, [*(one.seq for one in made), event.seq], ids=name.ids)
        if name.key == STAND_IN and isinstance(message := decode(event), Message):
            place.key, place.trace = "", trace_of(event, "message", name.ids, shape_of(message))
        elif name.kind in PLACED:
            self._moments |= moments_of(name.ids, event.at_ms)
        self._named.append((name, place))

    # --- what was erased ---

    def _erased_name(self, event: Event, run: list[Event]) -> Name:
        """What an event was that was erased, as far as what was written before it tells."""
        if event.kind != "note" or event.by != self._source or not run:
            return Name()
        return Name(kind=ADOPTED if any(one.kind == "edit" for one in run) else REWOUND)

    def _take_erased(self, event: Event, name: Name) -> None:
        self._was_erased |= event.kind in ("meta", "usage")
        if event.kind == "message" or name.kind:
            self._named.append((name, Place("", [event.seq])))
            self._erased.append((name.kind or event.kind, event))
        elif event.kind == "note" and event.by == self._source:
            self._erased_notes.append(event)

    def _traces(self) -> dict[int, Trace]:
        named = [("note", event) for event in self._erased_notes if self._ids_of(event)]
        return {event.seq: self._trace_of(kind, event) for kind, event in (*self._erased, *named)}

    def _trace_of(self, kind: str, event: Event) -> Trace:
        return trace_of(event, kind, self._ids_of(event), self._shapes.get(event.seq))

    def _ids_of(self, event: Event) -> tuple[str, ...]:
        """The ids of something that was erased, or whose words were."""
        shape = self._shapes.get(event.seq)
        return shape.ids if shape else name_of(event).ids

    def found(self) -> Known:
        left = [one for one in self._run if one.kind == "revert"]
        off = switches([*self._reverts, *left]).off
        traces = self._traces()
        places: dict[str | int, Place] = {}  # a message may be several events
        notes: set[str] = set()
        more: dict[str, list[Place]] = {}
        for name, place in self._named:
            if place.seqs[-1] in off:
                continue
            place.trace = place.trace or traces.get(place.seqs[-1])
            if name.kind not in PLACED:
                notes.add(name.key)
            elif place.key.startswith(MORE):
                more.setdefault(continued(place.key), []).append(place)
            elif place.key:
                first = places.setdefault(place.key, place)
                if first is not place:
                    first.seqs += place.seqs
            else:
                places[place.seqs[-1]] = place
        nameless = Counter(one.at_ms for one in self._erased_notes if not self._ids_of(one))
        return Known(
            list(places.values()), list(traces.values()), notes, nameless, self._said,
            more, self._billed, self._models, self._moments, self._was_erased,
        )  # fmt: skip


def _made(event: Event, name: Name, run: list[Event]) -> list[Event]:
    """Which of the edits and reverts directly before it a note speaks of; before those, something
    else may have been taken off."""
    if name.kind == ADOPTED:
        return [one for one in run if one.kind == "edit"]
    if name.kind != REWOUND:
        return []
    note = decode(event)
    count = note.data.get(TAKEN) if isinstance(note, Note) and isinstance(note.data, dict) else None
    return run[len(run) - count :] if isinstance(count, int) and 0 <= count <= len(run) else run


def is_touched(context: Context, source: str, places: list[Place]) -> bool:
    """Whether somebody else did something to one of these places, or said something between
    them: then they stay as they are."""
    seqs = {seq for place in places for seq in place.seqs}
    first = min(seqs)
    if not all(place.key for place in places):
        return True
    for event in events_of(context, first):
        is_other = event.kind == "message" and event.seq not in seqs
        if is_other or (event.by != source and _last_named(event) >= first):
            return True
    return False


def _last_named(event: Event) -> int:
    """The last message that an event of a user changes; itself if that may be any."""
    if event.kind in ("revert", "restore"):
        return event.seq
    match decode(event) if event.kind in ("pin", "edit", "erase") else None:
        case Pin(seq=seq) | Replace(seq=seq) | Erase(seq=seq):
            return seq
        case Hide(span=span) | Summarize(span=span):
            return span.last
    return 0
