"""A part of the page that its provider wrote: what the model gets, beside the text for all others.

The fold shows such a part by its text, which every reader can have; the provider's own models get
what it wrote instead, which may be sealed. Neighbours: `page`, `page_file` and `show` show it,
`dialects.native` knows how it is said.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from refold import dialects
from refold.core.model import Native, Slot
from refold.dialects.native import readable
from refold.edges.commands.command import Screen
from refold.edges.commands.text import number, short_line
from refold.edges.displays.timeline import Written
from refold.engine.context import Context

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
