"""Restore points of a conversation, the difference between two, the effect of a restore, and the
history of compactions and page sizes.

Every seq and every time can be restored. The list of points is a selection: checkpoints, every
tenth message, and the positions before a compaction, an undo or a restore. Everything here is
computed from the log by folding it again; nothing is stored. Neighbours: `undo` makes the events
that go back, `Context.log` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from refold.config import Config
from refold.core.active_events import switches
from refold.core.codec import decode
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
    Span,
    Summarize,
    Usage,
)
from refold.display import moment, number
from refold.errors import Invalid, NotFound
from refold.ledger.actions import changed_files
from refold.log.log import Log
from refold.log.stored_logs import artifact_of
from refold.log.undo import FileChange
from refold.system.disk import HAPPENED_MS_MAX, moment_in

EVERY, KEEP, HOURS = 10, 5, 24.0
_HOUR_MS = 3_600_000
_CONTROLS = frozenset({"edit", "revert", "restore", "checkpoint"})


# Descriptions of a batch by its purpose.
_EDITS = {
    BY_HAND: "messages were hidden by hand",
    MADE_ROOM: "the oldest made room",
    CLEARED: "the page was cleared",
    ADOPTED: "a compaction from elsewhere",
    NATIVE: "a compaction by the provider",
}


class Point(Struct, frozen=True, kw_only=True):
    """A position to restore, by its seq or name, with the reason why it is listed and the number of
    messages up to it."""

    seq: int
    at_ms: int
    messages: int
    reason: str
    name: str = ""


def points_of(
    events: Iterable[Event], now_ms: int, *, every: int, keep: int, hours: float
) -> list[Point]:
    """The points of a log, newest first: every name at its newest position, and the unnamed points
    of the last hours, but never fewer than `keep`."""
    distinct = {(point.seq, point.name): point for point in _each_point(events, every)}
    newest = {name: seq for seq, name in distinct}
    listed = [
        distinct[seq, name]
        for seq, name in sorted(distinct, reverse=True)
        if not name or newest[name] == seq
    ]
    unnamed = [point for point in listed if not point.name]
    oldest_ms = now_ms - hours * _HOUR_MS
    left_out = {point.seq for point in unnamed[max(0, keep) :] if point.at_ms < oldest_ms}
    return [point for point in listed if point.name or point.seq not in left_out]


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
    """The reason to go back to the position before an event; `batch` is the last edit's."""
    if isinstance(body, Replace | Hide | Summarize):
        return f"before {_EDITS.get(body.purpose, 'a compaction')}" if body.batch != batch else ""
    if isinstance(body, Restore):
        return "before a restore"
    if isinstance(body, Revert):
        return "before an undo" if body.batch else "before an undo or a redo"
    return ""


def seq_or_name(log: Log, to: float | str | datetime) -> int | str:
    """The seq of the last event at or before a time; a seq or name unchanged. The name of a
    checkpoint is never read as a time. Raises NotFound for a time before the log."""
    if isinstance(to, str) and to in log.state.checkpoints:
        return to
    at_ms = moment_in(to)
    if at_ms is None:
        if isinstance(to, int | str):
            return to
        hint = "a seq, a checkpoint, a datetime, seconds since 1970 or a time in ISO form"
        raise Invalid(f"to={to} is neither a position nor a time", hint=hint)
    seq, first_ms = 0, HAPPENED_MS_MAX
    for event in log.read(0, log.state.head):
        first_ms = min(first_ms, event.at_ms)
        seq = event.seq if event.at_ms <= at_ms else seq
    if seq:
        return seq
    hint = f"it begins at {moment(first_ms)}" if log.state.head else "it is empty"
    raise NotFound(f"the log has no event as early as {moment(at_ms)}", hint=hint)


class Difference(Struct, frozen=True, kw_only=True):
    """How the page at `last` differs from the page at `first`: messages by seq, and batches active
    only there; and what happened in between: artifacts, and files changed by tool calls."""

    first: int
    last: int
    added: tuple[int, ...]
    removed: tuple[int, ...]
    changed: tuple[int, ...]
    batches: tuple[str, ...]
    artifacts: tuple[str, ...]
    files: tuple[str, ...]


def difference(log: Log, first: int, last: int, config: Config) -> Difference:
    """The difference of two points."""
    before, after = log.past.at(first), log.past.at(last)
    old = {slot.seq: slot for slot in before.slots if not slot.standin}
    new = {slot.seq: slot for slot in after.slots if not slot.standin}
    batches = {batch for _, batch in before.undoable}
    between = Span(min(first, last) + 1, max(first, last))
    artifacts = map(artifact_of, log.read(between.first - 1, between.last))
    return Difference(
        first=first,
        last=last,
        added=tuple(seq for seq in new if seq not in old),
        removed=tuple(seq for seq in old if seq not in new),
        changed=tuple(seq for seq in new if seq in old and new[seq].edits != old[seq].edits),
        batches=tuple(batch for _, batch in after.undoable if batch and batch not in batches),
        artifacts=tuple(dict.fromkeys(artifact.id for artifact in artifacts if artifact)),
        files=tuple(changed_files(log.originals(between), config)),
    )


class Restored(Struct, frozen=True, kw_only=True):
    """The effect of a restore to `seq`: the user's requests (by seq) and the model calls that it
    switches off; the calls stay billed. `files` were changed by tool calls after the point; on disk
    they are untouched, except for the `changes`, if files were restored too."""

    seq: int
    files: list[str]
    requests: list[int]
    calls: list[Usage]
    changes: list[FileChange] = []


def restored(log: Log, seq: int, config: Config) -> Restored:
    """The effect of going back to a seq, on everything active now."""
    later = list(log.read(seq, log.state.head))
    off = switches(later).off
    originals = log.originals_in(later)
    requests = [slot.seq for slot in originals if is_request(slot)]
    return Restored(
        seq=seq,
        files=changed_files(originals, config),
        requests=[at for at in requests if at not in off],
        calls=[
            usage
            for event in later
            if event.kind == "usage" and event.seq not in off
            if isinstance(usage := decode(event), Usage)
        ],
    )
