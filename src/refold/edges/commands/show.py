"""`refold show`: the page as the model sees it, the whole log, or the originals of a handle.

A slot is a heading of ours (`#41 tool, 1,204 tokens`, and what was done to it) and the message's
text, indented. The log shows every event, also those that no page shows any more; it is read while
it is shown, never held whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from refold.core.model import Applied, Block, Event, Message, Role, Slot, Span, View
from refold.core.shortened import ERASED
from refold.dialects.system import readable_prompt
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.events import (
    EventRow,
    body_bytes,
    body_of,
    event_row,
    state_of,
    summary,
    whole_slots,
)
from refold.edges.commands.native_part import NativePart, native_part, show_native_part
from refold.edges.commands.session import Session
from refold.edges.commands.text import line_span, number, short_line
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.log.reading import pages_of
from refold.log.unfold import body_text
from refold.stores.protocol import Store

BRIEF_CHARS = 100
HELP = "refold show --help"
ALL = Meta(description="The log: every event, including hidden ones.")
SEQ = Meta(description="One event, as it came.", ge=1)
HANDLE = Meta(description="The originals of a handle: #41, #41-58, art-...", extra={"metavar": "H"})
LINES = Meta(description="Only these lines of it, counted from 1.", extra={"metavar": "A-B"})
BRIEF = Meta(description="One line for each slot or event.")
ROLE = Meta(description="Only the slots of this role.")

Brief = bool | UnsetType


class ShowArguments(Arguments, frozen=True, kw_only=True):
    all_events: Annotated[bool, ALL] = field(name="all", default=False)
    seq: Annotated[int, SEQ] | None = None
    handle: Annotated[str, HANDLE] | None = None
    lines: Annotated[str, LINES] | None = None
    brief: Annotated[bool, BRIEF] = False
    role: Annotated[Role, ROLE] | None = None


class EditRow(Struct, frozen=True, kw_only=True):
    """An edit on a slot, and what it did in words; `block` is -1 if it took the whole slot."""

    seq: int
    block: int
    what: str


class SlotRow(Struct, frozen=True, kw_only=True):
    """One slot of the page; `last` is not `seq` where it stands for a span. `native` is what its
    provider wrote in the place of the blocks."""

    seq: int
    last: int
    role: Role
    tokens: int
    blocks: tuple[Block, ...]
    edits: list[EditRow]
    native: NativePart | UnsetType = UNSET


class Originals(Result, frozen=True, kw_only=True):
    conversation: str
    handle: str
    text: str


class OneEvent(Result, frozen=True, kw_only=True):
    conversation: str
    event: EventRow


class WholePage(Result, frozen=True, kw_only=True):
    conversation: str
    title: str
    head: int
    tokens: int
    system: Any
    system_tokens: int
    tools: Any
    tools_tokens: int
    pins: list[int]
    slots: list[SlotRow]
    brief: Brief = UNSET
    role: Role | UnsetType = UNSET


class WholeLog(Result, frozen=True, kw_only=True):
    conversation: str
    head: int
    brief: Brief = UNSET
    events: Iterator[EventRow]


Shown = Originals | OneEvent | WholePage | WholeLog


def run(session: Session, arguments: ShowArguments) -> Shown:
    _check(arguments)
    brief: Brief = arguments.brief or UNSET
    with session.context() as context:
        if arguments.seq is not None:
            return _one_event(context, arguments.seq, arguments.lines)
        if arguments.handle is not None:
            return _originals(context, arguments.handle, arguments.lines)
        if arguments.all_events:
            return _whole_log(session.store, context, brief)
        return _whole_page(session.store, context, brief, arguments.role)


def _check(arguments: ShowArguments) -> None:
    """Invalid if the arguments contradict each other."""
    is_part = arguments.seq is not None or arguments.handle is not None
    asked = (arguments.all_events, arguments.seq is not None, arguments.handle is not None)
    if sum(asked) > 1:
        raise Invalid("--all, --seq and --handle exclude each other", hint=HELP)
    if arguments.lines is not None and not is_part:
        raise Invalid("--lines needs --seq or --handle", hint=HELP)
    if arguments.role is not None and any(asked):
        raise Invalid("--role is for the page, without --all, --seq and --handle", hint=HELP)


# --- the originals of a handle ---


def _originals(context: Context, handle: str, lines: str | None) -> Originals:
    span = None if lines is None else line_span(lines)
    unfolded = context.unfold(handle, lines=span)
    return Originals(conversation=context.id, handle=unfolded.handle, text=unfolded.text)


def _one_event(context: Context, seq: int, lines: str | None) -> Originals | OneEvent:
    """What a message said, or any other event as it was written."""
    try:
        return _originals(context, f"#{seq}", lines)
    except NotFound:
        event = _event_at(context, seq)
        if event is None or event.kind == "message":
            raise
        return OneEvent(conversation=context.id, event=event_row(event))


def _event_at(context: Context, seq: int) -> Event | None:
    events = context.log.events(after=seq - 1, limit=1)
    return events[0] if events and events[0].seq == seq else None


# --- the page ---


def _whole_page(store: Store, context: Context, brief: Brief, role: Role | None) -> WholePage:
    view = context.view
    chosen = [slot for slot in view.slots if role in (None, slot.message.role)]
    return WholePage(
        conversation=context.id,
        title=context.stats().title,
        head=view.head,
        tokens=view.tokens,
        system=view.system,
        system_tokens=view.system_tokens,
        tools=view.tools,
        tools_tokens=view.tools_tokens,
        pins=sorted(view.pins),
        slots=[_slot_row(context, slot) for slot in chosen],
        brief=brief,
        role=UNSET if role is None else role,
    )


def _slot_row(context: Context, slot: Slot) -> SlotRow:
    return SlotRow(
        seq=slot.seq,
        last=slot.last,
        role=slot.message.role,
        tokens=slot.tokens,
        blocks=slot.message.blocks,
        edits=[_edit_row(context, edit) for edit in slot.edits],
        native=native_part(context, slot),
    )


def _edit_row(context: Context, edit: Applied) -> EditRow:
    event = _event_at(context, edit.seq)
    what = summary(event_row(event)) if event is not None else f"#{edit.seq}"
    return EditRow(seq=edit.seq, block=edit.block, what=what)


# --- the log ---


def _whole_log(store: Store, context: Context, brief: Brief) -> WholeLog:
    view = context.view
    pages = pages_of(store, context.id, last=view.head)
    return WholeLog(
        conversation=context.id, head=view.head, brief=brief, events=_log_rows(pages, view)
    )


def _log_rows(pages: Iterable[list[Event]], view: View) -> Iterator[EventRow]:
    """A row for every event, with how the page has it."""
    slots = whole_slots(view)
    for events in pages:
        for event in events:
            yield event_row(event, state_of(event, slots))


# --- shown ---


def show(shown: Shown, screen: Screen) -> None:
    match shown:
        case Originals():
            screen.line(shown.text)
        case OneEvent():
            _show_event(shown.event, screen)
        case WholePage():
            _show_page(shown, screen)
        case WholeLog():
            for row in shown.events:
                _show_log_row(row, screen, is_brief=shown.brief is True)


def _show_event(row: EventRow, screen: Screen) -> None:
    heading = f"#{row.seq} {short_line(row.kind, 40)}"
    screen.line(("bold", heading), f" by {short_line(row.by, 40)}")
    screen.block(body_bytes(row).decode("utf-8", "replace"))


def _show_page(page: WholePage, screen: Screen) -> None:
    title = short_line(page.title, 200)
    sizes = f"{number(len(page.slots), 'slot')}, head #{page.head}"
    screen.line(("bold", f"{page.conversation}: {title}"), f" ({sizes})")
    is_brief = page.brief is True
    if page.role is UNSET:
        system = readable_prompt(page.system)
        _show_part("system", system, page.system_tokens, screen, is_brief=is_brief)
        _show_part("tools", page.tools, page.tools_tokens, screen, is_brief=is_brief)
    for slot in page.slots:
        _show_slot(slot, screen, is_brief=is_brief)


def _show_part(name: str, value: Any, tokens: int, screen: Screen, *, is_brief: bool) -> None:
    """The system prompt or the tools, if there are any."""
    if value:
        screen.line(("cyan", name), f", {number(tokens, 'token')}")
        _show_text(_as_text(value), screen, is_brief=is_brief)


def _as_text(value: Any) -> str:
    """A system prompt or a list of tools for reading."""
    if isinstance(value, str):
        return value
    encoded = msgspec.json.encode(value)
    return msgspec.json.format(encoded, indent=2).decode("utf-8", "replace")


def _show_slot(slot: SlotRow, screen: Screen, *, is_brief: bool) -> None:
    is_standin = bool(slot.edits) and slot.edits[0].block < 0
    role = "stand-in" if is_standin else slot.role
    screen.line(
        ("cyan", f"{Span(slot.seq, slot.last)} {role}"), f", {number(slot.tokens, 'token')}"
    )
    for edit in slot.edits:
        screen.line(("yellow", "  edited by "), short_line(edit.what, 200))
    if slot.native is not UNSET:
        show_native_part(slot.native, screen, is_brief=is_brief)
    text = body_text(Message(role=slot.role, blocks=slot.blocks))
    _show_text(text, screen, is_brief=is_brief)


def _show_text(text: str, screen: Screen, *, is_brief: bool) -> None:
    if is_brief:
        screen.line("  ", short_line(text[: 2 * BRIEF_CHARS], BRIEF_CHARS))
    else:
        screen.block(text)
        screen.line()


def _show_log_row(row: EventRow, screen: Screen, *, is_brief: bool) -> None:
    if row.kind != "message":
        screen.line(("dim", short_line(summary(row), 200)))
        return
    body = body_of(row)
    role, text = "erased", ERASED
    if isinstance(body, Message):
        role, text = body.role, body_text(body)
    style = {"hidden": "dim", "shortened": "yellow"}.get(str(row.shown), "cyan")
    note = "" if row.shown == "whole" else f", {row.shown}"
    screen.line((style, f"#{row.seq} {role}"), f", {number(row.tokens, 'token')}{note}")
    _show_text(text, screen, is_brief=is_brief)


COMMAND = Command(
    name="show",
    reads=True,
    arguments=ShowArguments,
    run=run,
    show=show,
)
