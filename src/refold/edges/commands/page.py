"""Pages and messages as commands show them: for a terminal, a browser and JSON.

`show --page` marks folded parts with their handles and stops at every full screen; `show --html`
writes the web view of the conversation into one file, or every message on a page without a script,
folded ones behind a click. A provider's own compaction is shown by its text;
the provider's models get what it wrote, which may be sealed (`NativePart`). Neighbours: `show` is
the command, `displays.browser` builds the document, `dialects.native` reads native parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from refold import dialects
from refold.core.codec import decode, digest_of
from refold.core.model import Body, Event, Hide, Message, Replace, Slot, Summarize, View
from refold.core.shortened import ERASED
from refold.dialects.native import readable
from refold.dialects.wire import readable_prompt
from refold.edges.commands.command import Result, Screen, number, short_line
from refold.edges.commands.overview import sizes
from refold.edges.displays.browser import MARK, Browsed, Written, browser_page, timeline
from refold.edges.displays.overview import recorded_size, window_parts
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.errors import NotFound
from refold.log.handles import body_text
from refold.log.log import runs
from refold.log.message_history import history_of
from refold.log.stored_logs import pages_of
from refold.redaction import redactor
from refold.stores.protocol import Store
from refold.tokens.models import dollars

START_BYTES = 300
START_CHARS, LINE_CHARS = 300, 100
ROWS_SHOWN = 20
NAME_CHARS = 40

State = Literal["", "whole", "shortened", "hidden"]


class EventRow(Struct, frozen=True, kw_only=True):
    """One event; `body` is None if it was erased. `shown` is the state of a message on the page:
    empty for any other event, unset if only this event was requested."""

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
    """The slots of the page that are messages, not stand-ins, by seq."""
    return {slot.seq: slot for slot in view.slots if not slot.standin}


def state_of(seq: int, slots: Mapping[int, Slot]) -> State:
    """The state of a message on the page, given its `whole_slots`."""
    slot = slots.get(seq)
    if slot is None:
        return "hidden"
    return "shortened" if slot.edits else "whole"


def event_summary(row: EventRow) -> str:
    """An event other than a message, in one line."""
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
    """The decoded body; None for an unknown kind and for an erased event."""
    # Rebuild the event with the fields that decoding needs.
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
            rows += [message_row(event) for event in events if event.kind == "message"]
    return tuple(rows)


def message_row(event: Event) -> MessageRow:
    """The row of a message, given its event."""
    body = decode(event)
    role, text = "", ERASED
    if isinstance(body, Message):
        role, text = body.role, body_text(body)
    return MessageRow(seq=event.seq, role=role, tokens=event.tokens, text=text[:START_CHARS])


def named_messages(store: Store, id: str, seqs: Sequence[int]) -> tuple[MessageRow, ...]:
    """The rows of existing messages; NotFound for the first seq that is not a message."""
    head = store.conversation(id).head
    rows = message_rows(store, id, [seq for seq in seqs if 1 <= seq <= head])
    missing = [seq for seq in seqs if seq not in {row.seq for row in rows}]
    if missing:
        hint = f"refold show {id} --all --brief names each message by its seq"
        raise NotFound(f"there is no message #{missing[0]}", hint=hint)
    return rows


def show_messages(rows: Sequence[MessageRow], screen: Screen, mark: str = "") -> None:
    """Prints a line for each of the first messages, and how many more there are."""
    for row in rows[:ROWS_SHOWN]:
        heading = f"  {mark}#{row.seq} {row.role or 'erased'}"
        screen.line(("cyan", heading), f": {short_line(row.text, LINE_CHARS)}")
    if len(rows) > ROWS_SHOWN:
        screen.line(f"  ... +{len(rows) - ROWS_SHOWN:,} more")


class NativePart(Struct, frozen=True, kw_only=True):
    """A provider's own compaction of messages. `text` is its readable part, the rest is
    `sealed_chars` long. `sent` says whether the model of the conversation gets the compaction or
    only its text."""

    provider: str
    model: str
    sent: bool
    text: str
    sealed_chars: int


def native_part(context: Context, slot: Slot) -> NativePart | UnsetType:
    """The provider's own compaction of these messages; unset if there is none."""
    native = slot.summary.native if slot.summary is not None else None
    if native is None or native.dialect not in dialects.DIALECTS:
        return UNSET
    text, sealed_chars = readable(native)
    page = context.page(native.dialect, settle=False)
    return NativePart(
        provider=dialects.dialect(native.dialect).provider,
        model=native.model,
        sent=any(_is_compaction(one.message) for one in page if slot.seq in one.seqs),
        text=text,
        sealed_chars=sealed_chars,
    )


def _is_compaction(message: Any) -> bool:
    content = message.get("content")
    blocks = [message, *(content if isinstance(content, list) else ())]
    return any(isinstance(one, dict) and one.get("type") == "compaction" for one in blocks)


def show_native_part(part: NativePart, screen: Screen, *, is_brief: bool = False) -> None:
    """Prints the model's text, before the text for other readers."""
    shown = written(part)
    screen.line(("yellow" if part.sent else "dim", f"  {shown.heading}"))
    if shown.text and not is_brief:
        screen.block(shown.text)
    screen.line(("dim", f"  {shown.rest}"))


def written(part: NativePart) -> Written:
    """A native part in words: its size, its text, and its readers."""
    name = short_line(part.provider, NAME_CHARS)
    sizes = [number(len(part.text), "character")] if part.text else []
    if part.sealed_chars or not part.text:
        sizes.append(f"{number(part.sealed_chars, 'character')} sealed")
    size = " and ".join(sizes)
    if not part.sent:
        heading = f"{name} compacted this ({size}) for its own models"
        return Written(heading=heading, text="", rest="the model of this conversation gets:")
    return Written(
        heading=f"compacted by {name}, {size}",
        text=part.text,
        rest="models of other providers, and searches, get:",
    )


MESSAGES_MAX = 20_000


class PagePart(Struct, frozen=True, kw_only=True):
    """One message of the page. `folded` numbers the shortened parts from 1, and is 0 for others;
    `handle` names the originals. `native` is the provider's own text in place of this one."""

    handle: str
    role: str
    tokens: int
    folded: int
    text: str
    native: NativePart | UnsetType = UNSET


class Page(Result, frozen=True, kw_only=True):
    conversation: str
    system: str
    parts: tuple[PagePart, ...]
    tokens: int
    is_paged: bool | UnsetType = UNSET

    def show(self, screen: Screen) -> None:
        with screen.paged() if self.is_paged is True else nullcontext():
            self._show(screen)

    def _show(self, screen: Screen) -> None:
        if self.system:
            screen.line(("magenta", "system"))
            screen.block(self.system)
        for part in self.parts:
            head = f"{part.role} {part.handle}"
            if part.folded:
                size = f" folded, {number(part.tokens, 'token')}"
                screen.line(("yellow", head), ("dim", size))
            else:
                screen.line(("cyan", head))
            if part.native is not UNSET:
                show_native_part(part.native, screen)
            screen.block(part.text)
        tokens = number(self.tokens, "token")
        screen.line(("bold", f"{number(len(self.parts), 'message')}, {tokens}"))
        folded = sum(bool(part.folded) for part in self.parts)
        if folded:
            originals = screen.call("show", self.conversation, "HANDLE")
            screen.line(f"{number(folded, 'folded part')}; see the originals with: {originals}")


def page(context: Context, view: View, *, is_paged: bool) -> Page:
    """A page of a conversation, now or earlier, with its folded parts."""
    folded, is_now = 0, view.head == context.view.head
    parts: list[PagePart] = []
    for slot in view.slots:
        folded += bool(slot.edits)
        standin = "summary" if slot.summary else "hidden"
        parts.append(
            PagePart(
                handle=str(slot.span),
                role=standin if slot.standin else slot.message.role,
                tokens=slot.tokens,
                folded=folded if slot.edits else 0,
                text=body_text(slot.message),
                native=native_part(context, slot),
            )
        )
    return Page(
        conversation=context.id,
        system=readable_prompt(view.system),
        parts=tuple(parts),
        tokens=context.stats().current if is_now else view.tokens,
        is_paged=is_paged or UNSET,
    )


class Browsable(Result, frozen=True, kw_only=True):
    """The file for a browser."""

    conversation: str
    file: str
    size_bytes: int

    def show(self, screen: Screen) -> None:
        size = number(self.size_bytes, "byte")
        screen.line(f"{self.conversation} is in {self.file} ({size}); open it in a browser.")


def browsable(store: Store, context: Context, file: Path, *, is_plain: bool) -> Browsable:
    """Writes the conversation to a file for a browser: the web view with its answers inside, or
    a page without a script."""
    from refold.edges.ui.conversation import Conversation
    from refold.edges.ui.saved import saved_page
    from refold.replay.page import write

    page = page_file(store, context) if is_plain else saved_page(Conversation(context))
    write(file, page, MARK)
    return Browsable(conversation=context.id, file=str(file), size_bytes=len(page.encode()))


def page_file(store: Store, context: Context) -> str:
    """The document, without secrets unless the settings leave them in exports; of a very long log,
    only the newest messages."""
    view, stats = context.view, context.stats()
    pages = pages_of(store, context.id, last=view.head) if view.head else ()
    events = [event for page in pages for event in page]
    messages = [event for event in events if event.kind == "message"]
    native = ((slot.seq, native_part(context, slot)) for slot in view.slots)
    by_seq = {seq: written(part) for seq, part in native if part is not UNSET}
    browsed = Browsed(
        conversation=context.id,
        title=stats.title,
        facts=_facts(stats),
        window=stats.window,
        parts=window_parts(view, context.budget),
        sizes=tuple((one.seq, one.tokens) for one in sizes(context, stats.current)),
        batches=tuple(context.log.batches()),
        items=timeline(messages[-MESSAGES_MAX:], view, history_of(events), by_seq),
        left_out=max(0, len(messages) - MESSAGES_MAX),
    )
    return browser_page(browsed, redactor(context.config.redact, "exports"))


def _facts(stats: Stats) -> tuple[str, ...]:
    sizes = f"{stats.percent:.1f}% full, {stats.current:,} of {number(stats.window, 'token')}"
    messages = f"{number(stats.messages, 'message')}, {stats.active:,} of them on the page"
    billed = f"billed {dollars(stats.cost)}" if stats.cost else ""
    recorded = recorded_size(stats.recorded, stats.window)
    facts = (stats.model or "unknown model", recorded, sizes, messages, billed)
    return tuple(fact for fact in facts if fact)
