"""Going back, and holding on: what is to be written to switch off a batch, a restore or a stretch
of the log, or to keep a message on the page.

Each function looks at the log as it is and gives the bodies to append, or says why there is nothing
to do. Nothing is taken away: the fold skips what is switched off. `undo` goes back step by step,
the newest that stands first; `redo` takes the last of these steps back. Room that had to be made
after an undo (`MADE_ROOM`) belongs to that step and goes with it. Neighbours:
`core.fold` applies them, `engine.going_back` appends them.

What files held before an agent wrote to them, as the log says it: notes that name an artifact.

The log is in the order of time, also where something in it was switched off. So what a file held
at a point is what it held before the first write after that point; a file that was not written to
since is as it is on the disk. Putting files back is a write as well, and noted like any other.
Neighbours: `notes` are how it is written, `engine.file_versions` reads and writes the files.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.checked import quoted
from refold.core.codec import decode
from refold.core.eras import is_idle
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
from refold.core.switches import switches
from refold.errors import Invalid, NotFound
from refold.log.log import Log
from refold.strategies.gist.layout import runs

FILE_NOTE = "refold.file"
FileKey = tuple[str, str]  # the folder in which a file was kept, and its path there
ChangeOfFile = Literal["create", "change", "remove", "same", "impossible"]


class FileVersion(Struct, frozen=True, kw_only=True):
    """A file before a write: its path inside the folder `root`, and its bytes as an artifact,
    which is empty if there was no file."""

    path: str
    artifact: str = ""
    mode: int | None = None
    root: str = ""


class FileChange(Struct, frozen=True, kw_only=True):
    """What putting a file back does: `diff` is from what it holds to what it held (unified), in
    words for what is not text; `reason` says why it is impossible."""

    path: str
    change: ChangeOfFile
    diff: str = ""
    reason: str = ""


def versions_at(events: Iterable[Event]) -> dict[FileKey, FileVersion]:
    """What files held where these events begin. Files that they do not write to are left out."""
    found: dict[FileKey, FileVersion] = {}
    for event in events:
        version = _version_in(event)
        if version is not None:
            found.setdefault((version.root, version.path), version)
    return found


def _version_in(event: Event) -> FileVersion | None:
    """The version that an event tells of. A note of another form is nobody's: anybody may write
    notes of any kind."""
    if event.kind != "note":
        return None
    note = decode(event)
    if not isinstance(note, Note) or note.kind != FILE_NOTE:
        return None
    try:
        return decoding.convert(note.data, FileVersion)
    except msgspec.ValidationError:
        return None


BATCHES_NAMED = 5
_HANDLE = re.compile(r"#([0-9]{1,15})")

ChangeKind = Literal["none", "compaction", "restore"]


class Change(Struct, frozen=True, kw_only=True):
    """A compaction or a restore that can be undone, or was: `undone_at` is the seq of the revert
    that switched it off."""

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
    """What stands, oldest first, and what was undone, in the order in which it was. The batches
    that made room are kept apart. `taken_off` are the reverts of single messages."""

    standing: list[Change]
    undone: list[Change]
    rooms: list[Change]
    rooms_undone: list[Change]
    taken_off: frozenset[int] = frozenset()


class Undone(Struct, frozen=True, kw_only=True):
    """What `undo` switched off, or `redo` on again: a compaction by its `batch`, or the restore
    written at `seq`; false if there was nothing. `purpose` is what a batch was for, where it was
    no ordinary compaction: messages hidden by hand, a page that was cleared. `made_room` is the
    batch by which the oldest messages had to leave, because the page would not have fitted:
    with them it would have `tokens_whole`.
    `files_at` is where the files were as they are to be then, and `changes` are those that were
    put back."""

    batch: str = ""
    seq: int = 0
    kind: ChangeKind = "none"
    purpose: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    made_room: str = ""
    tokens_whole: int = 0
    files_at: int = 0
    changes: list[FileChange] = []

    def __bool__(self) -> bool:
        return self.kind != "none"


def reverting(state: Fold, batch: str) -> Revert:
    """Switches one compaction off."""
    batches = [known for _, known in state.undoable if known]
    if batch not in batches:
        named = ", ".join(batches[-BATCHES_NAMED:])
        raise NotFound(f"there is no batch {batch!r} to revert", hint=f"batches: {named or 'none'}")
    return Revert(batch=batch)


def history(events: Iterable[Event]) -> History:
    """The changes of a log, as they stand now."""
    controls = [event for event in events if event.kind in ("edit", "revert", "restore")]
    off = switches(controls).off
    changes: dict[str | int, Change] = {}
    undone: dict[str | int, Change] = {}
    standing: set[str | int] = set()
    taken_off: set[int] = set()
    seqs = {event.seq for event in controls}
    for event in controls:
        body = decode(event)
        if isinstance(body, Revert):
            if not body.batch and body.seq not in seqs:
                taken_off.add(event.seq)
            target = changes.get(body.batch or body.seq)
            if target is not None and event.seq not in off:
                undone[body.batch or body.seq] = replace(target, undone_at=event.seq)
            continue
        if isinstance(body, Restore) and is_idle(event.seq, body):
            continue
        edit = body if isinstance(body, Replace | Hide | Summarize) else None
        batch = edit.batch if edit else ""
        purpose = edit.purpose if edit else ""
        change = Change(seq=event.seq, batch=batch, purpose=purpose)
        changes.setdefault(batch or event.seq, change)
        if event.seq not in off:
            standing.add(batch or event.seq)
    found = _sorted_out([changes[key] for key in standing], list(undone.values()))
    return replace(found, taken_off=frozenset(taken_off))


def _sorted_out(standing: Sequence[Change], undone: Sequence[Change]) -> History:
    standing = sorted(standing, key=lambda change: change.seq)
    undone = sorted(undone, key=lambda change: change.undone_at)
    return History(
        standing=[change for change in standing if not change.is_room],
        undone=[change for change in undone if not change.is_room],
        rooms=[change for change in standing if change.is_room],
        rooms_undone=[change for change in undone if change.is_room],
    )


def undoing(past: History) -> list[Revert]:
    """Switches the newest change that stands off, and the room that was made since by an earlier
    undo; nothing if there is none. Room from before it was there when it came, and stays."""
    if not past.standing:
        return []
    newest = past.standing[-1]
    off = Revert(batch=newest.batch) if newest.batch else Revert(seq=newest.seq)
    since = [room for room in past.rooms if room.seq > newest.seq]
    return [*(Revert(batch=room.batch) for room in since), off]


def redoing(past: History) -> list[Revert]:
    """Takes the last step back: its change is on again, the room made after it off, and the room
    that it took away is there again. Nothing if there is none."""
    if not past.undone:
        return []
    first = last = past.undone[-1].undone_at
    for room in reversed(past.rooms_undone):
        if room.undone_at == first - 1:  # written in one append with the step
            first -= 1
    while first - 1 in past.taken_off:
        first -= 1
    made = [Revert(batch=room.batch) for room in past.rooms if room.seq > last]
    return [*made, *(Revert(seq=seq) for seq in range(first, last + 1))]


def restoring(state: Fold, to: int | str) -> Restore:
    """Switches off everything after a seq or checkpoint."""
    seq = _checkpoint_seq(state, to) if isinstance(to, str) else to
    if not 0 <= seq <= state.head:
        raise Invalid(f"cannot restore #{seq}", hint=f"the log goes from 0 to {state.head}")
    return Restore(seq=seq)


def _checkpoint_seq(state: Fold, name: str) -> int:
    """Where a checkpoint is, or what a handle such as `#41` names; NotFound if it is neither."""
    known = state.checkpoints
    if name not in known and _HANDLE.fullmatch(name):
        return seq_of(name)
    if name not in known:
        names = ", ".join(known) or "none"
        raise NotFound(f"there is no checkpoint {name!r}", hint=f"checkpoints: {names}")
    return known[name]


def checkpointing(state: Fold, messages: int, every: int) -> Checkpoint | None:
    """The checkpoint that is due after so many new messages, if one is due every so often."""
    count = sum(state.counts.values())
    if not every or count // every == (count - messages) // every:
        return None
    return Checkpoint(name=f"message-{count}", seq=state.head)


def clearing(state: Fold, checkpoint: str = "") -> list[Checkpoint | Hide]:
    """Takes everything off the page but system messages and pins: one edit for each run between
    those. A checkpoint names the place before."""
    going: list[Slot] = []
    staying: list[Slot] = []
    for slot in state.slots:
        if slot.seq in state.pins or slot.message.role == "system":
            staying.append(slot)
        else:
            going.append(slot)
    batch = secrets.token_hex(8)
    spans = [Span(run[0].seq, run[-1].last) for run in runs(going, staying)]
    hides = [Hide(batch=batch, span=span, reason="clear", purpose=CLEARED) for span in spans]
    return [*([Checkpoint(name=checkpoint, seq=state.head)] if checkpoint else []), *hides]


def seq_of(handle: int | str) -> int:
    """The seq that a handle such as `#41` names; a number is one already."""
    if isinstance(handle, int):
        return handle
    found = _HANDLE.fullmatch(handle)
    if found is None:
        raise Invalid(
            f"{quoted(handle, 80)} does not name a message", hint="give its seq, such as 41"
        )
    return int(found[1])


def span_named(log: Log, first: int | str, last: int | str | None) -> Span:
    """The span from one message to another; NotFound if the log has no such message."""
    start = seq_of(first)
    end = start if last is None else seq_of(last)
    if start > end:
        raise Invalid(f"#{start} comes after #{end}", hint="give the first message first")
    for seq in (start, end):
        message_event(log, seq)
    return Span(start, end)


def pinning(log: Log, handle: int | str, *, on: bool) -> list[Pin]:
    """Holds a message, or lets go of it; calls and their results go together."""
    seq = seq_of(handle)
    message_event(log, seq)
    return [Pin(seq=one, on=on) for one in _unit_of(log.state.slots, seq)]


def _unit_of(slots: Sequence[Slot], seq: int) -> list[int]:
    """The messages that go together with one; itself alone if it is not on the page."""
    for unit in units(slots):
        seqs = [slots[index].seq for index in unit]
        if seq in seqs:
            return seqs
    return [seq]


def message_event(log: Log, seq: int) -> Event:
    """The event of a message; NotFound if there is no such message."""
    if 0 < seq <= log.state.head:
        for event in log.read(seq - 1, seq):
            if event.kind == "message":
                return event
    hint = "refold show ID lists the messages by seq"
    raise NotFound(f"there is no message #{seq}", hint=hint)
