"""Messages for reading, as plain values: the beginning of one in a line, or its blocks.

Content is data. Every string is shown with its invisible and steering characters as escapes, and
without secrets unless a person asks for one message as it came. A long text is cut, and says by how
much. Neighbours: `conversation` reads the log, `static/message.js` draws blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from refold.core.call_arguments import arguments_object, arguments_text
from refold.core.model import (
    Block,
    Hide,
    Media,
    Message,
    Opaque,
    Summarize,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import ERASED, quoted_seqs, summary_text, text_of
from refold.display import cut, one_line, visible, without_colors
from refold.redaction import Redact

BRIEF_CHARS, READ_CHARS = 320, 2_000
TEXT_CHARS = 200_000
DEPTH_MAX = 6
# Lines of a summary's own text that name a message; quoted lines are indented.
_NAMED = re.compile(r"(?:- )?#(\d{1,15})\b")
# Arguments that say best what a call does, in the order of preference.
TELLING = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "prompt", "input")


def brief(message: Message | None, redact: Redact) -> str:
    """The beginning of a message on one line."""
    if message is None:
        return ERASED
    parts: list[str] = []
    calls = sum(isinstance(block, ToolCall) for block in message.blocks)
    for block in message.blocks:
        match block:
            case ToolCall():  # the name of the first one is shown beside the line
                parts.append(_said(block) if calls == 1 else f"{block.name} {_said(block)}")
            case Opaque() | Thinking() if not text_of(block):
                parts.append("(reasoning that only its provider can read)")
            case Media():
                parts.append(f"({block.mime or block.media})")
            case _:
                parts.append(text_of(block)[: 4 * READ_CHARS])
    text = one_line(without_colors("  ".join(parts))[:READ_CHARS])
    return visible(cut(redact(text), BRIEF_CHARS))


def _said(call: ToolCall) -> str:
    """The argument that says what the call does, or all of them."""
    given = arguments_object(call)
    if given is None:
        return arguments_text(call)
    for name in TELLING:
        if given.get(name):
            value = given[name]
            return " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text_of(call)


def blocks(message: Message | None, redact: Redact, most: int = TEXT_CHARS) -> list[dict[str, Any]]:
    """The blocks of a message, with at most this many characters of each text."""
    if message is None:
        return [{"type": "text", "text": ERASED}]
    return [_block(block, redact, most) for block in message.blocks]


def _block(block: Block, redact: Redact, most: int) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", **shown(block.text, redact, most)}
        case Thinking():
            return {"type": "thinking", **shown(block.text, redact, most)}
        case ToolCall():
            given = arguments_object(block)
            arguments = _plain(block.arguments if given is None else given, redact, most)
            name = visible(block.name)
            return {"type": "call", "name": name, "id": visible(block.id), "arguments": arguments}
        case ToolResult():
            media = sum(isinstance(part, Media) for part in block.content)
            return {
                "type": "result",
                "call": visible(block.call),
                "failed": block.is_error,
                "artifact": block.artifact,
                "media": media,
                **shown(text_of(block), redact, most),
            }
        case Media():
            return {"type": "media", "text": visible(block.name or block.mime or block.media)}
        case Opaque():
            return {"type": "opaque", **shown(text_of(block), redact, most)}
        case _:
            assert_never(block)


def shown(text: str, redact: Redact, most: int) -> dict[str, Any]:
    """A text for a page, and the number of characters left out of it."""
    left_out = max(0, len(text) - most)
    value: dict[str, Any] = {"text": safe(text[:most], redact)}
    return value | {"left_out": left_out} if left_out else value


def safe(text: str, redact: Redact) -> str:
    """A text without secrets, colors, and characters that steer or hide."""
    return visible(redact(without_colors(text)))


def _plain(value: Any, redact: Redact, most: int, depth: int = DEPTH_MAX) -> Any:
    """The arguments of a call, with every string made safe."""
    if isinstance(value, str):
        left_out = max(0, len(value) - most)
        return safe(value[:most], redact) + (f" … {left_out:,} more characters" * bool(left_out))
    if depth == 0 and isinstance(value, Mapping | list):
        return safe(msgspec.json.encode(value).decode()[:READ_CHARS], redact)
    if isinstance(value, Mapping):
        return {
            safe(str(name), redact): _plain(one, redact, most, depth - 1)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(one, redact, most, depth - 1) for one in value]
    return value


def lines_of(edit: Hide | Summarize) -> list[tuple[int, str]]:
    """The lines of a stand-in, each with the message that it names, or 0. What a model wrote, and
    quoted lines, name nothing."""
    if isinstance(edit, Hide):
        return [(0, line) for line in edit.notice.split("\n")] if edit.notice else []
    known, lines = quoted_seqs(edit), []
    said = set(edit.prose.words.split("\n")) if edit.prose else set()
    for line in summary_text(edit).split("\n"):
        found = _NAMED.match(line)
        seq = int(found[1]) if found and line not in said else 0
        lines.append((seq if seq in known else 0, line))
    return lines
