"""The tool calls of messages with their results, and the results that are given as text, in order.

A result as text begins with a header, `[read_file for 'a'] Result:`. Neighbours: `file_mentions`
reads the headers, `actions` says what the calls did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from refold.core.model import Block, Message, Text, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.ledger.file_mentions import Header, content_start, header


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
