"""A conversation that another process writes, followed live: `refold show --follow`.

The log is polled. On a terminal one picture is redrawn at the terminal's size: the meter and the
newest events; the last picture stays. Elsewhere every event is a line, and with `--json` updates
contain the events as written. It ends on an interrupt, or after `--seconds`. Neighbour:
`displays.phrases` has the texts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Event
from refold.display import number
from refold.edges.commands.command import Result, Screen
from refold.edges.commands.page import EventRow, event_row
from refold.edges.commands.session import Session
from refold.edges.displays.panel import Line, meter
from refold.edges.displays.phrases import Happening, happenings, tokens_of
from refold.edges.displays.wrap import fitted, harmless, padded
from refold.engine.context import Context
from refold.log.message_states import Batch
from refold.stores import synced_of
from refold.stores.protocol import Store

NEWEST = 12
EVERY_S = 0.25  # polling interval
PLAIN_COLUMNS = 400  # longest line in a pipe
WHO_COLUMNS = 10
NARROW = 60
STYLES = {
    "system": "magenta",
    "user": "green",
    "assistant": "cyan",
    "tool": "red",
    "compacted": "yellow",
    "undone": "yellow",
    "restored": "yellow",
}
BATCH_EVENTS = 1_000


class Update(Struct, frozen=True, kw_only=True):
    """The state of the conversation, and the news since the previous update: the events, the
    compactions among them, and a readable description of both."""

    head: int
    current: int
    window: int
    level: str
    messages: int
    compactions: int
    events: tuple[EventRow, ...]
    batches: tuple[Batch, ...]
    happened: tuple[Happening, ...]
    sync: str = ""


class Watched(Result, frozen=True, kw_only=True):
    conversation: str
    updates: Iterator[Update]

    def show(self, screen: Screen) -> None:
        if screen.draws:
            _draw(self, screen)
            return
        sync = ""
        for update in self.updates:
            for one in update.happened:
                screen.line(*_event_line(one, PLAIN_COLUMNS))
            if update.events or update.sync != sync:
                sync = update.sync
                state = f", {update.sync}" if update.sync else ""
                screen.line(f"Context: {tokens_of(update.current, update.window)}{state}")
                screen.out.flush()


def follow(session: Session, *, last: int | None, seconds: float | None) -> Watched:
    """The conversation's newest events, then new ones as they arrive."""
    with session.context() as context:
        updates = _updates(session, context, NEWEST if last is None else last, seconds)
        return Watched(conversation=context.id, updates=updates)


def _updates(
    session: Session, context: Context, last: int, seconds: float | None
) -> Iterator[Update]:
    """The newest events, then new ones; an update without events if the terminal was resized."""
    store, size, began = session.store, _size(session), context.id
    until = None if seconds is None else time.monotonic() + seconds
    seen = max(0, context.view.head - last)
    update = _update(store, began, context, seen)
    yield update
    while until is None or time.monotonic() < until:
        time.sleep(EVERY_S)
        is_same = _sync_state(store, began, context.id) == update.sync
        if context.view.head > update.head or not is_same:
            update = _update(store, began, context, update.head)
            yield update
        elif _size(session) != size:
            yield replace(update, events=(), batches=(), happened=())
        size = _size(session)


def _size(session: Session) -> tuple[int, int]:
    """The width and height of the picture; zeros if none is drawn."""
    screen = session.screen
    if screen is None or not screen.draws or screen.json_output:
        return 0, 0
    return screen.columns, screen.rows


def _update(store: Store, began: str, context: Context, after: int) -> Update:
    stats, view = context.stats(), context.view
    events = list(context.log.events(after=after, limit=BATCH_EVENTS))
    batches = _batches(context, events)
    return Update(
        head=events[-1].seq if events else view.head,
        current=stats.current,
        window=stats.window,
        level=stats.level,
        messages=stats.messages,
        compactions=sum(bool(batch) for _, batch in view.undoable),
        events=tuple(map(event_row, events)),
        batches=batches,
        happened=tuple(happenings(events, {one.id: one for one in batches})),
        sync=_sync_state(store, began, context.id),
    )


def _sync_state(store: Store, began: str, id: str) -> str:
    """The sync state of the conversation in words; empty without a far store."""
    synced = synced_of(store)
    if synced is None:
        return ""
    [one] = synced.sync_status([id]).conversations
    reason = one.reason or (f"what was said here is {one.fork}" if one.fork else "")
    state = f"{one.state}: {reason}" if reason else one.state
    if one.state == "pending":
        state = f"{number(one.pending, 'event')} to sync"
    return state if id == began else f"{began} continues as {id}: {state}"


def _batches(context: Context, events: Sequence[Event]) -> tuple[Batch, ...]:
    """The compactions among some events. Their sizes need a fold of the entire log, so nothing is
    read unless there are any."""
    if not any(event.kind == "edit" for event in events):
        return ()
    return tuple(one for one in context.log.batches() if one.seq >= events[0].seq)


def _draw(watched: Watched, screen: Screen) -> None:
    """Redraws one picture in place; the last one stays."""
    newest: deque[Happening] = deque(maxlen=NEWEST)
    lines: list[Line] = []
    try:
        with screen.apart():
            for update in watched.updates:
                newest.extend(update.happened)
                lines = _picture(watched.conversation, update, [*newest], screen)
                screen.wipe()
                _print(lines, screen)
    finally:
        _print(lines, screen)


def _print(lines: Sequence[Line], screen: Screen) -> None:
    for parts in lines:
        screen.line(*parts)
    screen.out.flush()


def _picture(id: str, update: Update, newest: list[Happening], screen: Screen) -> list[Line]:
    """The lines of the picture, cut to the size of the terminal; the oldest events are left out
    first."""
    room, rows = max(20, screen.columns - 1), screen.rows - 1
    counts = f"{number(update.messages, 'message')}, {number(update.compactions, 'compaction')}"
    state = f", {harmless(update.sync)}" if update.sync else ""
    heading = fitted(f"{harmless(id)} at #{update.head}: {counts}{state}", room, "…")
    above: list[Line] = [
        [("bold", heading)],
        meter(update.current, update.window, update.level, room),
    ]
    below: Line = [("dim", fitted("Ctrl-C ends it; the conversation goes on.", room))]
    events = [_event_line(event, room) for event in newest]
    shown = events[max(0, len(events) - max(0, rows - len(above) - 2)) :]
    return [*above, [], *shown, below] if shown else [*above, below][: max(1, rows)]


def _event_line(one: Happening, room: int) -> Line:
    """Time, author, tokens and text; on a narrow screen, author and text."""
    style = STYLES.get(one.who, "dim")
    head = f"{_clock(one.at_ms)} {f'#{one.seq}':<5} " if room >= NARROW else ""
    size = f"{one.tokens:>7,}  " if one.tokens else " " * 9
    left = room - len(head) - WHO_COLUMNS - (len(size) if room >= NARROW else 1)
    text = fitted(one.text, max(1, left), "…")
    return [
        ("dim", head),
        (style, padded(fitted(one.who, WHO_COLUMNS, "…"), WHO_COLUMNS)),
        ("dim", size if room >= NARROW else " "),
        text if style != "dim" else ("dim", text),
    ]


def _clock(at_ms: int) -> str:
    """`10:30:05`, in the local time zone; dashes for an invalid time."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"
