"""The points to which a conversation can go back: which there are, what lies between two, what a
restore takes off.

Every seq can be restored. A list of all would be no help, so it names some: the checkpoints, the
end of every tenth message, and where the log stood before a compaction, an undo or a restore. All
of it is computed from the log: nothing is written for it and nothing pruned. Neighbours: `history`
gives what is written to go back, `past` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from refold.config import Config
from refold.core.codec import decode
from refold.core.fold import fold, switches
from refold.core.laws import is_request
from refold.core.model import (
    Artifact,
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
)
from refold.ledger.actions import changed_files
from refold.log.log import Log

EVERY, KEEP, HOURS = 10, 5, 24.0
_HOUR_MS = 3_600_000
_TOLD = frozenset({"edit", "revert", "restore", "checkpoint"})


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
    found = {(point.seq, point.name): point for point in _found(events, every)}
    newest = {
        point.name: point.seq for point in found.values() if point.name
    }  # a name may have moved on
    listed = [point for point in found.values() if newest.get(point.name, point.seq) == point.seq]
    listed.sort(key=lambda point: (point.seq, point.name), reverse=True)
    others = [point for point in listed if not point.name]
    fresh = {
        point.seq
        for at, point in enumerate(others)
        if at < keep or now_ms - point.at_ms <= hours * _HOUR_MS
    }
    return [point for point in listed if point.name or point.seq in fresh]


def _found(events: Iterable[Event], every: int) -> Iterator[Point]:
    messages, batch = 0, ""
    for event in events:
        if event.kind == "message":
            messages += 1
            if every > 0 and messages % every == 0:
                yield Point(
                    seq=event.seq,
                    at_ms=event.at_ms,
                    messages=messages,
                    reason=f"message {messages}",
                )
        body = decode(event) if event.kind in _TOLD else None
        before = ""
        match body:
            case Checkpoint():
                yield Point(
                    seq=body.seq,
                    at_ms=event.at_ms,
                    messages=messages,
                    reason="checkpoint",
                    name=body.name,
                )
            case Replace() | Hide() | Summarize() if body.batch != batch:
                batch, before = body.batch, "compaction"
            case Revert() | Restore():
                before = event.kind
            case _:
                pass
        if before and event.seq > 1:
            yield Point(
                seq=event.seq - 1, at_ms=event.at_ms, messages=messages, reason=f"before a {before}"
            )


# --- what lies between two ---


class Difference(Struct, frozen=True, kw_only=True):
    """What the page at `last` shows otherwise than the page at `first`: messages by seq, batches
    that hold only there; and what happened between: artifacts, and files that tool calls
    changed."""

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
    known = {batch for _, batch in before.undoable}
    return Difference(
        first=first,
        last=last,
        added=tuple(seq for seq in new if seq not in old),
        removed=tuple(seq for seq in old if seq not in new),
        changed=tuple(seq for seq in new if seq in old and new[seq].edits != old[seq].edits),
        batches=tuple(batch for _, batch in after.undoable if batch and batch not in known),
        artifacts=tuple(dict.fromkeys(_artifacts(log.read(between.first - 1, between.last)))),
        files=tuple(changed_files(log.originals(between), config)),
    )


def _messages(slots: Sequence[Slot]) -> dict[int, Slot]:
    return {slot.seq: slot for slot in slots if not slot.standin}


def _artifacts(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        body = decode(event) if event.kind == "artifact" else None
        if isinstance(body, Artifact):
            yield body.id


# --- what a restore takes off ---


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore to `seq` switches off: what the user asked for (by seq), and the calls of
    the model, which stay billed. `files` are those that tool calls changed behind the point: on
    disk they stay as they are."""

    seq: int
    files: list[str]
    requests: list[int]
    calls: list[Usage]


def restored(log: Log, seq: int, config: Config) -> Restored:
    """What going back to a seq switches off, of what holds now."""
    behind = list(log.read(seq, log.state.head))
    off = switches(behind).off
    originals = log.originals(Span(seq + 1, log.state.head))
    bodies = (decode(event) for event in behind if event.kind == "usage" and event.seq not in off)
    return Restored(
        seq=seq,
        files=changed_files(originals, config),
        requests=[slot.seq for slot in originals if is_request(slot) and slot.seq not in off],
        calls=[body for body in bodies if isinstance(body, Usage)],
    )
