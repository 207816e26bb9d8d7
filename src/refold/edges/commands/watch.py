"""`refold watch`: a conversation that another process writes, followed live.

The log is looked at again and again, for reading only; what came since is an update. On a terminal
with colors one picture is drawn over and over: the meter, compactions, the newest events. Anywhere
else every event is a line, as it comes. It ends when it is interrupted, or after `--seconds`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from refold.core.model import Event, Message, Usage
from refold.display import number
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.events import body_of, event_row, summary
from refold.edges.commands.session import Session
from refold.edges.displays.panel import Line, meter
from refold.edges.displays.phrases import percent_of, tokens_of
from refold.edges.displays.width import fitted, harmless
from refold.engine.context import Context
from refold.log.unfold import body_text
from refold.stores import synced_of
from refold.stores.protocol import Store
from refold.tokens.models import dollars

TEXT_CHARS = 300
NEWEST = 12
BATCH_EVENTS = 1_000
SECONDS = Meta(description="End after so many seconds; by default never.", ge=0.0)
EVERY = Meta(description="Look so often, in seconds.", ge=0.05, le=60.0)
LAST = Meta(description="Begin with so many of the newest events.", ge=0, le=1_000)


class WatchArguments(Arguments, frozen=True, kw_only=True):
    seconds: Annotated[float, SECONDS] | None = None
    every: Annotated[float, EVERY] = 0.5
    last: Annotated[int, LAST] = NEWEST


class Happened(Struct, frozen=True, kw_only=True):
    """One event in one line."""

    seq: int
    at_ms: int
    kind: str
    text: str


class Update(Struct, frozen=True, kw_only=True):
    """How the conversation is now, and what came since the update before."""

    head: int
    current: int
    window: int
    level: str
    messages: int
    compactions: int
    events: tuple[Happened, ...]
    sync: str = ""


class Watched(Result, frozen=True, kw_only=True):
    conversation: str
    updates: Iterator[Update]


def run(session: Session, arguments: WatchArguments) -> Watched:
    with session.context() as context:
        return Watched(conversation=context.id, updates=_updates(session.store, context, arguments))


def _updates(store: Store, context: Context, arguments: WatchArguments) -> Iterator[Update]:
    """What is there, then whatever comes."""
    until = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    seen = max(0, context.view.head - arguments.last)
    update = _update(store, context, seen)
    yield update
    while until is None or time.monotonic() < until:
        time.sleep(arguments.every)
        is_same = _sync_state(store, context.id) == update.sync
        if context.view.head > update.head or not is_same:
            update = _update(store, context, update.head)
            yield update


def _update(store: Store, context: Context, after: int) -> Update:
    stats, view = context.stats(), context.view
    events = context.log.events(after=after, limit=BATCH_EVENTS)
    return Update(
        head=events[-1].seq if events else view.head,
        current=stats.current,
        window=stats.window,
        level=stats.level,
        messages=stats.messages,
        compactions=sum(bool(batch) for _, batch in view.undoable),
        events=tuple(map(_happened, events)),
        sync=_sync_state(store, context.id),
    )


def _sync_state(store: Store, id: str) -> str:
    """How the conversation stands with the far store, in words; empty where there is none."""
    synced = synced_of(store)
    if synced is None:
        return ""
    [one] = synced.sync_status([id]).conversations
    if one.state == "pending":
        return f"{number(one.pending, 'event')} to sync"
    said = one.reason or (f"what was said here is {one.fork}" if one.fork else "")
    return f"{one.state}: {said}" if said else one.state


def _happened(event: Event) -> Happened:
    row = event_row(event)
    body = body_of(row)
    match body:
        case Message():
            text = f"[{body.role.capitalize()}] {body_text(body)[:TEXT_CHARS]}"
        case Usage():
            cached = f"{percent_of(body.cache_read, body.input)}% from the cache"
            said = f"{number(body.input, 'token')} in ({cached}), {body.output:,} out"
            text = f"billed: {said}, {dollars(body.cost)}"
        case _:
            text = summary(row).removeprefix(f"#{event.seq} ")
    return Happened(seq=event.seq, at_ms=event.at_ms, kind=event.kind, text=harmless(text))


# --- shown ---


def show(watched: Watched, screen: Screen) -> None:
    if screen.has_color and screen.is_utf8:
        _draw(watched, screen)
        return
    sync = ""
    for update in watched.updates:
        for event in update.events:
            screen.line(f"{_clock(event.at_ms)} #{event.seq} {event.text[:TEXT_CHARS]}")
        if update.events or update.sync != sync:
            sync = update.sync
            told = f", {update.sync}" if update.sync else ""
            screen.line(f"Context: {tokens_of(update.current, update.window)}{told}")
            screen.out.flush()


def _draw(watched: Watched, screen: Screen) -> None:
    """One picture, drawn over the one before."""
    newest: deque[Happened] = deque(maxlen=NEWEST)
    drawn = 0
    for update in watched.updates:
        newest.extend(update.events)
        screen.back(drawn)
        columns = screen.columns
        lines = _picture(watched.conversation, update, list(newest), columns)
        for parts in lines:
            screen.line(*parts)
        screen.out.flush()
        drawn = len(lines)


def _picture(id: str, update: Update, newest: list[Happened], columns: int) -> list[Line]:
    """The lines of the picture; none is wider than the terminal, so it can be drawn over."""
    room = max(20, columns - 1)
    counts = f"{number(update.messages, 'message')}, {number(update.compactions, 'compaction')}"
    told = f", {harmless(update.sync)}" if update.sync else ""
    heading = fitted(f"{harmless(id)} at #{update.head}: {counts}{told}", room, "…")
    return [
        [("bold", heading)],
        meter(update.current, update.window, update.level, room),
        [],
        *(_event_line(event, room) for event in newest),
        [("dim", fitted("Ctrl-C ends it; the conversation goes on.", room))],
    ]


def _event_line(event: Happened, room: int) -> Line:
    style = {"edit": "yellow", "message": "cyan"}.get(event.kind, "dim")
    head = f"{_clock(event.at_ms)} #{event.seq} "
    return [(style, head), fitted(event.text, max(1, room - len(head)), "…")]


def _clock(at_ms: int) -> str:
    """`10:30:05`, in the local time zone; a number that is no time is left open."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"


COMMAND = Command(
    name="watch",
    reads=True,
    arguments=WatchArguments,
    run=run,
    show=show,
)
