"""The tool calls of messages with their results, and the results that are given as text, in order.

A result as text begins with a header, `[read_file for 'a'] Result:`. Neighbours: `file_mentions`
reads the headers, `actions` says what the calls did.

The text of a tool result: without the envelope that some agents put around it, whether it was
cut, and which lines of a file it shows where they are numbered.

Neighbours: `outcomes` says how the call ended; `dedup` of the strategies compares results by this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from refold.core.model import Block, Message, Text, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.ledger.embedded_files import Header, content_start, header


class Call(Struct):
    """A call and, once it came, its result."""

    call: ToolCall
    seq: int
    block: int
    result: ToolResult | None = None
    result_seq: int = 0
    result_block: int = 0

    def answer(self, result: ToolResult, seq: int, block: int) -> None:
        self.result = result
        self.result_seq = seq
        self.result_block = block


class TextResult(Struct, frozen=True):
    """A result given as text: its header, and where its content is."""

    header: Header
    seq: int
    block: int
    content_block: int
    start: int
    output: str


def calls_in(messages: Iterable[tuple[int, Message]]) -> list[Call | TextResult]:
    """Calls with their results, and results given as text, in order; each message comes with its
    seq."""
    out: list[Call | TextResult] = []
    waiting: dict[str, Call] = {}
    for seq, message in messages:
        for index, block in enumerate(message.blocks):
            if isinstance(block, ToolCall):
                waiting[block.id] = call = Call(block, seq, index)
                out.append(call)
            elif isinstance(block, ToolResult) and block.call in waiting:
                waiting.pop(block.call).answer(block, seq, index)
            elif message.role in ("user", "tool") and isinstance(block, Text | ToolResult):
                out += _text_results(seq, index, message.blocks)
    return out


def _text_results(seq: int, index: int, blocks: Sequence[Block]) -> list[TextResult]:
    """The result that a text with a header gives; its content may be the next block."""
    text = text_of(blocks[index])
    found = header(text)
    if found is None:
        return []
    at, start = index, content_start(text, found)
    following = blocks[index + 1 : index + 2]
    if not text[start:].strip() and following and isinstance(following[0], Text):
        at, start, text = index + 1, 0, following[0].text
    return [TextResult(found, seq, index, at, start, text[start:])]


HEAD = 400  # characters in which an envelope begins
NOTES_MAX = 40  # lines that may stand before or after the numbered ones

_ENVELOPES = (("Output:\n", ""), ("<output>\n", "</output>"), ("<output>", "</output>"))
_CUT = (
    "output of your last command was too long", "tokens truncated", "chars truncated",
    "characters truncated", "lines truncated", "[truncated", "(truncated", "<truncated",
    "...truncated", "… truncated", "output truncated", "response clipped", "characters elided",
    "lines omitted", "content truncated", "file is truncated", "has been truncated",
    "elided_chars", "was truncated",
)  # fmt: skip
_CUT_HINTS = ("runcat", "too long", "clipped", "elided", "omitted")
_NUMBERED = re.compile(r"\s{0,12}(\d{1,7})(?:→|\t|: |:(?!\d)|\. |\.$| ?\|)")


def payload(text: str) -> str:
    """The output itself: without `Key: value` lines up to `Output:`, or the tags around it."""
    for opening, closing in _ENVELOPES:
        at = text.find(opening, 0, HEAD)
        if _opens_envelope(text, at, opening):
            end = text.rfind(closing) if closing else -1
            return text[at + len(opening) : end if end > at else len(text)]
    return text


def _opens_envelope(text: str, at: int, opening: str) -> bool:
    """Whether it was found, and stands where an envelope begins: a tag anywhere, else a line."""
    if at < 0:
        return False
    return at == 0 or text[at - 1] == "\n" or opening.startswith("<")


def is_cut(text: str) -> bool:
    """Whether the agent shortened the result before it came here."""
    if not any(hint in text for hint in _CUT_HINTS):
        return False
    lowered = text.lower()
    return any(sign in lowered for sign in _CUT)


def shown_lines(text: str) -> tuple[int, int] | None:
    """The first and last line number of a numbered text; None if it is not numbered."""
    first = _line_number(text, 0)
    if first is None:
        return None
    last = _last_number(text, first)
    if last is None:
        return None
    lines = text.count("\n")
    return (first, last) if lines - NOTES_MAX <= last - first <= lines else None


def _last_number(text: str, first: int) -> int | None:
    """The number of the last line that has one; notes may follow it."""
    end = len(text)
    for _ in range(NOTES_MAX):
        start = text.rfind("\n", 0, end) + 1
        last = _line_number(text, start)
        if last is not None and last >= first:
            return last
        if start == 0:
            break
        end = start - 1
    return None


def _line_number(text: str, at: int) -> int | None:
    match = _NUMBERED.match(text, at)
    return int(match[1]) if match else None
