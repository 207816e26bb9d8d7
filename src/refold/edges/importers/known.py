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

from refold.core.codec import decode
from refold.core.model import (
    Erase,
    Event,
    Hide,
    Meta,
    Pin,
    Replace,
    Summarize,
    Usage,
)
from refold.core.switches import switches
from refold.edges.importers.parts import MORE, continued
from refold.engine.context import Context
from refold.log import front
from refold.log.keys import Name, name_of
from refold.tokens.billed import together

ADOPTED = "adopted-compaction"  # the note that says which summary of the file was taken over
REWOUND = "rewound"  # the note that says which line of the file took others back
UNREAD = "unread"  # the note in the place of a message that is none
PLACED = frozenset({"", ADOPTED, REWOUND, UNREAD})  # kinds of notes that are places; "": a message
SAID = ("model", "title", "system", "tools")
_PAGE_EVENTS = 500


class Place(Struct):
    """One thing of the file that the log has: its key (empty if it was erased), the time and the
    size it has in the log and who counted it, and the events by which it is there."""

    key: str
    at_ms: int
    tokens: int
    counter: str
    seqs: list[int]


class Known(Struct):
    """What a log has of a file. `said` are the values that it was ever told of the session;
    `was_erased` says that some of them, or of what was billed, were erased."""

    places: list[Place]
    notes: set[str]
    erased_notes: Counter[int]  # by their times; nothing else is left of them
    said: set[tuple[str, bytes]]
    more: dict[str, list[Place]]  # what continues messages, by the keys that these have in the file
    billed: dict[str, Usage]  # by response
    was_erased: bool = False

    def has_said(self, field: str, value: Any) -> bool:
        """Whether the log was ever told this, or may have been."""
        return self.was_erased or (field, encoded(value)) in self.said


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
        self._erased_notes: Counter[int] = Counter()
        self._said: set[tuple[str, bytes]] = set()
        self._billed: dict[str, Usage] = {}
        self._was_erased = False

    def take(self, event: Event) -> None:
        if event.by == self._source and event.kind in ("edit", "revert"):
            self._run.append(event)
            return
        run, self._run = self._run, []
        self._was_erased |= event.erased and event.kind in ("meta", "usage")
        if event.kind == "meta":
            meta = decode(event)
            self._said.update(told_in(meta) if isinstance(meta, Meta) else ())
        if event.kind == "usage":
            self._bill(event)
        name = name_of(event)
        # What the file itself took back is still in it.
        if name.kind != REWOUND:
            self._reverts += [one for one in run if one.kind == "revert"]
        if event.erased:
            self._take_erased(event)
        elif name.key and not name.key.startswith(front.KEY):
            made = [one.seq for one in run] if name.kind in (ADOPTED, REWOUND) else []
            self._name(event, name, made)

    def _name(self, event: Event, name: Name, made: list[int]) -> None:
        place = Place(name.key, event.at_ms, event.tokens, event.counter, [*made, event.seq])
        self._named.append((name, place))

    def _bill(self, event: Event) -> None:
        usage = decode(event)
        if isinstance(usage, Usage) and usage.response:
            before = self._billed.get(usage.response)
            self._billed[usage.response] = together(before, usage) if before else usage

    def _take_erased(self, event: Event) -> None:
        if event.kind == "message":
            self._name(event, Name(), [])
        elif event.kind == "note" and event.by == self._source:
            self._erased_notes[event.at_ms] += 1

    def found(self) -> Known:
        left = [one for one in self._run if one.kind == "revert"]
        off = switches([*self._reverts, *left]).off
        places: dict[str | int, Place] = {}  # a message may be several events
        notes: set[str] = set()
        more: dict[str, list[Place]] = {}
        for name, place in self._named:
            if place.seqs[-1] in off:
                continue
            if name.kind not in PLACED:
                notes.add(name.key)
                continue
            if name.key.startswith(MORE):
                more.setdefault(continued(name.key), []).append(place)
                continue
            first = places.setdefault(name.key or place.seqs[0], place)
            if first is not place:
                first.seqs += place.seqs
        return Known(
            list(places.values()), notes, self._erased_notes, self._said, more, self._billed,
            self._was_erased,
        )  # fmt: skip


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
