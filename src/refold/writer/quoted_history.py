"""The history as a writer reads it.

Messages are quoted as plain text: long tool calls and results lose their middle, media become
placeholders, thinking is left out. Text is redacted before it is cut, so that no part of a secret
remains. Counts of tool uses are added as data. Neighbours: `asker` asks with it, `answer_check`
judges the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice

from refold.core.call_arguments import arguments_text
from refold.core.laws import settled
from refold.core.model import Block, Media, Slot, Thinking, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.display import cut, one_line
from refold.ledger.ledger import tools_used
from refold.patterns import regex

RESULT_CHARS_MAX = 2_000
TEXT_CHARS_MAX = 12_000
USE_CHARS = 120
TOOLS_SHOWN = 30

_DATA_URL = regex(r"data:[\w/+.-]{1,100};base64,[A-Za-z0-9+/=_-]{1,10000000}")
_BASE64 = regex(r"[A-Za-z0-9+/_-]{400,}={0,2}")

Redact = Callable[[str], str]


def quoted(slots: Sequence[Slot], redact: Redact) -> list[str]:
    """The text of each message, in lawful order, with its #seq as a heading."""
    ordered, _ = settled(slots, opens=False)
    blocks = [block for slot in ordered for block in slot.message.blocks]
    names = {block.id: block.name for block in blocks if isinstance(block, ToolCall)}
    texts = [_slot_text(slot, names, redact) for slot in ordered]
    uses = tool_uses(slots, redact)
    if uses:
        texts.append("\n".join(["Tools used, counted by code:", *uses]))
    return texts


def tool_uses(slots: Sequence[Slot], redact: Redact) -> list[str]:
    """A line per tool: the number of calls, and notable calls."""
    lines: list[str] = []
    for name, used in islice(tools_used(slots).items(), TOOLS_SHOWN):
        uses = "; ".join(use_lines(used.notable, redact))
        lines.append(f"- {redact(name)} ×{used.count}" + (f": {uses}" if uses else ""))
    return lines


def use_lines(uses: Sequence[str], redact: Redact) -> list[str]:
    """Uses of a tool, each as one short line, without duplicates."""
    lines = [one_line(without_base64(redact(use))) for use in uses]
    return list(dict.fromkeys(cut(line, USE_CHARS) for line in lines))


def shortened(text: str, size: int) -> str:
    """The text; if it is long, without its middle."""
    if len(text) <= size:
        return text
    note = f"\n… [{len(text) - size:,}+ characters left out] …\n"
    room = max(2, size - len(note))
    end = room // 2
    return text[: room - end] + note + text[len(text) - end :]


def without_base64(text: str) -> str:
    """The text with base64 replaced by a placeholder, because it is useless to a writer and
    expensive."""
    text = _DATA_URL.sub("[encoded data left out]", text)
    return _BASE64.sub(_placeholder, text)


def _placeholder(match: re.Match[str]) -> str:
    run = match[0]
    is_encoded = all(any(map(test, run)) for test in (str.isdigit, str.isupper, str.islower))
    return f"[{len(run):,} characters of encoded data left out]" if is_encoded else run


def _slot_text(slot: Slot, names: dict[str, str], redact: Redact) -> str:
    blocks = [block for block in slot.message.blocks if not isinstance(block, Thinking)]
    texts = filter(None, (_block_text(block, names, redact) for block in blocks))
    shown = "\n".join(texts) or "[nothing that can be shown as text]"
    label = f"earlier summary of {slot.span}" if slot.standin else slot.message.role
    return f"#{slot.seq} {label}:\n{shown}"


def _block_text(block: Block, names: dict[str, str], redact: Redact) -> str:
    match block:
        case ToolCall():
            arguments = _clean_text(arguments_text(block), RESULT_CHARS_MAX, redact)
            return f"[tool call {redact(block.name)}]\n{arguments}"
        case ToolResult():
            name = block.name or names.get(block.call, "") or "a tool"
            state = " (error)" if block.is_error else ""
            text = _clean_text(text_of(block), RESULT_CHARS_MAX, redact)
            shown = (part for part in block.content if isinstance(part, Media))
            media = "".join(_media_text(part, redact) for part in shown)
            return f"[result of {redact(name)}{state}]\n{text}{media}"
        case Media():
            return _media_text(block, redact)
        case _:
            return _clean_text(text_of(block), TEXT_CHARS_MAX, redact)


def _clean_text(text: str, size: int, redact: Redact) -> str:
    return shortened(without_base64(redact(text)), size)


def _media_text(block: Media, redact: Redact) -> str:
    about = " ".join(filter(None, (block.media, block.mime, block.name)))
    return f"[{redact(about)}: not shown]"
