"""The page as the model reads it, and the whole conversation as a file for a browser.

`show --page` marks folded parts with their handles; on a terminal it stops at every full screen.
`show --html` writes every message, with folded ones behind a click. Neighbours: `show` is the
command, `displays.browser` makes the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from refold.core.model import Event, Slot, View
from refold.dialects.wire import readable_prompt
from refold.display import number
from refold.edges.commands.command import Result, Screen
from refold.edges.commands.messages import NativePart, native_part, show_native_part, written
from refold.edges.commands.overview import sizes
from refold.edges.displays.browser import Browsed, Written, browser_page, timeline
from refold.edges.displays.overview import window_parts
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.log.trace import history_of, pages_of
from refold.log.unfold import body_text
from refold.redaction import redactor
from refold.stores.protocol import Store
from refold.tokens.models import dollars

MESSAGES_MAX = 20_000


class PagePart(Struct, frozen=True, kw_only=True):
    """One message of the page. A `folded` part, counted from 1, stands for more than it shows;
    `handle` names its originals. `native` is the provider's own text in place of this one."""

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


def page(context: Context, *, is_paged: bool) -> Page:
    """The page of a conversation, with its folded parts."""
    view = context.view
    return Page(
        conversation=context.id,
        system=readable_prompt(view.system),
        parts=tuple(_parts(context, view.slots)),
        tokens=context.stats().current,
        is_paged=is_paged or UNSET,
    )


def _parts(context: Context, slots: Sequence[Slot]) -> list[PagePart]:
    parts: list[PagePart] = []
    folded = 0
    for slot in slots:
        folded += bool(slot.edits)
        parts.append(
            PagePart(
                handle=str(slot.span),
                role=_role(slot),
                tokens=slot.tokens,
                folded=folded if slot.edits else 0,
                text=body_text(slot.message),
                native=native_part(context, slot),
            )
        )
    return parts


def _role(slot: Slot) -> str:
    """The role of a message; a stand-in is a summary, or a notice of hidden messages."""
    if not slot.standin:
        return slot.message.role
    return "summary" if slot.summary else "hidden"


class Browsable(Result, frozen=True, kw_only=True):
    """The file for a browser."""

    conversation: str
    file: str
    size_bytes: int

    def show(self, screen: Screen) -> None:
        size = number(self.size_bytes, "byte")
        screen.line(f"{self.conversation} is in {self.file} ({size}); open it in a browser.")


def browsable(store: Store, context: Context, file: Path) -> Browsable:
    """Writes the conversation to a file for a browser."""
    from refold.edges.displays.browser import MARK
    from refold.replay.page import write

    page = page_file(store, context)
    write(file, page, MARK)
    return Browsable(conversation=context.id, file=str(file), size_bytes=len(page.encode()))


def page_file(store: Store, context: Context) -> str:
    """The document, without secrets unless the settings leave them in exports. Of a very long log
    the newest messages are in it."""
    view, stats = context.view, context.stats()
    pages = pages_of(store, context.id, last=view.head) if view.head else ()
    events = [event for page in pages for event in page]
    shown, left_out = _newest(events)
    browsed = Browsed(
        conversation=context.id,
        title=stats.title,
        facts=_facts(stats),
        window=stats.window,
        parts=window_parts(view, context.budget),
        sizes=tuple((one.seq, one.tokens) for one in sizes(context, stats.current)),
        batches=tuple(context.log.batches()),
        items=timeline(shown, view, history_of(events), _written(context, view)),
        left_out=left_out,
    )
    return browser_page(browsed, redactor(context.config.redact, "exports"))


def _written(context: Context, view: View) -> dict[int, Written]:
    """What providers wrote on this page, by the seq of its slot."""
    found = ((slot.seq, native_part(context, slot)) for slot in view.slots)
    return {seq: written(one) for seq, one in found if one is not UNSET}


def _newest(events: list[Event]) -> tuple[list[Event], int]:
    """The newest messages, and how many there are before them."""
    messages = [event for event in events if event.kind == "message"]
    return messages[-MESSAGES_MAX:], max(0, len(messages) - MESSAGES_MAX)


def _facts(stats: Stats) -> tuple[str, ...]:
    sizes = f"{stats.percent:.1f}% full, {stats.current:,} of {number(stats.window, 'token')}"
    messages = f"{number(stats.messages, 'message')}, {stats.active:,} of them on the page"
    billed = f"billed {dollars(stats.cost)}" if stats.cost else ""
    facts = (stats.model or "unknown model", sizes, messages, billed)
    return tuple(fact for fact in facts if fact)
