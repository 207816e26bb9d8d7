"""What an importer gives, one value after another: what was said, what it was billed, what is no
message, a compaction of the other program's own, what was taken back, what the session is about,
and what could not be read.

`line` is where it stands in the file: a line, or an element where the file is one JSON value.
`session` names a side chain of it (empty: the session itself), `key` is its name in the file and
stays the same when the file grows. Neighbours: importers make entries, `follow` writes them.

What became of a file that was imported: its sessions, and what was not understood.

Neighbours: `importer` reports, `unchanged` keeps reports, the command shows them.

What an import wrote of one session, counted over all its tries.

Somebody else may write to the log meanwhile: then an import begins again, and knows what it wrote
before that. What only waited to be written was not. Neighbours: `follow` counts, `importer` keeps a
tally per session and reports it.

What is left of something that was erased, by which it may be known in a file again.

Of a message that an importer wrote, the ids that the file gives to its lines stay, and the moments
of those that came later than the first; of any, its time, its size and its shape. Nothing of it
tests a guess of the words. Neighbours: `known` finds traces in a log, `gone` decides by ids and
moments, `erased` by size and shape where there are none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from refold.core.laws import calls_of, results_of
from refold.core.model import MOMENT, Erase, Event, Message, Usage
from refold.core.shortened import skeleton

# Kinds of notes.
LEFT_BRANCH = "left-branch"  # a message of a branch that was left
ADOPTED = "adopted-compaction"  # which summary of the file was taken over
REWOUND = "rewound"  # which line of the file took others back
UNREAD = "unread"  # in the place of a message that is none

STAND_IN = "erased:"  # the key of what stands for a message that was left out


class Entry(Struct, frozen=True, kw_only=True):
    """What all of them have. `at_ms` is when it happened, if the file says so; `within_ms`, of a
    response in several lines, from when to when, also if its first ones are not in the file. `ids`
    are those that the file itself gives it: nobody can tell its words from them."""

    line: int = 0
    session: str = ""
    key: str = ""
    at_ms: int | None = None
    within_ms: tuple[int, int] | None = None
    ids: tuple[str, ...] = ()


class Where(TypedDict, total=False):
    """Where and when an entry stands, as importers hand it on."""

    line: int
    session: str
    at_ms: int | None
    within_ms: tuple[int, int] | None


class About(Entry, frozen=True, kw_only=True):
    """What the session is about, from here on; None says nothing."""

    model: str | None = None
    title: str | None = None
    system: Any = None
    tools: list[Any] | None = None
    metadata: dict[str, Any] | None = None


class Said(Entry, frozen=True, kw_only=True):
    """A message, in any provider's shape, and what it was billed if that stands with it. Where the
    file may bring more of it later, `parts` says how many parts its content has so far; then `ids`
    and `times` are those of the lines of its parts, one for each (empty and None: it has none)."""

    message: Any
    usage: Usage | None = None
    parts: int = 0
    times: tuple[int | None, ...] = ()


class Billed(Entry, frozen=True, kw_only=True):
    """A usage that stands after its reply."""

    usage: Usage


class Noted(Entry, frozen=True, kw_only=True):
    """A line that is no message. `kind` is what the file calls it; of a branch that was left,
    `message` names the message that it is a part of."""

    kind: str
    data: Any
    message: str = ""


class Summed(Entry, frozen=True, kw_only=True):
    """A text that stands for everything before it, but for the messages whose keys are kept."""

    text: str


class Rewound(Entry, frozen=True, kw_only=True):
    """What was said under these keys, earlier in the file, was taken back."""

    keys: frozenset[str]


class Unread(Entry, frozen=True, kw_only=True):
    """A line that was not understood, and why."""

    reason: str


class Branch(NamedTuple):
    """A branch of a session that was left: its name, and what was said in it from the beginning
    on. Its first entries are those of the session itself."""

    name: str
    entries: Callable[[], Iterator[Entry]]


class Session(Struct, frozen=True, kw_only=True):
    """A conversation that follows a session: its messages in the file, how many of them were new,
    how many a rewound session took back, and how many the file no longer has. To restore `left_at`
    gives the branch that was left, alone; `left` are the messages of branches that were left in
    the file itself, which are notes and nothing else; `erased` were left out, since they may be
    what was erased before and stand in another place now. All of them count messages, not lines."""

    conversation: str
    title: str
    head: int
    messages: int
    new: int
    restored: int = 0
    left_at: int = 0
    missing: int = 0
    left: int = 0
    erased: int = 0


class Report(Struct, frozen=True, kw_only=True):
    """What became of a file. `unread` has the first lines that were not understood, of
    `unread_total`; where the file has no lines, `unit` says what their numbers count."""

    file: str
    source: str
    sessions: list[Session]
    unread: list[Unread]
    unread_total: int = 0
    unit: str = "line"


def printable(path: Path) -> str:
    """The name of a file as it can be reported; names on a disk may have bytes that are no text."""
    return os.fsencode(path).decode("utf-8", "replace")


class Tally:
    """Counts of messages: `new`, `restored` (a rewound session took them back) and `erased` (left
    out, since they may be what was erased). `left_at` is the seq at which the log was before
    something was taken off; `again` are the keys of what is written once more, since a message
    grew, and `grown_at` is the seq at which the log was before that. `unsaid` are the keys of what
    counts as new and is a note, since it was not understood."""

    def __init__(self) -> None:
        self.new = self.restored = self.erased = 0
        self.left_at = self.grown_at = 0
        self.again: set[str] = set()
        self.unsaid: set[str] = set()
        self._written = 0  # events, when something was counted last
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._new, self._erased = 0, 0
        self._again: set[str] = set()

    def count(self, key: str, written: int) -> None:
        """Counts what waits to be written, while so many events were."""
        self._settle(written)
        if key in self.again:
            self.again.remove(key)
            self._again.add(key)
        else:
            self.new += 1
            self._new += 1

    def leave_out(self, written: int) -> None:
        """Counts a message whose stand-in waits to be written."""
        self._settle(written)
        self.erased += 1
        self._erased += 1

    def take_back(self, count: int, left_at: int) -> None:
        """Counts what was taken off; the log was at this seq before."""
        self.restored += count
        self.left_at = left_at

    def end(self) -> None:
        """The file is at its end: what it no longer has was taken back."""
        if self.again:
            self.take_back(len(self.again), self.left_at or self.grown_at)
            self.again.clear()

    def stop(self, written: int) -> None:
        """Nothing more is written in this try: what still waits does not count."""
        self._settle(written)
        self.new -= self._new
        self.erased -= self._erased
        self.again |= self._again
        self._forget_waiting()
        self._written = 0

    def _settle(self, written: int) -> None:
        if written != self._written:
            self._forget_waiting()
            self._written = written


class Trace(Struct, frozen=True, kw_only=True):
    """What is left of something that was erased: the kind of its event, or of the note that it
    was, its time, its size and who counted it, the ids of its lines, and the shape of a message if
    anybody said it."""

    kind: str
    at_ms: int
    tokens: int = 0
    counter: str = ""
    ids: tuple[str, ...] = ()
    shape: Erase | None = None

    @property
    def moments(self) -> frozenset[int]:
        """When its lines were written."""
        return moments_of(self.ids, self.at_ms)


def moments_of(ids: tuple[str, ...], at_ms: int) -> frozenset[int]:
    """When the lines of a message with these ids were written; its own time, if that is all."""
    told = (id.removeprefix(MOMENT) for id in ids if id.startswith(MOMENT))
    return frozenset(int(moment) for moment in told if moment.isdecimal()) or frozenset([at_ms])


def trace_of(event: Event, kind: str, ids: tuple[str, ...], shape: Erase | None) -> Trace:
    """What is left of something, by the event that it was, or that stands for it."""
    tokens, counter = event.tokens, event.counter
    return Trace(kind=kind, at_ms=event.at_ms, tokens=tokens, counter=counter, ids=ids, shape=shape)


def shape_of(message: Message) -> Erase:
    """The shape of a message, whatever its seq."""
    calls, results = tuple(calls_of(message)), tuple(results_of(message))
    return Erase(seq=0, role=message.role, calls=calls, results=results)


def stand_in(trace: Trace) -> Message:
    """What takes the place of a message that was left out: its shape without its words. Whoever
    appends it gives it the time and the size of the trace, so it leaves the same trace."""
    return replace(skeleton(trace.shape), key=STAND_IN, ids=trace.ids)


def moment_of(at_ms: int | None) -> str:
    """The id of a line that has none: when it was written."""
    return f"{MOMENT}{at_ms}"


def ids_of(said: Said) -> tuple[str, ...]:
    """The ids under which a message is written: those of its lines, and of a message that may
    have several, their moments."""
    moments = (moment_of(at_ms) for at_ms in said.times if at_ms is not None)
    return tuple(dict.fromkeys([*filter(None, said.ids), *moments])) if any(said.ids) else ()
