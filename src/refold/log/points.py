"""The points to which a conversation can go back: which there are, what lies between two, what a
restore takes off.

Every seq can be restored, and every time: the last event until then. A list of all would not help,
so it names some: the checkpoints, the end of every tenth message, and where the log was before a
compaction, an undo or a restore. All of it is computed from the log: nothing is written for it and
nothing pruned. Neighbours: `undo` gives what is written to go back, `Context.log` asks.

The compactions of a conversation: which there were, what each did to the size of the page, and
whether it still stands; and the size of the page all along.

All of it is computed from the log, by folding it once more up to each batch; nothing is kept for
it. Neighbours: `undo` switches batches off and on, `Context.log` asks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
from refold.core.budget import current_tokens, factor_of
from refold.core.codec import decode
from refold.core.fold import Fold, fold, folded
from refold.core.laws import is_request
from refold.core.model import (
    ADOPTED,
    BY_HAND,
    CLEARED,
    MADE_ROOM,
    NATIVE,
    Body,
    Checkpoint,
    Event,
    Hide,
    Replace,
    Restore,
    Revert,
    Slot,
    Span,
    Summarize,
    Usage,
    View,
)
from refold.core.switches import switches
from refold.display import moment, number
from refold.errors import Invalid, NotFound
from refold.ledger.actions import changed_files
from refold.log.log import Log
from refold.log.trace import artifact_of
from refold.log.undo import FileChange
from refold.system.disk import HAPPENED_MS_MAX, moment_in

T = TypeVar("T")
EVERY, KEEP, HOURS = 10, 5, 24.0
_HOUR_MS = 3_600_000
_CONTROLS = frozenset({"edit", "revert", "restore", "checkpoint"})


# --- which there are ---


class Point(Struct, frozen=True, kw_only=True):
    """A place in the log that `restore` takes, by its seq or its name. `reason` says why it is
    listed, `messages` how many there were."""

    seq: int
    at_ms: int
    messages: int
    reason: str
    name: str = ""


def points_of(
    events: Iterable[Event], now_ms: int, *, every: int, keep: int, hours: float
) -> list[Point]:
    """The points of a log, newest first: every name, and of the others those of the last hours,
    but never fewer than `keep`."""
    listed = _distinct(_each_point(events, every))
    unnamed = [point for point in listed if not point.name]
    oldest_ms = now_ms - hours * _HOUR_MS
    left_out = {point.seq for point in unnamed[max(0, keep) :] if point.at_ms < oldest_ms}
    return [point for point in listed if point.name or point.seq not in left_out]


def _distinct(points: Iterable[Point]) -> list[Point]:
    """Each point once, newest first. A name may have moved on; then only its newest place
    counts."""
    by_place = {_place(point): point for point in points}
    newest = {point.name: point.seq for point in by_place.values()}
    for point in list(by_place.values()):
        if point.name and newest[point.name] != point.seq:
            del by_place[_place(point)]
    return sorted(by_place.values(), key=_place, reverse=True)


def _place(point: Point) -> tuple[int, str]:
    return point.seq, point.name


# What a batch of edits is called by what it is for.
_EDITS = {
    BY_HAND: "messages were hidden by hand",
    MADE_ROOM: "the oldest made room",
    CLEARED: "the page was cleared",
    ADOPTED: "a compaction from elsewhere",
    NATIVE: "a compaction by the provider",
}


def _each_point(events: Iterable[Event], every: int) -> Iterator[Point]:
    messages, batch, reverted = 0, "", 0
    for event in events:
        at_ms = event.at_ms
        if event.kind == "message":
            messages += 1
            if every > 0 and messages % every == 0:
                reason = f"after {number(messages, 'message')}"
                yield Point(seq=event.seq, at_ms=at_ms, messages=messages, reason=reason)
        body = decode(event) if event.kind in _CONTROLS else None
        if isinstance(body, Checkpoint):
            name = body.name
            yield Point(
                seq=body.seq, at_ms=at_ms, messages=messages, reason="checkpoint", name=name
            )
        reason = _reason_before(body, batch)
        # One step back may be several reverts in a row.
        is_further = isinstance(body, Revert) and reverted == event.seq - 1
        reverted = event.seq if isinstance(body, Revert) else reverted
        if reason and event.seq > 1 and not is_further:
            yield Point(seq=event.seq - 1, at_ms=at_ms, messages=messages, reason=reason)
        if isinstance(body, Replace | Hide | Summarize):
            batch = body.batch


def _reason_before(body: Body | None, batch: str) -> str:
    """Why the place before an event is worth going back to. `batch` is that of the last edit."""
    if isinstance(body, Replace | Hide | Summarize):
        return f"before {_EDITS.get(body.purpose, 'a compaction')}" if body.batch != batch else ""
    if isinstance(body, Restore):
        return "before a restore"
    if isinstance(body, Revert):
        return "before an undo" if body.batch else "before an undo or a redo"
    return ""


# --- the one of a time ---


def placed(log: Log, to: float | str | datetime) -> int | str:
    """A time as the seq of the last event at or before it; a seq or a name as it is. A checkpoint
    of that name comes first. NotFound for a time before the log."""
    if isinstance(to, str) and to in log.state.checkpoints:
        return to
    at_ms = moment_in(to)
    if at_ms is not None:
        return _seq_at(log, at_ms)
    if isinstance(to, int | str):
        return to
    hint = "a seq, a checkpoint, a datetime, seconds since 1970 or a time in ISO form"
    raise Invalid(f"to={to} is neither a place nor a time", hint=hint)


def _seq_at(log: Log, at_ms: int) -> int:
    found, first_ms = 0, HAPPENED_MS_MAX
    for event in log.read(0, log.state.head):
        first_ms = min(first_ms, event.at_ms)
        found = event.seq if event.at_ms <= at_ms else found
    if found:
        return found
    hint = f"it begins at {moment(first_ms)}" if log.state.head else "nothing was said yet"
    raise NotFound(f"the log has nothing as early as {moment(at_ms)}", hint=hint)


# --- what lies between two ---


class Difference(Struct, frozen=True, kw_only=True):
    """How the page at `last` differs from the page at `first`: messages by seq, batches that hold
    only there; and what happened between: artifacts, and files that tool calls changed."""

    first: int
    last: int
    added: tuple[int, ...]
    removed: tuple[int, ...]
    changed: tuple[int, ...]
    batches: tuple[str, ...]
    artifacts: tuple[str, ...]
    files: tuple[str, ...]


def difference(log: Log, first: int, last: int, config: Config) -> Difference:
    """The difference of two points, from two folds."""
    before, after = fold(log.read(0, first)), fold(log.read(0, last))
    old, new = _messages(before.slots), _messages(after.slots)
    between = Span(min(first, last) + 1, max(first, last))
    return Difference(
        first=first,
        last=last,
        added=_not_in(new, old),
        removed=_not_in(old, new),
        changed=_changed(old, new),
        batches=_not_in(_batches(after), _batches(before)),
        artifacts=tuple(dict.fromkeys(_artifacts(log.read(between.first - 1, between.last)))),
        files=tuple(changed_files(log.originals(between), config)),
    )


def _changed(old: dict[int, Slot], new: dict[int, Slot]) -> tuple[int, ...]:
    """The messages that are on both pages, with other edits."""
    both = [seq for seq in new if seq in old]
    return tuple(seq for seq in both if new[seq].edits != old[seq].edits)


def _not_in(ones: Iterable[T], others: Container[T]) -> tuple[T, ...]:
    return tuple(one for one in ones if one not in others)


def _batches(state: View) -> list[str]:
    return [batch for _, batch in state.undoable if batch]


def _messages(slots: Sequence[Slot]) -> dict[int, Slot]:
    return {slot.seq: slot for slot in slots if not slot.standin}


def _artifacts(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        artifact = artifact_of(event)
        if artifact is not None:
            yield artifact.id


# --- what a restore takes off ---


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore to `seq` switches off: what the user asked for (by seq), and the calls of
    the model, which stay billed. `files` are those that tool calls changed after the point: on
    disk they stay as they are, but for the `changes`, if files were to be put back."""

    seq: int
    files: list[str]
    requests: list[int]
    calls: list[Usage]
    changes: list[FileChange] = []


def restored(log: Log, seq: int, config: Config) -> Restored:
    """What going back to a seq switches off, of what holds now."""
    later = list(log.read(seq, log.state.head))
    off = switches(later).off
    originals = log.originals(Span(seq + 1, log.state.head))
    requests = [slot.seq for slot in originals if is_request(slot)]
    return Restored(
        seq=seq,
        files=changed_files(originals, config),
        requests=[at for at in requests if at not in off],
        calls=_usages(event for event in later if event.seq not in off),
    )


def _usages(events: Iterable[Event]) -> list[Usage]:
    """What the calls of the model cost, as far as events say so."""
    bodies = [decode(event) for event in events if event.kind == "usage"]
    return [body for body in bodies if isinstance(body, Usage)]


class Batch(Struct, frozen=True, kw_only=True):
    """One compaction: `id` is what `revert` takes, `seq` that of its first edit. It is `live`
    unless it was undone, or lies in a stretch that a restore switched off. `purpose` says what it
    is for where it is no ordinary compaction (`core.model.MADE_ROOM` and its neighbours)."""

    id: str
    seq: int
    at_ms: int
    strategy: str
    edits: int
    tokens_before: int
    tokens_after: int
    live: bool
    purpose: str = ""


def batches_of(events: Iterable[Event]) -> list[Batch]:
    """Every compaction of a log, oldest first."""
    log = list(events)
    off = switches(log).off
    found: dict[str, Batch] = {}
    tokens = 0
    for event, state in _states(log):
        edit = _edit_of(event)
        id = edit.batch if edit else ""
        before, tokens = tokens, _tokens(state)
        if edit and id:
            known = found.get(id) or _begun(edit, event, before)
            found[id] = replace(
                known,
                edits=known.edits + 1,
                tokens_after=tokens,
                live=known.live or event.seq not in off,
            )
    return list(found.values())


def sizes_of(events: Iterable[Event]) -> list[tuple[int, int]]:
    """The size of the page after every event that changed it: seq and tokens."""
    found: list[tuple[int, int]] = []
    for event, state in _states(list(events)):
        tokens = _tokens(state)
        if not found or found[-1][1] != tokens:
            found.append((event.seq, tokens))
    return found


def _states(log: Sequence[Event]) -> Iterator[tuple[Event, Fold]]:
    """Every event, and the page after it; what is given is the same fold, one event further."""
    state = Fold()
    for at, event in enumerate(log):
        if not state.add(event):
            state = folded(log[: at + 1], switches(log[: at + 1]))
        yield event, state


def _edit_of(event: Event) -> Replace | Hide | Summarize | None:
    body = decode(event) if event.kind == "edit" else None
    return body if isinstance(body, Replace | Hide | Summarize) else None


def _begun(edit: Replace | Hide | Summarize, event: Event, tokens_before: int) -> Batch:
    return Batch(
        id=edit.batch,
        seq=event.seq,
        at_ms=event.at_ms,
        strategy=event.by,
        edits=0,
        tokens_before=tokens_before,
        tokens_after=tokens_before,
        live=False,
        purpose=edit.purpose,
    )


def _tokens(state: Fold) -> int:
    """The size of the page in the provider's tokens, as far as they are known."""
    return current_tokens(state, factor_of(state, state.meta.model or ""))
