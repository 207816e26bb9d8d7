"""`refold show`: the page, the log, one message, and the originals of a handle.

A slot is a heading (`#41 tool, 1,204 tokens`, and its edits) and the message's text, indented. The
log is read while it is shown, never all at once. The other forms are modules of their own, imported
on demand: `page`, `overview`, `why` and `follow`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from refold.core.model import Applied, Block, Event, Message, Role, Slot, Span, View
from refold.core.shortened import ERASED
from refold.dialects.wire import readable_prompt
from refold.edges.commands.command import (
    FORMAT,
    Limit,
    Lines,
    OnlyRole,
    Result,
    Screen,
    command,
    is_seq,
    line_span,
    number,
    seq_of,
    short_line,
)
from refold.edges.commands.page import (
    EventRow,
    NativePart,
    State,
    body_bytes,
    body_of,
    event_row,
    event_summary,
    message_row,
    native_part,
    show_native_part,
    state_of,
    whole_slots,
)
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.log.handles import body_text
from refold.log.stored_logs import pages_of
from refold.stores.protocol import Store

BRIEF_CHARS = 100
LINE_CHARS = 100
HELP = "refold show --help"
FORMS = ("all", "page", "list", "summary", "follow", "html")
STYLES = {"hidden": "dim", "shortened": "yellow"}

Brief = bool | UnsetType
Level = Literal["line", "paragraph", "full"]


WHAT = Meta(
    description="A message (#41), a span (#41-58) or an artifact (art-...): shows its original.",
    extra={"positional": True, "metavar": "HANDLE", "completes": "handle"},
)
ALL = Meta(description="The log: every event, including hidden ones.")
PAGE = Meta(description="The page as the model reads it, with the handles of folded parts.")
LIST = Meta(description="Every message in one line, including hidden ones.")
SUMMARY = Meta(description="The conversation at a glance: sizes, newest messages, artifacts.")
FOLLOW = Meta(description="The newest events, then new ones as another process writes them.")
SECONDS = Meta(description="With --follow: end after this many seconds.", ge=0.0)
HTML = Meta(
    description="Write the conversation as one file for a browser: the view of refold ui, offline; "
    "with --format plain, a page without a script.",
    extra={"metavar": "FILE", "completes": "file"},
)
WHY = Meta(description="The edits on the message, their reasons, and its score.")
AT = Meta(
    description="The page as it was at a message (41) or a checkpoint.",
    extra={"metavar": "PLACE", "completes": "handle"},
)
LEVEL = Meta(description="Of HANDLE only the summary, as a line or a paragraph.")
BRIEF = Meta(description="One line for each slot or event.")


@command(
    "show",
    details="Without a form, shows the page with every edit on it. HANDLE is what the page and the "
    "lists show: 41, #41-58 or art-...",
    reads=True,
)
def show(
    session: Session,
    *,
    what: Annotated[str, WHAT] | None = None,
    page: Annotated[bool, PAGE] = False,
    all: Annotated[bool, ALL] = False,
    list: Annotated[bool, LIST] = False,
    summary: Annotated[bool, SUMMARY] = False,
    why: Annotated[bool, WHY] = False,
    follow: Annotated[bool, FOLLOW] = False,
    html: Annotated[str, HTML] | None = None,
    role: OnlyRole | None = None,
    brief: Annotated[bool, BRIEF] = False,
    at: Annotated[str, AT] | None = None,
    level: Annotated[Level, LEVEL] = "full",
    lines: Lines | None = None,
    limit: Limit | None = None,
    seconds: Annotated[float, SECONDS] | None = None,
    format: Annotated[Literal["plain"], FORMAT] | None = None,
) -> Result:
    given = (all, page, list, summary, follow, html is not None)
    forms = [name for name, is_given in zip(FORMS, given, strict=True) if is_given]
    _check(forms, what, why=why, has_lines=lines is not None, has_role=role is not None)
    if not follow and (limit is not None or seconds is not None):
        name = "--limit" if limit is not None else "--seconds"
        raise Invalid(f"{name} is for --follow", hint="refold show ID --follow")
    if brief and (what is not None or (forms and forms != ["all"])):
        raise Invalid("--brief is for the page and for --all", hint=HELP)
    if at is not None and (what is not None or (forms and forms != ["page"])):
        raise Invalid("--at is for the page", hint="refold show ID --at 41")
    if why:
        from refold.edges.commands.why import explained

        return explained(session, seq_of(what or ""))
    if follow:
        return _followed(session, limit, seconds)
    with session.context() as context:
        if what is not None:
            return _original(context, what, level, lines)
        if all:
            return _whole_log(session.store, context, brief or UNSET)
        if list:
            return _messages(session.store, context, role)
        if summary:
            from refold.edges.commands.overview import summary_of

            return summary_of(context, plain=format == "plain")
        if page or html is not None:
            from refold.edges.commands import page as pages

            if html is not None:
                return pages.browsable(
                    session.store, context, Path(html), is_plain=format == "plain"
                )
            view = context.view if at is None else _view_at(context, at)
            return pages.page(context, view, is_paged=format is None)
        return _whole_page(context, brief or UNSET, role, at)


def _check(
    forms: Sequence[str], what: str | None, *, why: bool, has_lines: bool, has_role: bool
) -> None:
    """Raises Invalid if the arguments contradict each other."""
    if len(forms) > 1:
        named = " and ".join(f"--{form}" for form in forms)
        raise Invalid(f"{named} exclude each other", hint=HELP)
    if what is not None and forms:
        raise Invalid(f"--{forms[0]} shows the whole conversation, not one handle", hint=HELP)
    if why and what is None:
        raise Invalid("--why needs a message", hint="refold show ID SEQ --why")
    if has_lines and (what is None or why):
        raise Invalid("--lines needs a handle", hint=HELP)
    if has_role and (what is not None or (forms and forms != ["list"])):
        raise Invalid("--role does not go with this form; use it alone or with --list", hint=HELP)


def _followed(session: Session, last: int | None, seconds: float | None) -> Result:
    from refold.edges.commands.follow import follow

    if session.screen is not None and not session.screen.is_shell:
        hint = "in a shell: refold show ID --follow"
        raise Invalid("a chat follows its own conversation already", hint=hint)
    return follow(session, last=last, seconds=seconds)


# --- the originals of a handle ---


class Originals(Result, frozen=True, kw_only=True):
    """`level` is the level of `text`, `asked` the requested one."""

    conversation: str
    handle: str
    level: str
    text: str
    asked: Level = "full"

    def show(self, screen: Screen) -> None:
        if self.level != self.asked:
            screen.note(f"{self.handle} has no levels: this is all of it.")
        screen.line(self.text)


class OneEvent(Result, frozen=True, kw_only=True):
    conversation: str
    event: EventRow

    def show(self, screen: Screen) -> None:
        row = self.event
        heading = f"#{row.seq} {short_line(row.kind, 40)}"
        screen.line(("bold", heading), f" by {short_line(row.by, 40)}")
        screen.block(body_bytes(row).decode("utf-8", "replace"))


def _original(context: Context, what: str, level: Level, lines: str | None) -> Originals | OneEvent:
    """The original of a handle; an event other than a message as it was written."""
    span = None if lines is None else line_span(lines)
    from refold.edges.commands.artifacts import artifact_meant

    handle = f"#{seq_of(what)}" if is_seq(what) else artifact_meant(context.artifacts, what)
    try:
        found = context.unfold(handle, level=level, lines=span)
    except NotFound:
        event = _event_at(context, seq_of(what)) if is_seq(what) else None
        if event is None or event.kind == "message":
            raise
        return OneEvent(conversation=context.id, event=event_row(event))
    return Originals(
        conversation=context.id,
        handle=found.handle,
        level=found.level,
        text=found.text,
        asked=level,
    )


def _event_at(context: Context, seq: int) -> Event | None:
    event = next(context.log.events(after=seq - 1, limit=1), None)
    return event if event and event.seq == seq else None


# --- the page ---


class EditRow(Struct, frozen=True, kw_only=True):
    """An edit on a slot, with a description; `block` is -1 if it covers the entire slot."""

    seq: int
    block: int
    what: str


class SlotRow(Struct, frozen=True, kw_only=True):
    """One slot of the page; a stand-in covers the span from `seq` to `last`. `native` is the
    provider's own compaction."""

    seq: int
    last: int
    role: Role
    tokens: int
    blocks: tuple[Block, ...]
    edits: list[EditRow]
    native: NativePart | UnsetType = UNSET


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

    def show(self, screen: Screen) -> None:
        title = short_line(self.title, 200)
        sizes = f"{number(len(self.slots), 'slot')}, head #{self.head}"
        screen.line(("bold", f"{self.conversation}: {title}"), f" ({sizes})")
        is_brief = self.brief is True
        if self.role is UNSET:
            system = readable_prompt(self.system)
            _show_part("system", system, self.system_tokens, screen, is_brief=is_brief)
            _show_part("tools", self.tools, self.tools_tokens, screen, is_brief=is_brief)
        for slot in self.slots:
            _show_slot(slot, screen, is_brief=is_brief)


def _view_at(context: Context, at: str) -> View:
    return context._open.view_at(seq_of(at) if is_seq(at) else at)


def _whole_page(context: Context, brief: Brief, role: Role | None, at: str | None) -> WholePage:
    view = context.view if at is None else _view_at(context, at)
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
    what = event_summary(event_row(event)) if event is not None else f"#{edit.seq}"
    return EditRow(seq=edit.seq, block=edit.block, what=what)


def _show_part(name: str, value: Any, tokens: int, screen: Screen, *, is_brief: bool) -> None:
    """Prints the system prompt or the tools, if there are any."""
    if not value:
        return
    screen.line(("cyan", name), f", {number(tokens, 'token')}")
    if not isinstance(value, str):
        encoded = msgspec.json.encode(value)
        value = msgspec.json.format(encoded, indent=2).decode("utf-8", "replace")
    _show_text(value, screen, is_brief=is_brief)


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


# --- the log ---


class WholeLog(Result, frozen=True, kw_only=True):
    conversation: str
    head: int
    brief: Brief = UNSET
    events: Iterator[EventRow]

    def show(self, screen: Screen) -> None:
        for row in self.events:
            _show_log_row(row, screen, is_brief=self.brief is True)


def _whole_log(store: Store, context: Context, brief: Brief) -> WholeLog:
    view = context.view
    pages, slots = pages_of(store, context.id, last=view.head), whole_slots(view)
    rows = (
        event_row(event, state_of(event.seq, slots) if event.kind == "message" else "")
        for page in pages
        for event in page
    )
    return WholeLog(conversation=context.id, head=view.head, brief=brief, events=rows)


def _show_log_row(row: EventRow, screen: Screen, *, is_brief: bool) -> None:
    if row.kind != "message":
        screen.line(("dim", short_line(event_summary(row), 200)))
        return
    body = body_of(row)
    role, text = "erased", ERASED
    if isinstance(body, Message):
        role, text = body.role, body_text(body)
    style = STYLES.get(str(row.shown), "cyan")
    note = "" if row.shown == "whole" else f", {row.shown}"
    screen.line((style, f"#{row.seq} {role}"), f", {number(row.tokens, 'token')}{note}")
    _show_text(text, screen, is_brief=is_brief)


# --- messages in one line ---


class MessageLine(Struct, frozen=True, kw_only=True):
    """One message; `role` is empty if it was erased, `text` is its beginning."""

    seq: int
    role: str
    tokens: int
    shown: State
    text: str


class Messages(Result, frozen=True, kw_only=True):
    conversation: str
    messages: Iterator[MessageLine]

    def show(self, screen: Screen) -> None:
        for one in self.messages:
            note = "" if one.shown == "whole" else f" ({one.shown})"
            head = f"#{one.seq} [{(one.role or 'erased').capitalize()}]{note} "
            screen.line((STYLES.get(one.shown, "cyan"), head), short_line(one.text, LINE_CHARS))


def _messages(store: Store, context: Context, role: Role | None) -> Messages:
    view = context.view
    pages, slots = pages_of(store, context.id, last=view.head), whole_slots(view)
    events = (event for page in pages for event in page if event.kind == "message")
    lines = (
        MessageLine(**asdict(row), shown=state_of(row.seq, slots))
        for row in map(message_row, events)
        if role in (None, row.role)
    )
    return Messages(conversation=context.id, messages=lines)
