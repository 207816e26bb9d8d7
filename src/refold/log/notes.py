"""Notes: events that are no messages and never on the page, where a guest keeps its own state.

A note stands like everything else in the log: a restore to a point before it switches it off, and
an undo of the restore brings it back. Neighbours: `keys` says whether one is known, `Context.note`
writes them, `context.log.notes` reads them.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Event, Note
from refold.core.switches import REACHING, switches
from refold.errors import Invalid
from refold.log.keys import Keys, Stamp, append_once
from refold.log.log import Log
from refold.log.open_log import OpenLog

KIND_CHARS_MAX = 100
_LOOKED_AT = frozenset({"note", *REACHING})


class Noted(Struct, frozen=True, kw_only=True):
    """A note as it stands in the log: its place, its time, who wrote it, and what it says."""

    seq: int
    at_ms: int
    by: str
    kind: str
    data: Any = None
    key: str = ""


def write_note(
    log: OpenLog, keys: Keys, kind: str, data: Any, *, by: str, stamp: Stamp
) -> list[Event]:
    """Appends a note, unless the log has its key."""
    if not 0 < len(kind) <= KIND_CHARS_MAX:
        hint = f"name the kind of the note in at most {KIND_CHARS_MAX} characters"
        raise Invalid(f"kind has {len(kind):,} characters", hint=hint)
    draft = log.draft(Note(kind=kind, data=data, key=stamp.key), by=by)
    with log.guard:
        return append_once(log, keys, stamp, lambda: [draft])


def notes_of(log: Log, kind: str, after: int = 0, *, also_off: bool = False) -> list[Noted]:
    """The notes after a seq that stand, oldest first; of one kind, if it is named, and also those
    that are switched off, if that is asked."""
    events = [event for event in log.read(after) if event.kind in _LOOKED_AT]
    reached = not also_off and any(event.kind in REACHING for event in events)
    off = switches(log.read()).off if reached else ()
    return [
        _noted(event, note)
        for event in events
        if event.kind == "note" and event.seq not in off
        if isinstance(note := decode(event), Note) and kind in ("", note.kind)
    ]


def _noted(event: Event, note: Note) -> Noted:
    return Noted(
        seq=event.seq, at_ms=event.at_ms, by=event.by, kind=note.kind, data=note.data, key=note.key
    )
