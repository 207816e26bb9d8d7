"""`refold page`: the page as the model reads it, with what is folded marked by a number.

`refold page ID 2` unfolds the second of them: what stood there before. Numbers count from the top
of the page, so they hold until the page changes. Neighbours: `show` names every edit, `unfold`
takes a handle. On a terminal it stops at every full screen, unless `--all` is given. With `--html`
it is a file for a browser, with every message, what is folded behind a click.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from refold.core.model import Slot
from refold.dialects.system import readable_prompt
from refold.display import number
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.native_part import NativePart, native_part, show_native_part
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.log.unfold import body_text

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


def run(session: Session, arguments: PageArguments) -> Page | Unfolded | Browsable:
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
    from refold.edges.commands.page_file import page_file
    from refold.edges.displays.browser import MARK
    from refold.replay.document import write

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


def show(result: Page | Unfolded | Browsable, screen: Screen) -> None:
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


COMMAND = Command(
    name="page",
    reads=True,
    arguments=PageArguments,
    run=run,
    show=show,
)
