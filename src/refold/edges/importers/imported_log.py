"""What a log has of a session's file: its places, which are compared with the file one after the
other, its notes, and what it was told of the session.

Only what an import itself took off counts as gone. Whatever a user did since (restored, undid,
compacted, pinned, renamed, erased) changes the page and not what was imported. Each place knows its
events, so that it can be taken off alone. Neighbours: `follow` compares, `owner` asks whose a
conversation is.

A message of which the file had only a part when it was imported, and has more now.

Its key in the log says how many parts of it were there. If nobody did anything to it since, it is
written again, whole, in its place; else what the user did stays, and the rest is a message that
continues it. Neighbours: `follow` asks and writes, `known` finds what there is.

What a file says of its session, told to the log: the model, the title, the system prompt.

A file says the same again and again, and a log that follows it may have been told otherwise by a
user since. So only news is told: what differs from what the file said before it, once something
new comes after it; before what the log has, only a value that the log never had. Neighbours:
`follow` hears it from the file and says what comes next, `known` has what the log was told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.codec import decode
from refold.core.model import (
    MIRRORED,
    MOMENT,
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
from refold.dialects.tools import plain_system, plain_tools
from refold.edges.importers.entry import (
    ADOPTED,
    REWOUND,
    STAND_IN,
    UNREAD,
    About,
    Entry,
    Said,
    Trace,
    Unread,
    moments_of,
    shape_of,
    trace_of,
)
from refold.edges.importers.lines import digest
from refold.engine.batch import Batch
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notes import KEY_CHARS_MAX, Name, name_of
from refold.tokens.models import together

PLACED = frozenset({"", ADOPTED, REWOUND, UNREAD})  # kinds of notes that are places; "": a message
SAID = ("model", "title", "system", "tools")
TAKEN = "taken"  # in a note on what was taken back: by how many events directly before it
_PAGE_EVENTS = 500


class ImportedItem(Struct):
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

    places: list[ImportedItem]
    traces: list[Trace]
    notes: set[str]
    erased_notes: Counter[int]  # by their times; nothing else is left of these
    said: set[tuple[str, bytes]]
    more: dict[
        str, list[ImportedItem]
    ]  # what continues messages, by the keys that these have in the file
    billed: dict[str, Usage]  # by response
    models: set[str]  # for which messages were counted
    moments: set[int]  # of the lines of messages that were not erased, also of those taken off
    was_erased: bool = False

    def has_said(self, field: str, value: Any) -> bool:
        """Whether the log was ever told this, or may have been."""
        return self.was_erased or self.says(field, value)

    def standing(self) -> list[ImportedItem]:
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
        self._named: list[tuple[Name, ImportedItem]] = []
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
        place = ImportedItem(name.key, [*(one.seq for one in made), event.seq], ids=name.ids)
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
            self._named.append((name, ImportedItem("", [event.seq])))
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
        places: dict[str | int, ImportedItem] = {}  # a message may be several events
        notes: set[str] = set()
        more: dict[str, list[ImportedItem]] = {}
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


def is_touched(context: Context, source: str, places: list[ImportedItem]) -> bool:
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


MORE = "more:"  # what the key of a message begins with that continues another
ROOM_CHARS = 40  # in a key, for what is put around it

SomeEntry = TypeVar("SomeEntry", bound=Entry)


# --- keys ---


def named(entry: SomeEntry) -> SomeEntry:
    """An entry under a key that a log can have."""
    if not all(map(_is_plain, entry.ids)):
        ids = (id if _is_plain(id) else _digest(id) for id in entry.ids)
        entry = replace(entry, ids=tuple(ids))
    return entry if _is_plain(entry.key) else replace(entry, key=_digest(entry.key))


def _is_plain(name: str) -> bool:
    is_short = len(name) <= KEY_CHARS_MAX - ROOM_CHARS
    return is_short and name.isprintable() and not name.startswith((MORE, STAND_IN, MOMENT))


def _digest(name: str) -> str:
    return digest(name.encode("utf-8", "replace"))


def written(said: Said) -> str:
    """The key under which a message is written."""
    return f"{said.key}#{said.parts}" if said.parts else said.key


def is_of(key: str, entry: Entry) -> bool:
    """Whether a key in the log is that of an entry, or of the beginning of it."""
    if not isinstance(entry, Said) or not entry.parts:
        return key == entry.key
    stem, _, parts = key.rpartition("#")
    return stem == entry.key and parts.isascii() and parts.isdecimal()


def continuing(said: Said) -> str:
    """The key under which the rest of a message is written."""
    return MORE + written(said)


def continued(key: str) -> str:
    """The key, in the file, of the message that one with this key continues."""
    return key.removeprefix(MORE).rpartition("#")[0]


def parts_in(key: str) -> int:
    """How many parts of a message there were when it was written under this key."""
    return int(key.rpartition("#")[2][:9])


# --- parts ---


def has_names(said: Said) -> bool:
    """Whether every part of a message can be told from others, by the id of its line or by its
    moment, and some by an id."""
    if not said.parts or not any(said.ids):
        return False
    return all(id or at_ms is not None for id, at_ms in zip(said.ids, said.times))


def cut(said: Said, first: int, last: int) -> Said:
    """The parts of a message from one to another."""
    return chosen(said, range(first, last))


def chosen(said: Said, places: Sequence[int]) -> Said:
    """Some of the parts of a message."""
    content = [said.message["content"][at] for at in places]
    ids = tuple(said.ids[at] for at in places) if said.ids else ()
    times = tuple(said.times[at] for at in places) if said.times else ()
    return replace(said, message={**said.message, "content": content}, ids=ids, times=times)


OF_THE_PAGE = ("model", "system", "tools")  # what holds from a place on; the rest is the session's
_METADATA = "metadata."

Fields = dict[str, Any]


class Teller:
    """Tells the log of one session, which has `held` of it. `unread` takes what could not be
    told."""

    def __init__(self, context: Context, batch: Batch, held: Known, unread: list[Unread]) -> None:
        self._context, self._batch, self._held, self._unread = context, batch, held, unread
        self._line = 0
        self._so_far: Fields = {}  # what the file says at this place
        self._news: Fields = {}  # of that, what came since the last thing that was told or known

    def hear(self, about: About) -> None:
        """Takes what the file says; it waits for what comes next."""
        given = {name: getattr(about, name) for name in SAID}
        given |= {_METADATA + name: value for name, value in (about.metadata or {}).items()}
        self._line = about.line
        for name, value in given.items():
            if value is not None and self._so_far.get(name) != value:
                self._so_far[name] = self._news[name] = value

    def tell(self, *, is_unsure: bool) -> None:
        """Something new comes after it: all of the news holds from here on. Where the file may
        have gone another way than the log, what may have been erased is not told again."""
        if self._news:
            self._tell(self._not_erased(self._news) if is_unsure else self._news)

    def _not_erased(self, fields: Fields) -> Fields:
        """What the log still says, or no words of anybody's."""
        if not self._held.was_erased:
            return fields
        kept = (name for name in fields if name == "model" or self._stands(name, fields[name]))
        return {name: fields[name] for name in kept}

    def _stands(self, name: str, value: Any) -> bool:
        return self._held.says(name, _loggable(name, value))

    def pass_over(self) -> None:
        """The log has what comes after it, and was told then: only what it never had is news."""
        if self._news:
            self._tell({name: value for name, value in self._news.items() if self._is_new(name)})

    def tell_again(self) -> None:
        """The log went back: it may be at a place where it was said to be otherwise."""
        of_the_page = {name: self._so_far[name] for name in OF_THE_PAGE if name in self._so_far}
        news = {name: value for name, value in self._news.items() if name not in of_the_page}
        self._tell(self._not_erased(of_the_page))
        self._news = news

    def _is_new(self, name: str) -> bool:
        return not self._held.has_said(name, _loggable(name, self._news[name]))

    def _tell(self, fields: Fields) -> None:
        self._news = {}
        if not fields:
            return
        self._batch.write()  # what came before it was said by another model
        try:
            self._update(fields)
        except Invalid:
            for name, value in fields.items():
                self._tell_alone(name, value)

    def _tell_alone(self, name: str, value: Any) -> None:
        """Tells one of several values that cannot all be told."""
        try:
            self._update({name: value})
        except Invalid as error:
            said = f"{error.message}; {error.hint}"
            self._unread.append(Unread(line=self._line, reason=said))

    def _update(self, fields: Fields) -> None:
        own = {
            name.removeprefix(_METADATA): value
            for name, value in fields.items()
            if name.startswith(_METADATA)
        }
        self._context.update(
            model=fields.get("model"),
            title=fields.get("title"),
            system=fields.get("system"),
            tools=fields.get("tools"),
            metadata={**self._batch.metadata, **own} if own else None,
        )


def _loggable(name: str, value: Any) -> Any:
    """A value as the log has it; one that no log can have stays as it is, and is told as such."""
    plain = {"system": plain_system, "tools": plain_tools}.get(name)
    try:
        return plain(value) if plain else value
    except Invalid:
        return value
