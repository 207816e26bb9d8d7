"""A part of the page as quoted data for a writer: plain text between marks that it cannot contain.

Tool calls and results become text, long ones lose their middle, media become placeholders, thinking
is left out, a call without a result gets one that says so. Secrets go before anything is cut, or
half of one could stay. An earlier summary is on the page like any message, so it is part of what is
quoted, the lines of a gist included. What code counts (which tool was used how often) goes in as
data as well. Neighbour: `asker` puts the question after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from refold.core.arguments import arguments_text
from refold.core.laws import settled
from refold.core.model import Block, Media, Slot, Thinking, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.display import cut, one_line
from refold.ledger.uses import tools_used

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
    names = _tool_names(ordered)
    texts = [_slot_text(slot, names, redact) for slot in ordered]
    uses = tool_uses(slots, redact)
    if uses:
        texts.append("\n".join(["Tools used, counted by code:", *uses]))
    return texts


def _tool_names(slots: Iterable[Slot]) -> dict[str, str]:
    """The names of the tools that were called, by the id of the call."""
    blocks = [block for slot in slots for block in slot.message.blocks]
    return {block.id: block.name for block in blocks if isinstance(block, ToolCall)}


def tool_uses(slots: Sequence[Slot], redact: Redact) -> list[str]:
    """A line per tool: how often it was called, and its notable uses."""
    lines: list[str] = []
    for name, used in islice(tools_used(slots).items(), TOOLS_SHOWN):
        uses = "; ".join(use_lines(used.notable, redact))
        lines.append(f"- {name} ×{used.count}" + (f": {uses}" if uses else ""))
    return lines


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
    end = room // 2
    return text[: room - end] + note + text[len(text) - end :]


def without_base64(text: str) -> str:
    """The text with encoded bytes replaced by a placeholder: they tell a writer nothing and cost
    much."""
    text = _DATA_URL.sub("[encoded data left out]", text)
    return _BASE64.sub(_placeholder, text)


def _placeholder(match: re.Match[str]) -> str:
    run = match[0]
    is_encoded = all(any(map(test, run)) for test in (str.isdigit, str.isupper, str.islower))
    return f"[{len(run):,} characters of encoded data left out]" if is_encoded else run


def _label(slot: Slot) -> str:
    if slot.standin:
        return f"{slot.seq} earlier summary of {slot.span}"
    return f"{slot.seq} {slot.message.role}"


def _slot_text(slot: Slot, names: dict[str, str], redact: Redact) -> str:
    blocks = [block for block in slot.message.blocks if not isinstance(block, Thinking)]
    texts = filter(None, (_block_text(block, names, redact) for block in blocks))
    shown = "\n".join(texts) or "[nothing that can be shown as text]"
    return f"#{_label(slot)}:\n{shown}"


def _block_text(block: Block, names: dict[str, str], redact: Redact) -> str:
    match block:
        case ToolCall():
            arguments = _clean_text(arguments_text(block), RESULT_CHARS_MAX, redact)
            return f"[tool call {block.name}]\n{arguments}"
        case ToolResult():
            name = block.name or names.get(block.call, "") or "a tool"
            return _result_text(block, name, redact)
        case Media():
            return _media_text(block)
        case _:
            return _clean_text(text_of(block), TEXT_CHARS_MAX, redact)


def _result_text(block: ToolResult, name: str, redact: Redact) -> str:
    """A result under the name of its tool, with a placeholder for each of its media."""
    state = " (error)" if block.is_error else ""
    text = _clean_text(text_of(block), RESULT_CHARS_MAX, redact)
    media = "".join(_media_text(part) for part in block.content if isinstance(part, Media))
    return f"[result of {name}{state}]\n{text}{media}"


def _clean_text(text: str, size: int, redact: Redact) -> str:
    return shortened(without_base64(redact(text)), size)


def _media_text(block: Media) -> str:
    about = " ".join(filter(None, (block.media, block.mime, block.name)))
    return f"[{about}: not shown]"
