"""Calls that Anthropic runs itself (web search, code execution, MCP), with results in the answer.

A call may wait for its result: the provider completes it when the answer is sent back unchanged, or
with the results of the caller's tools. After any other words from the user, it stays incomplete,
and the provider refuses it, as it does a result without its call. Both are sent as text.
Neighbours: `request` sees the whole page; `check` has the same rule, written independently.
"""

from __future__ import annotations

from typing import Any

from refold.core.laws import told
from refold.core.model import ToolCall
from refold.dialects.anthropic.cache_marks import MARK
from refold.dialects.input import text_in
from refold.dialects.wire import EMPTY, objects_in, refused_text, report

Wire = dict[str, Any]


def closed(messages: list[Wire], lost: list[str]) -> list[Wire]:
    """The messages, changed on copies: text in place of calls of earlier turns that have no result,
    and of results without their call."""
    # One walk without calls, because this runs for every page.
    contents = [content for wire in messages if type(content := wire.get("content")) is list]
    kinds = {part.get("type") for content in contents for part in content}
    if not any(is_call(kind) or is_result(kind) for kind in kinds):
        return messages
    page = messages
    first, turn = 0, _Turn()
    for index, message in enumerate(messages):
        content = message.get("content")
        blocks: list[Any] = content if type(content) is list else []
        if message.get("role") == "assistant":
            turn.read(index, blocks)
        elif type(content) is str or any(block.get("type") != "tool_result" for block in blocks):
            page = turn.closed(page, lost, is_over=True)
            first, turn = index + 1, _Turn()
    return turn.closed(page, lost, is_over=False) if first < len(messages) else page


def is_waiting(message: Wire) -> bool:
    """Whether an answer paused in a tool of the provider, and continues if it is sent back."""
    turn = _Turn()
    blocks = objects_in(message.get("content"))
    turn.read(0, blocks)
    kind = blocks[-1].get("type") if blocks else ""
    return bool(turn.waiting) or is_call(kind) or is_result(kind)


def is_call(kind: Any) -> bool:
    """Whether this is the type of a call that the provider runs."""
    return isinstance(kind, str) and kind.endswith("_tool_use")


def is_result(kind: Any) -> bool:
    """Whether this is the type of a result of the provider's own tool."""
    return isinstance(kind, str) and kind.endswith("_tool_result")


class _Turn:
    """The answers up to the user's next words. `waiting` and `stray` are positions of calls without
    a result, by id, and of results without a call."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[int, int]] = {}
        self.stray: list[tuple[int, int]] = []

    def read(self, index: int, blocks: list[Any]) -> None:
        for at, block in enumerate(blocks):
            kind = block.get("type")
            if is_call(kind):
                self.waiting[str(block.get("id"))] = index, at
            elif is_result(kind) and self.waiting.pop(str(block.get("tool_use_id")), None) is None:
                self.stray.append((index, at))

    def closed(self, page: list[Wire], lost: list[str], *, is_over: bool) -> list[Wire]:
        """The page with text in place of these blocks; calls of a turn that is not over stay."""
        places = sorted([*self.stray, *(self.waiting.values() if is_over else ())])
        if not places:
            return page
        page = list(page)
        for index in dict.fromkeys(index for index, _ in places):
            blocks = [
                _as_text(block, lost) if (index, at) in places else block
                for at, block in enumerate(page[index]["content"])
            ]
            blocks = [block for block in blocks if block is not None]
            content = blocks or [{"type": "text", "text": EMPTY}]
            page[index] = {**page[index], "content": content}
        return page


def _as_text(block: Wire, lost: list[str]) -> Wire | None:
    """The block as text; None for a result that has no text."""
    if is_call(block["type"]):
        name = text_in(block, "name") or block["type"]
        call = ToolCall(str(block.get("id")), name, block.get("input") or {})
        text = told(call, "incomplete call").text
        report(lost, f"the call {call.id} of {name}, which has no result, is sent as text")
    else:
        text = refused_text(block, "anthropic", lost)
    mark = {MARK: block[MARK]} if MARK in block else {}
    return {"type": "text", "text": text, **mark} if text.strip() else None
