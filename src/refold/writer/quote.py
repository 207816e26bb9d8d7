"""A part of the page as quoted data for a writer: plain text between marks that it cannot contain.

Tool calls and results become text, long ones lose their middle, media become placeholders, thinking
is left out, a call without a result gets one that says so. Secrets go before anything is cut, or
half of one could stay. An earlier summary is on the page like any message, so it is part of what is
quoted, the lines of a gist included. What code counts (which tool was used how often) goes in as
data too. Neighbour: `asking` puts the question behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from refold.core.fold import text_of
from refold.core.laws import settled
from refold.core.model import Block, Media, Slot, Thinking, ToolCall, ToolResult
from refold.display import cut, one_line
from refold.ledger.uses import arguments_text, tools_used

RESULT_CHARS_MAX = 2_000
TEXT_CHARS_MAX = 12_000
USE_CHARS = 120
TOOLS_SHOWN = 30

_DATA_URL = re.compile(r"data:[\w/+.-]{1,100};base64,[A-Za-z0-9+/=_-]{1,10000000}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{400,}={0,2}")

Redact = Callable[[str], str]


def quoted(slots: Sequence[Slot], redact: Redact) -> list[str]:
    """Each message as a text of its own, in lawful order, under its #seq."""
    ordered, _ = settled(slots, opens=False)
    names = {
        block.id: block.name
        for slot in ordered
        for block in slot.message.blocks
        if isinstance(block, ToolCall)
    }
    texts = [f"#{_label(slot)}:\n{_words(slot, names, redact)}" for slot in ordered]
    uses = tool_uses(slots, redact)
    return [*texts, "\n".join(["Tools used, counted by code:", *uses])] if uses else texts


def tool_uses(slots: Sequence[Slot], redact: Redact) -> list[str]:
    """A line per tool: how often it was called, and the uses worth a word."""
    most = list(tools_used(slots).items())[:TOOLS_SHOWN]
    told = [(name, used.count, use_lines(used.notable, redact)) for name, used in most]
    return [
        f"- {name} ×{count}" + (f": {'; '.join(uses)}" if uses else "")
        for name, count, uses in told
    ]


def use_lines(uses: Sequence[str], redact: Redact) -> list[str]:
    """Uses of a tool, each as one short line, none twice."""
    lines = [one_line(without_base64(redact(use))) for use in uses]
    return list(dict.fromkeys(cut(line, USE_CHARS) for line in lines))


def shortened(text: str, size: int) -> str:
    """A text that is too long without its middle."""
    if len(text) <= size:
        return text
    note = f"\n… [{len(text) - size:,}+ characters left out] …\n"
    room = max(2, size - len(note))
    return text[: room - room // 2] + note + text[len(text) - room // 2 :]


def without_base64(text: str) -> str:
    """The text with encoded bytes replaced by a placeholder: they tell a writer nothing and cost
    much."""
    text = _DATA_URL.sub("[encoded data left out]", text)
    return _BASE64.sub(_placeholder, text)


def _placeholder(match: re.Match[str]) -> str:
    run = match[0]
    varied = (
        any(map(str.isdigit, run)) and any(map(str.isupper, run)) and any(map(str.islower, run))
    )
    return f"[{len(run):,} characters of encoded data left out]" if varied else run


def _label(slot: Slot) -> str:
    if slot.standin:
        return f"{slot.seq} earlier summary of {slot.span}"
    return f"{slot.seq} {slot.message.role}"


def _words(slot: Slot, names: dict[str, str], redact: Redact) -> str:
    parts = [
        _block(block, names, redact)
        for block in slot.message.blocks
        if not isinstance(block, Thinking)
    ]
    return "\n".join(part for part in parts if part) or "[nothing that can be shown as text]"


def _block(block: Block, names: dict[str, str], redact: Redact) -> str:
    match block:
        case ToolCall():
            return f"[tool call {block.name}]\n{_clean(arguments_text(block), RESULT_CHARS_MAX, redact)}"
        case ToolResult():
            name = block.name or names.get(block.call, "")
            state = " (error)" if block.is_error else ""
            media = "".join(_media(part) for part in block.content if isinstance(part, Media))
            return f"[result of {name or 'a tool'}{state}]\n{_clean(text_of(block), RESULT_CHARS_MAX, redact)}{media}"
        case Media():
            return _media(block)
        case _:
            return _clean(text_of(block), TEXT_CHARS_MAX, redact)


def _clean(text: str, size: int, redact: Redact) -> str:
    return shortened(without_base64(redact(text)), size)


def _media(block: Media) -> str:
    about = " ".join(part for part in (block.media, block.mime, block.name) if part)
    return f"[{about}: not shown]"
