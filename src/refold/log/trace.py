"""Why a message looks as it does: the chain of events that touched it, oldest first, each with its
time and reason.

Edits name what they did and which strategy asked for it; a revert or restore that switched them off
is part of the chain, and so is a pin that kept them away, and the call that changed a file whose
text the message shows. A large result begins with the artifact that it became. Reads the log once,
from the message on. Neighbours: `core.fold` applies what is traced here, `Context.log` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
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
from refold.core.switches import CONTROLS, Switches, switches
from refold.ledger.actions import made_stale
from refold.log.log import Log, message_of
from refold.log.undo import message_event


class Trace(Struct, frozen=True, kw_only=True):
    """One event that touched a message. `action` is what it did, `by` who or which strategy,
    `live` whether it holds now; `block` is the one that was changed (-1: the whole message); the
    `handle` of an edit leads to the originals."""

    seq: int
    at_ms: int
    action: str
    by: str = ""
    reason: str = ""
    batch: str = ""
    block: int = -1
    handle: str = ""
    live: bool = True


def traced(log: Log, seq: int, config: Config) -> list[Trace]:
    """The chain of one message; NotFound if there is no such message."""
    event = message_event(log, seq)
    message = message_of(event, log.state)
    blocks = message.blocks if message else ()
    traces = [*_offloads(event, blocks), *_stale(log, seq, config)]
    controls = [event for event in log.read(seq) if event.kind in CONTROLS]
    traces += _chain(controls, seq, len(blocks))
    traces += _newer(log.read(seq - 1), seq)
    return sorted(traces, key=lambda trace: trace.seq)


def history_of(events: Iterable[Event]) -> list[Trace]:
    """Everything that was done to the page of a log, oldest first: every edit, pin, undo, restore
    and erasure, and whether it holds now."""
    controls = [event for event in events if event.kind in CONTROLS]
    found = switches(controls)
    history = []
    for event in controls:
        body = decode(event)
        if body is not None:
            at = body.seq if isinstance(body, Replace) else 0
            history.append(_trace(event, body, live=_holds(event, body, at, found)))
    return history


def _offloads(event: Event, blocks: Sequence[Block]) -> Iterator[Trace]:
    """The results that were too large for the page when they came: each is an artifact now, and
    the page has a stub."""
    for index, block in enumerate(blocks):
        if isinstance(block, ToolResult) and block.artifact:
            yield Trace(
                seq=event.seq,
                at_ms=event.at_ms,
                action=f"kept as artifact {block.artifact}",
                by=event.by,
                reason="too large for the page: a stub stands for it",
                block=index,
                handle=block.artifact,
            )


def _newer(events: Iterable[Event], seq: int) -> Iterator[Trace]:
    """What a newer version wrote in the message, and events after it that may concern it: this
    version knows neither, and does nothing about them."""
    for event in events:
        if event.kind == "message" and event.seq != seq:
            continue
        for name in unknown_in(event):
            yield Trace(
                seq=event.seq,
                at_ms=event.at_ms,
                action=f"unknown {name}",
                by=event.by,
                reason="a newer version wrote it; this one passes over it",
                live=False,
            )


def _stale(log: Log, seq: int, config: Config) -> list[Trace]:
    """The call that made a text stale which the page still shows. Nothing is done about it: no
    other text is newer."""
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


def _chain(controls: Sequence[Event], seq: int, blocks: int) -> Iterator[Trace]:
    """The events that touched a message of so many blocks."""
    found = switches(controls)
    batches: set[str] = set()
    seen: set[int] = set()
    for event in controls:
        body = decode(event)
        if body is None or not _touches(body, seq, batches, seen):
            continue
        seen.add(event.seq)
        if isinstance(body, Replace | Hide | Summarize):
            batches.add(body.batch)
        # The fold passes over a replacement of a block that does not exist.
        has_place = not isinstance(body, Replace) or 0 <= body.block < blocks
        yield _trace(event, body, live=has_place and _holds(event, body, seq, found))


def _holds(event: Event, body: Body, seq: int, found: Switches) -> bool:
    """Whether the event has an effect now: not switched off, not kept away by a pin, not
    followed by another."""
    if event.seq in found.off:
        return False
    match body:
        case Replace():
            is_newest = found.winners.get((body.seq, body.block)) == event.seq
            return is_newest and seq not in found.pins
        case Hide() | Summarize():
            return seq not in found.pins
        case _:
            return True


def _touches(body: Body, seq: int, batches: set[str], seen: set[int]) -> bool:
    """Whether an event concerns the message; one that switches others off does if they did."""
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
    return replace(
        trace,
        reason=body.reason,
        batch=body.batch,
        block=body.block if isinstance(body, Replace) else -1,
        handle=str(_span(body)),
    )


def _span(edit: Replace | Hide | Summarize) -> Span:
    """The messages that an edit is about."""
    return Span(edit.seq, edit.seq) if isinstance(edit, Replace) else edit.span


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
