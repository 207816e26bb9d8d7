"""`refold page`: the page as the model reads it, with what is folded marked by a number.

`refold page ID 2` unfolds the second of them: what stood there before. Numbers count from the top
of the page, so they hold until the page changes. Neighbours: `show` names every edit, `unfold`
takes a handle. On a terminal it stops at every full screen, unless `--all` is given. With `--html`
it is a file for a browser, with every message, what is folded behind a click.

What `refold page --html` writes: a conversation gathered for `displays.browser`.

`refold unfold`: the originals behind a handle, or the summary that stands for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from refold.core.model import Event, Slot, View
from refold.dialects.wire import readable_prompt
from refold.display import number
from refold.edges.commands.command import Arguments, Command, Result, Screen, line_span
from refold.edges.commands.context import sizes
from refold.edges.commands.session import Session
from refold.edges.commands.show import NativePart, native_part, show_native_part, written
from refold.edges.displays.browser import Browsed, Written, browser_page, timeline
from refold.edges.displays.overview import window_parts
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.errors import Invalid, NotFound
from refold.log.trace import history_of, pages_of
from refold.log.unfold import body_text
from refold.redaction import redactor
from refold.stores.protocol import Store
from refold.tokens.models import dollars

NUMBER = Meta(
    description="Show the originals of the folded part with this number.",
    ge=1,
    extra={"positional": True, "metavar": "N"},
)


WHOLE = Meta(description="Do not stop at every full screen.")
HTML = Meta(
    description="Write the whole conversation as one page for a browser: how full it is, what was "
    "compacted, and what is folded behind a click.",
    extra={"metavar": "FILE", "completes": "file"},
)


class PageArguments(Arguments, frozen=True, kw_only=True):
    number: Annotated[int, NUMBER] | None = None
    whole: Annotated[bool, WHOLE] = field(name="all", default=False)
    html: Annotated[str, HTML] | None = None


class PagePart(Struct, frozen=True, kw_only=True):
    """One message of the page. `folded` is its number if it stands for more than it shows, else
    0; `handle` names what it stands for, `native` is what its provider wrote in the place of the
    text."""

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
    whole: bool | UnsetType = UNSET


class Unfolded(Result, frozen=True, kw_only=True):
    """What stands behind a number."""

    conversation: str
    number: int
    handle: str
    text: str
    whole: bool | UnsetType = UNSET


class Browsable(Result, frozen=True, kw_only=True):
    """The file for a browser."""

    conversation: str
    file: str
    size_bytes: int


def run_page(session: Session, arguments: PageArguments) -> Page | Unfolded | Browsable:
    if arguments.html is not None:
        if arguments.number is not None:
            reason = "--html writes the whole conversation, not one folded part"
            raise Invalid(reason, hint="leave the number out, or --html")
        return _browsable(session, Path(arguments.html))
    with session.context() as context:
        if arguments.number is not None:
            found = _unfolded(context, arguments.number)
            return replace(found, whole=arguments.whole or UNSET)
        view = context.view
        return Page(
            conversation=context.id,
            system=readable_prompt(view.system),
            parts=tuple(_parts(context, view.slots)),
            tokens=context.stats().current,
            whole=arguments.whole or UNSET,
        )


def _browsable(session: Session, file: Path) -> Browsable:

    from refold.edges.displays.browser import MARK
    from refold.replay.page import write

    with session.context() as context:
        page = page_file(session.store, context)
    write(file, page, MARK)
    size = len(page.encode())
    return Browsable(conversation=context.id, file=str(file), size_bytes=size)


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
    """Who says it; what stands for others is a summary, or says only that they are hidden."""
    if not slot.standin:
        return slot.message.role
    return "summary" if slot.summary else "hidden"


def _unfolded(context: Context, wanted: int) -> Unfolded:
    """The originals of the folded part with that number; NotFound if there is none."""
    edited = [slot for slot in context.view.slots if slot.edits]
    if wanted > len(edited):
        there = number(len(edited), "folded part")
        raise NotFound(
            f"the page has {there}, but none with the number {wanted:,}", hint="refold page ID"
        )
    found = context.unfold(str(edited[wanted - 1].span))
    return Unfolded(conversation=context.id, number=wanted, handle=found.handle, text=found.text)


def show_page(result: Page | Unfolded | Browsable, screen: Screen) -> None:
    if isinstance(result, Browsable):
        size = number(result.size_bytes, "byte")
        screen.line(f"{result.conversation} is in {result.file} ({size}); open it in a browser.")
        return
    if result.whole is True:
        _show(result, screen)
        return
    with screen.paged():
        _show(result, screen)


def _show(result: Page | Unfolded, screen: Screen) -> None:
    if isinstance(result, Unfolded):
        screen.line(("bold", f"[{result.number}] {result.handle}"))
        screen.block(result.text)
        return
    if result.system:
        screen.line(("magenta", "system"))
        screen.block(result.system)
    for part in result.parts:
        _show_part(part, result.conversation, screen)
    folded = max((part.folded for part in result.parts), default=0)
    screen.line(
        ("bold", f"{number(len(result.parts), 'message')}, {number(result.tokens, 'token')}")
    )
    if folded:
        unfold = screen.call("page", result.conversation, "N")
        screen.line(f"{number(folded, 'folded part')}; unfold one with: {unfold}")


def _show_part(part: PagePart, conversation: str, screen: Screen) -> None:
    head = f"{part.role} {part.handle}"
    if part.folded:
        size = f" folded, {number(part.tokens, 'token')}"
        screen.line(("yellow", f"[{part.folded}] {head}"), ("dim", size))
    else:
        screen.line(("cyan", head))
    if part.native is not UNSET:
        show_native_part(part.native, screen)
    screen.block(part.text)


PAGE = Command(
    name="page",
    reads=True,
    arguments=PageArguments,
    run=run_page,
    show=show_page,
)


MESSAGES_MAX = 20_000


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


HANDLE = Meta(
    description="A message (#41), a span (#41-58) or an artifact (art-...).",
    extra={"positional": True, "metavar": "HANDLE", "completes": "handle"},
)
LEVEL = Meta(
    description="Show less: the summary, as a line or a paragraph; without one, the beginning."
)
LINES = Meta(description="Only these lines of it, counted from 1.", extra={"metavar": "A-B"})

Level = Literal["line", "paragraph", "full"]


class UnfoldArguments(Arguments, frozen=True, kw_only=True):
    handle: Annotated[str, HANDLE]
    level: Annotated[Level, LEVEL] = "full"
    lines: Annotated[str, LINES] | None = None


class CommandsUnfoldUnfolded(Result, frozen=True, kw_only=True):
    conversation: str
    handle: str
    level: str
    text: str
    asked: Level = "full"


def run_unfold(session: Session, arguments: UnfoldArguments) -> CommandsUnfoldUnfolded:
    span = None if arguments.lines is None else line_span(arguments.lines)
    with session.context() as context:
        found = context.unfold(arguments.handle, level=arguments.level, lines=span)
    return CommandsUnfoldUnfolded(
        conversation=context.id,
        handle=found.handle,
        level=found.level,
        text=found.text,
        asked=arguments.level,
    )


def show_unfold(unfolded: CommandsUnfoldUnfolded, screen: Screen) -> None:
    if unfolded.level != unfolded.asked:
        screen.note(f"{unfolded.handle} has no levels: this is all of it.")
    screen.line(unfolded.text)


UNFOLD = Command(
    name="unfold",
    reads=True,
    arguments=UnfoldArguments,
    run=run_unfold,
    show=show_unfold,
)
