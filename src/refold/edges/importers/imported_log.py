"""The part of a log that came from a session file, and the facts about that session.

Items are compared with the file in order. Only an import removes items: a user's restore, undo,
compaction, pin or erasure changes the page, but not the list of imported items. The log keeps the
line ids of an erased message and none of its text, so an erased line is recognized by its id alone.
A file repeats the facts about its session, and a user may have changed them since, so only changes
are written. Neighbours: `session_update` compares and writes, `importer` finds conversations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.active_events import switches
from refold.core.codec import decode
from refold.core.model import (
    MIRRORED,
    MOMENT,
    Erase,
    Event,
    Hide,
    Meta,
    Note,
    Pin,
    Replace,
    Summarize,
    Usage,
)
from refold.dialects.tools import plain_system, plain_tools
from refold.edges.importers.entry import (
    ADOPTED,
    REWOUND,
    UNREAD,
    Entry,
    MessageEntry,
    SessionFacts,
    UnreadLine,
)
from refold.edges.importers.lines import digest
from refold.engine.bulk_write import Batch
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notes import KEY_CHARS_MAX, Name, name_of
from refold.tokens.models import together

# Kinds of notes that have a place in the order of the file; "" is a message.
ORDERED_KINDS = frozenset({"", ADOPTED, REWOUND, UNREAD})
FIELDS = ("model", "window", "title", "system", "tools")
# Valid from a position in the file onward; the title applies to the whole session.
PAGE_FIELDS = ("model", "window", "system", "tools")
TAKEN = "taken"  # in a rewind note: the number of reverts directly before it
_STAND_IN = "erased:"  # the key of placeholders for erased messages, in logs of earlier versions
_METADATA = "metadata."


class ImportedItem(Struct):
    """One entry of the file in the log: its key (empty if it was erased), its events, and the ids
    of its lines."""

    key: str
    seqs: list[int]
    ids: tuple[str, ...] = ()


class ImportedLog(Struct):
    """The imported content of a log. `facts` has every value that the log ever had for the session;
    `lacks_facts` is true if some of them, or some usage, were erased."""

    items: list[ImportedItem]
    notes: set[str]  # keys
    continuations: dict[str, list[ImportedItem]]  # by the key of the continued message in the file
    facts: set[tuple[str, bytes]]
    billed: dict[str, Usage]  # by response
    erased_ids: set[str]  # of lines
    erased_notes: int  # notes without line ids
    has_erasures: bool
    lacks_facts: bool

    def may_have_had(self, field: str, value: Any) -> bool:
        """Whether the log ever had this value, or may have had it before an erasure."""
        return self.lacks_facts or self.has_had(field, value)

    def has_had(self, field: str, value: Any) -> bool:
        """Whether the log has had this value, and it was not erased."""
        return (field, _encoded(value)) in self.facts


def imported_log(context: Context, source: str, after: int = 0) -> ImportedLog:
    """The content of a log after a seq, as far as it was imported from this source."""
    walk = _Walk(source)
    for event in context.log.events(after=after):
        walk.take(event)
    return walk.result()


class _Walk:
    """Reads a log once, oldest event first."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._run: list[Event] = []  # the current run of edits and reverts by imports
        self._reverts: list[Event] = []  # by imports, for entries no longer in the file
        self._named: list[tuple[Name, ImportedItem]] = []
        self._erased_ids: dict[int, tuple[str, ...]] = {}  # by seq
        self._erased_notes: list[int] = []
        self._facts: set[tuple[str, bytes]] = set()
        self._billed: dict[str, Usage] = {}
        self._has_erasures = self._lacks_facts = False

    def take(self, event: Event) -> None:
        self._has_erasures |= event.erased
        if event.by == self._source and event.kind in ("edit", "revert"):
            self._run.append(event)
            return
        run, self._run = self._run, []
        name = self._erased_name(event, run) if event.erased else name_of(event)
        made = _edits_of_note(event, name, run)
        # Messages that the file itself rewound are still in the file.
        left = run[: len(run) - len(made)] if name.kind == REWOUND else run
        self._reverts += [edit for edit in left if edit.kind == "revert"]
        if event.erased:
            self._lacks_facts |= event.kind in ("meta", "usage")
            if event.kind == "message" or name.kind:
                self._named.append((name, ImportedItem("", [event.seq])))
            elif event.kind == "note" and event.by == self._source:
                self._erased_notes.append(event.seq)
        elif name.key == _STAND_IN:
            self._has_erasures = True
            self._erased_ids[event.seq] = name.ids
            self._named.append((name, ImportedItem("", [event.seq])))
        elif name.key and not name.key.startswith(MIRRORED):
            if name.kind == ADOPTED and any(edit.erased for edit in made):
                self._erased_ids[event.seq] = name.ids  # its text is gone
            seqs = [*(edit.seq for edit in made), event.seq]
            self._named.append((name, ImportedItem(name.key, seqs, name.ids)))
        else:
            self._take_unnamed(event)

    def _erased_name(self, event: Event, run: list[Event]) -> Name:
        """The kind of an erased note, inferred from the edits directly before it."""
        if event.kind != "note" or event.by != self._source or not run:
            return Name()
        return Name(kind=ADOPTED if any(edit.kind == "edit" for edit in run) else REWOUND)

    def _take_unnamed(self, event: Event) -> None:
        match decode(event) if event.kind in ("meta", "usage", "erase") else None:
            case Meta() as meta:
                fields = {field: getattr(meta, field, None) for field in FIELDS}
                windows = {("window", _encoded(one)) for one in (meta.windows or {}).values()}
                self._facts |= windows
                fields |= {_METADATA + name: one for name, one in (meta.metadata or {}).items()}
                known = ((name, one) for name, one in fields.items() if one is not None)
                self._facts.update((name, _encoded(one)) for name, one in known)
            case Usage() as usage if usage.response:
                before = self._billed.get(usage.response)
                self._billed[usage.response] = together(before, usage) if before else usage
            case Erase() as erase:
                self._erased_ids[erase.seq] = erase.ids

    def result(self) -> ImportedLog:
        reverts = [*self._reverts, *(edit for edit in self._run if edit.kind == "revert")]
        off = switches(reverts).off
        items: dict[str | int, ImportedItem] = {}  # a message may be several events
        notes: set[str] = set()
        continuations: dict[str, list[ImportedItem]] = {}
        for name, item in self._named:
            if item.seqs[-1] in off:
                continue
            if name.kind not in ORDERED_KINDS:
                notes.add(name.key)
            elif item.key.startswith(MORE):
                continued = item.key.removeprefix(MORE).rpartition("#")[0]
                continuations.setdefault(continued, []).append(item)
            elif item.key:
                first = items.setdefault(item.key, item)
                if first is not item:
                    first.seqs += item.seqs
            else:
                item.ids = self._erased_ids.get(item.seqs[-1], ())
                items[item.seqs[-1]] = item
        erased_ids = {id for ids in self._erased_ids.values() for id in ids}
        return ImportedLog(
            items=list(items.values()),
            notes=notes,
            continuations=continuations,
            facts=self._facts,
            billed=self._billed,
            erased_ids={id for id in erased_ids if not id.startswith(MOMENT)},
            erased_notes=sum(not self._erased_ids.get(seq) for seq in self._erased_notes),
            has_erasures=self._has_erasures,
            lacks_facts=self._lacks_facts,
        )


def _edits_of_note(event: Event, name: Name, run: list[Event]) -> list[Event]:
    """The edits and reverts that belong to the note that follows them; an import may have written
    unrelated ones before them."""
    if name.kind == ADOPTED:
        return [edit for edit in run if edit.kind == "edit"]
    if name.kind != REWOUND:
        return []
    note = None if event.erased else decode(event)
    count = note.data.get(TAKEN) if isinstance(note, Note) and isinstance(note.data, dict) else None
    return run[len(run) - count :] if isinstance(count, int) and 0 <= count <= len(run) else run


def is_touched(context: Context, source: str, items: list[ImportedItem]) -> bool:
    """Whether a user edited one of these items, or a message was appended between them: such items
    are not replaced."""
    seqs = {seq for item in items for seq in item.seqs}
    first = min(seqs)
    if not all(item.key for item in items):
        return True
    for event in context.log.events(after=first):
        is_other = event.kind == "message" and event.seq not in seqs
        if is_other or (event.by != source and _last_changed(event) >= first):
            return True
    return False


def _last_changed(event: Event) -> int:
    """The last message changed by an event; the event's own seq if it may change any message."""
    if event.kind in ("revert", "restore"):
        return event.seq
    match decode(event) if event.kind in ("pin", "edit", "erase") else None:
        case Pin(seq=seq) | Replace(seq=seq) | Erase(seq=seq):
            return seq
        case Hide(span=span) | Summarize(span=span):
            return span.last
    return 0


# --- keys ---

MORE = "more:"  # key prefix of a message that continues another
ROOM_CHARS = 40  # reserved in a key for prefixes and suffixes

SomeEntry = TypeVar("SomeEntry", bound=Entry)


def with_valid_names(entry: SomeEntry) -> SomeEntry:
    """The entry with a key and ids that are valid in a log."""
    if not all(map(_is_plain, entry.ids)):
        ids = (id if _is_plain(id) else _digest(id) for id in entry.ids)
        entry = replace(entry, ids=tuple(ids))
    return entry if _is_plain(entry.key) else replace(entry, key=_digest(entry.key))


def _is_plain(name: str) -> bool:
    is_short = len(name) <= KEY_CHARS_MAX - ROOM_CHARS
    return is_short and name.isprintable() and not name.startswith((MORE, _STAND_IN, MOMENT))


def _digest(name: str) -> str:
    return digest(name.encode("utf-8", "replace"))


def log_key(entry: MessageEntry) -> str:
    """The key of a message in the log. It ends with the number of parts."""
    return f"{entry.key}#{entry.parts}" if entry.parts else entry.key


def is_key_of(key: str, entry: Entry) -> bool:
    """Whether a key in the log is the key of an entry, or of its beginning."""
    if not isinstance(entry, MessageEntry) or not entry.parts:
        return key == entry.key
    stem, _, parts = key.rpartition("#")
    return stem == entry.key and parts.isascii() and parts.isdecimal()


def continuation_key(entry: MessageEntry) -> str:
    """The key of the rest of a message in the log."""
    return MORE + log_key(entry)


def part_count(key: str) -> int:
    """The number of message parts stored under this key."""
    return int(key.rpartition("#")[2][:9])


def with_parts(entry: MessageEntry, numbers: Sequence[int]) -> MessageEntry:
    """The message with only these parts."""
    content = [entry.message["content"][number] for number in numbers]
    ids = tuple(entry.ids[number] for number in numbers) if entry.ids else ()
    return replace(entry, message={**entry.message, "content": content}, ids=ids)


# --- facts about the session ---


class ChangedFile(Exception):
    """The file has a line that may have been erased from the log."""

    def __init__(self, line: int) -> None:
        self.line = line


class FactWriter:
    """Writes the facts about a session to its log. `unread` collects invalid values. With
    `is_frozen`, a new fact is refused."""

    def __init__(
        self,
        context: Context,
        batch: Batch,
        log: ImportedLog,
        unread: list[UnreadLine],
        *,
        is_frozen: bool,
    ) -> None:
        self._context, self._batch, self._log, self._unread = context, batch, log, unread
        self._is_frozen = is_frozen
        self._line = 0
        self._so_far: dict[str, Any] = {}  # the file's facts at this position
        self._unwritten: dict[str, Any] = {}  # changes since the last entry

    def add(self, facts: SessionFacts) -> None:
        """Collects facts from the file until the next entry."""
        fields = {name: getattr(facts, name) for name in FIELDS}
        fields |= {_METADATA + name: value for name, value in (facts.metadata or {}).items()}
        self._line = facts.line
        for name, value in fields.items():
            if value is not None and self._so_far.get(name) != value:
                self._so_far[name] = self._unwritten[name] = value
                if name == "model":
                    self._so_far.pop("window", None)  # it belonged to the previous model

    def write(self) -> None:
        """Writes the changes before a new entry, except for values that may have been erased."""
        if self._unwritten:
            self._write(self._not_erased(self._unwritten))

    def pass_over(self) -> None:
        """Writes only values that the log never had: the next entry is already in the log."""
        if not self._unwritten:
            return
        news = self._unwritten.items()
        held = self._log.may_have_had
        self._write({name: one for name, one in news if not held(name, _as_stored(name, one))})

    def write_again(self) -> None:
        """Writes the facts of the page again, after the log went back to an earlier position."""
        of_page = {name: self._so_far[name] for name in PAGE_FIELDS if name in self._so_far}
        news = {name: value for name, value in self._unwritten.items() if name not in of_page}
        self._write(self._not_erased(of_page))
        self._unwritten = news

    def _not_erased(self, fields: dict[str, Any]) -> dict[str, Any]:
        if not self._log.lacks_facts:
            return fields
        return {
            name: value
            for name, value in fields.items()
            if name in ("model", "window") or self._log.has_had(name, _as_stored(name, value))
        }

    def _write(self, fields: dict[str, Any]) -> None:
        self._unwritten = {}
        if not fields:
            return
        if self._is_frozen:
            raise ChangedFile(self._line)
        self._batch.write()  # messages before it were written with another model
        try:
            self._update(fields)
        except Invalid:
            for name, value in fields.items():
                try:
                    self._update({name: value})
                except Invalid as error:
                    reason = f"{error.message}; {error.hint}"
                    self._unread.append(UnreadLine(line=self._line, reason=reason))

    def _update(self, fields: dict[str, Any]) -> None:
        own = {
            name.removeprefix(_METADATA): value
            for name, value in fields.items()
            if name.startswith(_METADATA)
        }
        self._context.update(
            model=fields.get("model"),
            window=fields.get("window"),
            title=fields.get("title"),
            system=fields.get("system"),
            tools=fields.get("tools"),
            metadata={**self._batch.metadata, **own} if own else None,
        )


def _encoded(value: Any) -> bytes:
    """A value encoded for comparison; values that JSON cannot represent all compare as
    equal."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""


def _as_stored(name: str, value: Any) -> Any:
    """A value in the form in which the log stores it; an invalid one is returned unchanged."""
    plain = {"system": plain_system, "tools": plain_tools}.get(name)
    try:
        return plain(value) if plain else value
    except Invalid:
        return value
