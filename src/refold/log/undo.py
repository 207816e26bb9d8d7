"""Undo, redo, restore, checkpoints and pins: the bodies to append for each; and earlier versions of
files.

Nothing is ever deleted: the fold skips events that are switched off. `undo` goes back one step at a
time, newest first; `redo` reverts the last undo. If an undo needs room on the page (`MADE_ROOM`),
that belongs to the same step. File versions are notes that name an artifact: the content of a file
at a point is its content before the first write after that point. Neighbours: `core.fold` applies
the events, `engine.log_reader` appends them, `engine.file_versions` reads and writes the files.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.checked import quoted
from refold.core.active_events import ControlLog, Controls, switched, switches
from refold.core.codec import decode
from refold.core.fold import Fold
from refold.core.laws import units
from refold.core.model import (
    CLEARED,
    MADE_ROOM,
    Checkpoint,
    Event,
    Hide,
    Note,
    Pin,
    Replace,
    Restore,
    Revert,
    Slot,
    Span,
    Summarize,
)
from refold.core.thinking_validity import is_idle, named_by, overlaps, with_span
from refold.errors import Invalid, NotFound
from refold.log.log import Log, message_of
from refold.patterns import regex

FILE_NOTE = "refold.file"
FileKey = tuple[str, str]  # the folder of a file, and its path there
ChangeOfFile = Literal["create", "change", "remove", "same", "impossible"]
BATCHES_NAMED = 5
HISTORY_EVENTS = 64  # control events that are read at first
_HANDLE = regex(r"#([0-9]{1,15})")

ChangeKind = Literal["none", "compaction", "restore"]


class FileVersion(Struct, frozen=True, kw_only=True):
    """A file before a write: its path inside the folder `root`, and its bytes as an artifact; empty
    if there was no file."""

    path: str
    artifact: str = ""
    mode: int | None = None
    root: str = ""


class FileChange(Struct, frozen=True, kw_only=True):
    """How a file is restored: a unified diff from its current to its earlier content, or a sentence
    for binary content, with the new size and mode (`mode_before` is that of the file on disk);
    `reason` says why it is impossible."""

    path: str
    change: ChangeOfFile
    diff: str = ""
    reason: str = ""
    size_bytes: int = 0
    mode: int = 0
    mode_before: int = 0


def versions_at(events: Iterable[Event]) -> dict[FileKey, FileVersion]:
    """The versions of files before these events, for every file that they write."""
    versions: dict[FileKey, FileVersion] = {}
    for event in events:
        note = decode(event) if event.kind == "note" else None
        if not isinstance(note, Note) or note.kind != FILE_NOTE:
            continue
        try:
            version = decoding.convert(note.data, FileVersion)
        except msgspec.ValidationError:
            continue  # a note of the same kind by another program
        versions.setdefault((version.root, version.path), version)
    return versions


class Change(Struct, frozen=True, kw_only=True):
    """A compaction or restore; `undone_at` is the seq of the revert that switched it off, if
    any."""

    seq: int = 0
    batch: str = ""
    undone_at: int = 0
    purpose: str = ""

    @property
    def is_room(self) -> bool:
        return self.purpose == MADE_ROOM

    @property
    def kind(self) -> ChangeKind:
        if self.batch:
            return "compaction"
        return "restore" if self.seq else "none"


class History(Struct, frozen=True, kw_only=True):
    """Active changes, oldest first, and undone ones, in the order of their undo; batches that made
    room are listed separately. `taken_off` are the seqs of reverts of single messages."""

    active: list[Change]
    undone: list[Change]
    rooms: list[Change]
    rooms_undone: list[Change]
    taken_off: frozenset[int] = frozenset()


class Undone(Struct, frozen=True, kw_only=True):
    """The result of an undo or redo: a compaction by its `batch`, or the restore at `seq`; false if
    there was nothing to do. `purpose` is empty for an ordinary compaction. `made_room` is the batch
    that hid the oldest messages because the page did not fit; with them it would have
    `tokens_whole`, and `left_out` are those messages. `refused_thinking` are the messages (by seq)
    whose thinking is left out: it was written under another page, and the model accepts it only
    there. `covered_by` are the later active batches that keep messages of an undone batch off the
    page, oldest first. `files_at` is the log position whose file versions apply, and `changes` are
    the files restored."""

    batch: str = ""
    seq: int = 0
    kind: ChangeKind = "none"
    purpose: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    made_room: str = ""
    tokens_whole: int = 0
    left_out: tuple[Span, ...] = ()
    refused_thinking: tuple[int, ...] = ()
    covered_by: tuple[str, ...] = ()
    files_at: int = 0
    changes: list[FileChange] = []

    def __bool__(self) -> bool:
        return self.kind != "none"


def reverting(state: Fold, batch: str) -> Revert:
    """The event that switches one compaction off."""
    batches = [name for _, name in state.undoable if name]
    if batch not in batches:
        named = ", ".join(batches[-BATCHES_NAMED:])
        hint = f"active batches: {named or 'none'}"
        raise NotFound(f"there is no active batch {batch!r}", hint=hint)
    return Revert(batch=batch)


def covering(controls: Controls, batch: str) -> tuple[str, ...]:
    """The active batches after a batch whose edits cover or supersede its own, oldest first."""
    off = switched(controls).off
    spans: list[Span] = []
    blocks: set[tuple[int, int]] = set()
    covers: dict[str, None] = {}
    for seq, body in controls:
        if not isinstance(body, Replace | Hide | Summarize) or seq in off:
            continue
        if body.batch == batch:
            spans = with_span(spans, named_by(body))
            if isinstance(body, Replace):
                blocks.add((body.seq, body.block))
        elif isinstance(body, Replace):
            if (body.seq, body.block) in blocks:
                covers[body.batch] = None
        elif overlaps(spans, body.span):
            covers[body.batch] = None
    return tuple(covers)


def history(controls: Controls) -> History:
    """The active and undone changes of a log."""
    kinds = Replace | Hide | Summarize | Revert | Restore
    controls = [control for control in controls if isinstance(control[1], kinds)]
    off = switched(controls).off
    changes: dict[str | int, Change] = {}
    undone: dict[str | int, Change] = {}
    keys: set[str | int] = set()
    taken_off: set[int] = set()
    seqs = {seq for seq, _ in controls}
    for seq, body in controls:
        if isinstance(body, Revert):
            if not body.batch and body.seq not in seqs:
                taken_off.add(seq)
            target = changes.get(body.batch or body.seq)
            if target is not None and seq not in off:
                undone[body.batch or body.seq] = replace(target, undone_at=seq)
            continue
        if isinstance(body, Restore) and is_idle(seq, body):
            continue
        edit = body if isinstance(body, Replace | Hide | Summarize) else None
        batch = edit.batch if edit else ""
        purpose = edit.purpose if edit else ""
        change = Change(seq=seq, batch=batch, purpose=purpose)
        changes.setdefault(batch or seq, change)
        if seq not in off:
            keys.add(batch or seq)
    active = sorted((changes[key] for key in keys), key=lambda change: change.seq)
    reverted = sorted(undone.values(), key=lambda change: change.undone_at)
    return History(
        active=[change for change in active if not change.is_room],
        undone=[change for change in reverted if not change.is_room],
        rooms=[change for change in active if change.is_room],
        rooms_undone=[change for change in reverted if change.is_room],
        taken_off=frozenset(taken_off),
    )


def recent_history(controls: ControlLog, *, undone: bool = False) -> History:
    """The newest part of the history, back to the newest active change or the last undone one."""
    count = HISTORY_EVENTS
    while True:
        start = controls.cut(controls.newest(count), ever=True)
        past = history(controls.after(start))
        found = past.undone if undone else past.active
        # An edit of the batch may be before the start.
        if not start or (found and controls.first_of(found[-1].batch) in (0, found[-1].seq)):
            return past
        count *= 4


def undoing(past: History) -> list[Revert]:
    """The events that switch off the newest active change, and room made since by an earlier undo;
    empty if there is no change. Room made before the change stays."""
    if not past.active:
        return []
    newest = past.active[-1]
    off = Revert(batch=newest.batch) if newest.batch else Revert(seq=newest.seq)
    since = [room for room in past.rooms if room.seq > newest.seq]
    return [*(Revert(batch=room.batch) for room in since), off]


def redoing(past: History) -> list[Revert]:
    """The events that reinstate the change of the last undo and the room it removed, and switch off
    room made after it; empty if nothing was undone."""
    if not past.undone:
        return []
    first = last = past.undone[-1].undone_at
    for room in reversed(past.rooms_undone):
        if room.undone_at == first - 1:  # written in one append with the step
            first -= 1
    while first - 1 in past.taken_off:
        first -= 1
    rooms = [Revert(batch=room.batch) for room in past.rooms if room.seq > last]
    return [*rooms, *(Revert(seq=seq) for seq in range(first, last + 1))]


def restoring(state: Fold, to: int | str) -> Restore:
    """The event that switches off everything after a seq, a checkpoint, or a handle such as
    `#41`."""
    seq = state.checkpoints.get(to) if isinstance(to, str) else to
    if seq is None:
        if not _HANDLE.fullmatch(str(to)):
            names = ", ".join(state.checkpoints) or "none"
            raise NotFound(f"there is no checkpoint {to!r}", hint=f"checkpoints: {names}")
        seq = seq_of(to)
    if not 0 <= seq <= state.head:
        raise Invalid(
            f"there is no place #{seq} in the log", hint=f"the log goes from 0 to {state.head}"
        )
    return Restore(seq=seq)


def checkpointing(state: Fold, messages: int, every: int) -> Checkpoint | None:
    """The checkpoint that is due after this number of new messages, with one `every` messages."""
    count = sum(state.counts.values())
    if not every or count // every == (count - messages) // every:
        return None
    return Checkpoint(name=f"message-{count}", seq=state.head)


def clearing(state: Fold, checkpoint: str = "") -> list[Checkpoint | Hide]:
    """The events that hide all messages except system messages and pins: one edit for each run
    between those. A checkpoint names the position before."""
    from refold.strategies.gist.layout import runs

    leaving: list[Slot] = []
    staying: list[Slot] = []
    for slot in state.slots:
        stays = slot.seq in state.pins or slot.message.role == "system"
        (staying if stays else leaving).append(slot)
    batch = secrets.token_hex(8)
    spans = [Span(run[0].seq, run[-1].last) for run in runs(leaving, staying)]
    hides = [Hide(batch=batch, span=span, reason="clear", purpose=CLEARED) for span in spans]
    return [*([Checkpoint(name=checkpoint, seq=state.head)] if checkpoint else []), *hides]


def seq_of(handle: int | str) -> int:
    """The seq in a handle such as `#41`; a number unchanged."""
    if isinstance(handle, int):
        return handle
    match = _HANDLE.fullmatch(handle)
    if match is None:
        raise Invalid(
            f"{quoted(handle, 80)} does not name a message", hint="pass its seq, such as 41"
        )
    return int(match[1])


def span_named(log: Log, first: int | str, last: int | str | None) -> Span:
    """The span from one message to another; NotFound if the log has no such message."""
    start = seq_of(first)
    end = start if last is None else seq_of(last)
    if start > end:
        raise Invalid(f"#{start} comes after #{end}", hint="put the earlier message first")
    for seq in (start, end):
        message_event(log, seq)
    return Span(start, end)


def pinning(log: Log, handle: int | str, *, on: bool) -> list[Pin]:
    """The events that pin or unpin a message, and with it the rest of its unit: calls and their
    results go together."""
    seq = seq_of(handle)
    message_event(log, seq)
    slots = log.state.slots
    if not any(slot.seq == seq and not slot.standin for slot in slots):
        # It left the page, so its unit is only in the log.
        off = switches(log.read()).off
        events = (event for event in log.read() if event.kind == "message" and event.seq not in off)
        messages = ((event.seq, message_of(event, log.state)) for event in events)
        slots = [Slot(at, at, message, 0) for at, message in messages if message is not None]
    for unit in units(slots):
        seqs = [slots[index].seq for index in unit]
        if seq in seqs:
            return [Pin(seq=member, on=on) for member in seqs]
    return [Pin(seq=seq, on=on)]  # switched off by a restore


def message_event(log: Log, seq: int) -> Event:
    """The event of a message; NotFound if there is no such message."""
    if 0 < seq <= log.state.head:
        for event in log.read(seq - 1, seq):
            if event.kind == "message":
                return event
    hint = "refold show ID lists the messages by seq"
    raise NotFound(f"there is no message #{seq}", hint=hint)
