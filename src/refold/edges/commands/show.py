"""`refold show`: the page as the model sees it, the whole log, or the originals of a handle.

A slot is a heading of ours (`#41 tool, 1,204 tokens`, and what was done to it) and the message's
text, indented. The log shows every event, also those that no page shows any more; it is read while
it is shown, never held whole.

One event as commands give it back: its envelope, its body, and what it says in one line; and
messages as short rows, for commands that name many.

A part of the page that its provider wrote: what the model gets, beside the text for all others.

The fold shows such a part by its text, which every reader can have; the provider's own models get
what it wrote instead, which may be sealed. Neighbours: `page`, `page_file` and `show` show it,
`dialects.native` knows how it is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from refold import dialects
from refold.core.codec import decode, digest_of
from refold.core.model import (
    Applied,
    Block,
    Body,
    Event,
    Hide,
    Message,
    Native,
    Replace,
    Role,
    Slot,
    Span,
    Summarize,
    View,
)
from refold.core.shortened import ERASED
from refold.dialects.native import readable
from refold.dialects.wire import readable_prompt
from refold.edges.commands.command import (
    Arguments,
    Command,
    Result,
    Screen,
    line_span,
    number,
    short_line,
)
from refold.edges.commands.session import Session
from refold.edges.displays.browser import Written
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.log.log import runs
from refold.log.trace import pages_of
from refold.log.unfold import body_text
from refold.stores.protocol import Store

START_BYTES = 300
START_CHARS, LINE_CHARS = 300, 100
ROWS_SHOWN = 20

State = Literal["", "whole", "shortened", "hidden"]


class EventRow(Struct, frozen=True, kw_only=True):
    """One event; `body` is None if it was erased. `shown` says how the page has a message: empty
    for any other event, unset where only this event was asked for."""

    seq: int
    id: str
    at_ms: int
    by: str
    kind: str
    tokens: int
    body: Raw | None
    shown: State | UnsetType = UNSET


def event_row(event: Event, shown: State | UnsetType = UNSET) -> EventRow:
    return EventRow(
        seq=event.seq,
        id=event.id,
        at_ms=event.at_ms,
        by=event.by,
        kind=event.kind,
        tokens=event.tokens,
        body=None if event.erased else Raw(event.body),
        shown=shown,
    )


def whole_slots(view: View) -> dict[int, Slot]:
    """The slots of the page that are messages themselves, by their seq."""
    return {slot.seq: slot for slot in view.slots if not slot.standin}


def state_of(event: Event, slots: Mapping[int, Slot]) -> State:
    """How the page has an event, given its `whole_slots`."""
    if event.kind != "message":
        return ""
    slot = slots.get(event.seq)
    if slot is None:
        return "hidden"
    return "shortened" if slot.edits else "whole"


def summary(row: EventRow) -> str:
    """What an event other than a message says, in one line."""
    match body := body_of(row):
        case Hide():
            action = f"hides {body.span}"
        case Summarize():
            action = f"summarizes {body.span}"
        case Replace():
            action = f"shortens #{body.seq}, block {body.block}"
        case _:
            start = body_bytes(row)[:START_BYTES].decode("utf-8", "replace")
            return f"#{row.seq} {row.kind}: {start}"
    reason = f" ({body.reason})" if body.reason else ""
    return f"#{row.seq} {row.by}: {action}{reason}"


def body_of(row: EventRow) -> Body | None:
    """What the event says; None for a kind this version does not know, and for an erased one."""
    # An event again, as far as decoding it needs.
    salt, body = b"" if row.body is None else b"kept", body_bytes(row)
    event = Event(
        seq=row.seq,
        id=row.id,
        at_ms=row.at_ms,
        by=row.by,
        kind=row.kind,
        body=body,
        salt=salt,
        digest=digest_of(salt, body),
        chain=b"",
    )
    return decode(event)


def body_bytes(row: EventRow) -> bytes:
    """The body as it was written; empty if it was erased."""
    return b"" if row.body is None else bytes(row.body)


# --- messages in one line ---


class MessageRow(Struct, frozen=True, kw_only=True):
    """One message in one line: `text` is how it begins. `role` is empty if it was erased."""

    seq: int
    role: str
    tokens: int
    text: str


def message_rows(store: Store, id: str, seqs: Iterable[int]) -> tuple[MessageRow, ...]:
    """The messages among these events, by seq. Only they are read."""
    rows: list[MessageRow] = []
    for span in runs(set(seqs)):
        for events in pages_of(store, id, after=span.first - 1, last=span.last):
            rows += [_message_row(event) for event in events if event.kind == "message"]
    return tuple(rows)


def _message_row(event: Event) -> MessageRow:
    body = decode(event)
    role, text = "", ERASED
    if isinstance(body, Message):
        role, text = body.role, body_text(body)
    return MessageRow(seq=event.seq, role=role, tokens=event.tokens, text=text[:START_CHARS])


def named_messages(store: Store, id: str, seqs: Sequence[int]) -> tuple[MessageRow, ...]:
    """The same, of messages that must be there; NotFound for the first that is not."""
    head = store.conversation(id).head
    rows = message_rows(store, id, [seq for seq in seqs if 1 <= seq <= head])
    missing = [seq for seq in seqs if seq not in {row.seq for row in rows}]
    if missing:
        hint = f"refold show {id} --all --brief names each message by its seq"
        raise NotFound(f"there is no message #{missing[0]}", hint=hint)
    return rows


def show_messages(rows: Sequence[MessageRow], screen: Screen, mark: str = "") -> None:
    """A line for each of the first messages, and how many more there are."""
    for row in rows[:ROWS_SHOWN]:
        heading = f"  {mark}#{row.seq} {row.role or 'erased'}"
        screen.line(("cyan", heading), f": {short_line(row.text, LINE_CHARS)}")
    if len(rows) > ROWS_SHOWN:
        screen.line(f"  ... +{len(rows) - ROWS_SHOWN:,} more")


NAME_CHARS = 40


class NativePart(Struct, frozen=True, kw_only=True):
    """What a provider wrote in the place of messages. `text` is what can be read of it, the rest is
    `sealed_chars` long. `sent` says whether the model of the conversation gets it: if not, it gets
    the text of the part."""

    provider: str
    model: str
    sent: bool
    text: str
    sealed_chars: int


def native_part(context: Context, slot: Slot) -> NativePart | UnsetType:
    """What the provider wrote in the place of these messages; unset if nothing."""
    native = slot.summary.native if slot.summary is not None else None
    if native is None or native.dialect not in dialects.DIALECTS:
        return UNSET
    text, sealed_chars = readable(native)
    return NativePart(
        provider=dialects.dialect(native.dialect).provider,
        model=native.model,
        sent=_is_sent(context, slot, native),
        text=text,
        sealed_chars=sealed_chars,
    )


def _is_sent(context: Context, slot: Slot, native: Native) -> bool:
    shown = context.page(native.dialect, settle=False)
    return any(_is_compaction(one.message) for one in shown if slot.seq in one.seqs)


def _is_compaction(message: Any) -> bool:
    content = message.get("content")
    blocks = [message, *(content if isinstance(content, list) else ())]
    return any(isinstance(one, dict) and one.get("type") == "compaction" for one in blocks)


def show_native_part(part: NativePart, screen: Screen, *, is_brief: bool = False) -> None:
    """Says what the model gets, and for whom the text is that comes next."""
    said = written(part)
    screen.line(("yellow" if part.sent else "dim", f"  {said.heading}"))
    if said.text and not is_brief:
        screen.block(said.text)
    screen.line(("dim", f"  {said.rest}"))


def written(part: NativePart) -> Written:
    """The same in words, with what the model of the conversation gets of it."""
    name, size = short_line(part.provider, NAME_CHARS), _size(part)
    if not part.sent:
        heading = f"{name} compacted this ({size}) for its own models"
        return Written(heading=heading, text="", rest="the model of this conversation gets:")
    return Written(
        heading=f"compacted by {name}, {size}",
        text=part.text,
        rest="models of other providers, and searches, get:",
    )


def _size(part: NativePart) -> str:
    """How much it is; what is sealed, nobody but the provider can read."""
    sealed = f"{number(part.sealed_chars, 'character')} sealed"
    if not part.text:
        return sealed
    written = number(len(part.text), "character")
    return f"{written} and {sealed}" if part.sealed_chars else written


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


def run_show(session: Session, arguments: ShowArguments) -> Shown:
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


def show_show(shown: Shown, screen: Screen) -> None:
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


SHOW = Command(
    name="show",
    reads=True,
    arguments=ShowArguments,
    run=run_show,
    show=show_show,
)
