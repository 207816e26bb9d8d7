"""The history of a message: the events that touched it, oldest first.

A trace has every edit with its strategy and reason, the revert or restore that switched it off, a
pin that prevented it, the artifact of a large result, and the call that made its text stale.
Neighbours: `core.active_events` finds events that are switched off, `Context.log` and `refold show
--why` ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
from refold.core.active_events import CONTROLS, Switches, switches
from refold.core.codec import decode, unknown_in
from refold.core.model import (
    Block,
    Body,
    Erase,
    Event,
    Hide,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
    ToolResult,
)
from refold.ledger.actions import made_stale
from refold.log.log import Log, message_of
from refold.log.undo import message_event


class Trace(Struct, frozen=True, kw_only=True):
    """One event that touched a message: its action, its author or strategy (`by`), whether it is in
    effect now (`live`), the changed block (-1: the whole message), and the `handle` of the
    originals."""

    seq: int
    at_ms: int
    action: str
    by: str = ""
    reason: str = ""
    batch: str = ""
    block: int = -1
    handle: str = ""
    live: bool = True


def message_history(log: Log, seq: int, config: Config) -> list[Trace]:
    """The history of one message; NotFound if there is no such message."""
    event = message_event(log, seq)
    message = message_of(event, log.state)
    blocks = message.blocks if message else ()
    traces = [*_offloads(event, blocks), *_stale(log, seq, config)]
    controls = [event for event in log.read(seq) if event.kind in CONTROLS]
    traces += _control_traces(controls, seq, len(blocks))
    traces += _unknown_parts(log.read(seq - 1), seq)
    return sorted(traces, key=lambda trace: trace.seq)


def history_of(events: Iterable[Event]) -> list[Trace]:
    """All changes to the page of a log, oldest first: every edit, pin, undo, restore and erasure,
    and whether it is in effect now."""
    controls = [event for event in events if event.kind in CONTROLS]
    switched = switches(controls)
    history = []
    for event in controls:
        body = decode(event)
        if body is not None:
            at = body.seq if isinstance(body, Replace) else 0
            history.append(_trace(event, body, live=_is_live(event, body, at, switched)))
    return history


def _offloads(event: Event, blocks: Sequence[Block]) -> Iterator[Trace]:
    """Results that were too large for the page: each is an artifact, and the page has a stub."""
    for index, block in enumerate(blocks):
        if isinstance(block, ToolResult) and block.artifact:
            yield Trace(
                seq=event.seq,
                at_ms=event.at_ms,
                action=f"kept as artifact {block.artifact}",
                by=event.by,
                reason="too large for the page: replaced by a stub",
                block=index,
                handle=block.artifact,
            )


def _unknown_parts(events: Iterable[Event], seq: int) -> Iterator[Trace]:
    """Parts of the message, and later events, that a newer version wrote and this one ignores."""
    for event in events:
        if event.kind == "message" and event.seq != seq:
            continue
        for name in unknown_in(event):
            yield Trace(
                seq=event.seq,
                at_ms=event.at_ms,
                action=f"unknown {name}",
                by=event.by,
                reason="a newer version wrote it; this one ignores it",
                live=False,
            )


def _stale(log: Log, seq: int, config: Config) -> list[Trace]:
    """The call that made text on the page stale. The text stays, because there is no newer one."""
    change = made_stale(log.state.view(), seq, config)
    if change is None:
        return []
    at, path = change
    return [
        Trace(
            seq=at,
            at_ms=event.at_ms,
            action="made stale",
            by=event.by,
            reason=f"{path} was changed after this was read",
            handle=str(Span(at, at)),
        )
        for event in log.read(at - 1, at)
    ]


def _control_traces(controls: Sequence[Event], seq: int, blocks: int) -> Iterator[Trace]:
    """Traces of the control events that touched a message with this number of blocks."""
    switched = switches(controls)
    batches: set[str] = set()
    seen: set[int] = set()
    for event in controls:
        body = decode(event)
        if body is None or not _touches(body, seq, batches, seen):
            continue
        seen.add(event.seq)
        if isinstance(body, Replace | Hide | Summarize):
            batches.add(body.batch)
        # The fold ignores a replacement of a block that does not exist.
        has_block = not isinstance(body, Replace) or 0 <= body.block < blocks
        yield _trace(event, body, live=has_block and _is_live(event, body, seq, switched))


def _is_live(event: Event, body: Body, seq: int, switched: Switches) -> bool:
    """Whether the event is in effect: not switched off, prevented by a pin, or superseded."""
    if event.seq in switched.off:
        return False
    match body:
        case Replace():
            is_newest = switched.winners.get((body.seq, body.block)) == event.seq
            return is_newest and seq not in switched.pins
        case Hide() | Summarize():
            return seq not in switched.pins
        case _:
            return True


def _touches(body: Body, seq: int, batches: set[str], seen: set[int]) -> bool:
    """Whether an event concerns the message, directly or by switching off an event that does."""
    match body:
        case Replace() | Pin() | Erase():
            return body.seq == seq
        case Hide() | Summarize():
            return body.span.first <= seq <= body.span.last
        case Restore():
            return body.seq < max([seq, *seen])
        case Revert():
            return body.batch in batches if body.batch else body.seq in seen
        case _:
            return False


def _trace(event: Event, body: Body, *, live: bool) -> Trace:
    trace = Trace(seq=event.seq, at_ms=event.at_ms, action=_action(body), by=event.by, live=live)
    if not isinstance(body, Replace | Hide | Summarize):
        return trace
    trace = replace(trace, reason=body.reason, batch=body.batch)
    if isinstance(body, Replace):
        return replace(trace, block=body.block, handle=str(Span(body.seq, body.seq)))
    return replace(trace, handle=str(body.span))


def _action(body: Body) -> str:
    match body:
        case Replace():
            return "shortened"
        case Hide():
            return "hidden"
        case Summarize():
            return "summarized"
        case Pin():
            return "pinned" if body.on else "unpinned"
        case Revert():
            return f"reverted batch {body.batch}" if body.batch else f"reverted #{body.seq}"
        case Restore():
            return f"restored to #{body.seq}"
        case _:
            return "erased"
