"""The page in place of the client's list: each message encoded once, and the client's cache marks.

What was sent once is kept as bytes, so the next request begins with the same bytes as long as the
page only grew. Cache marks move at every call and are no part of what is compared: they are put
on copies, where the client has them now, so there are never more than it set. Neighbours:
`observer` asks for the page, `body` puts it into the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from refold.core.model import ToolResult, View
from refold.edges.proxy.body import MARK, Mark, Wire

_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


def is_own(view: View) -> bool:
    """Whether the page is the client's own list: no edit stands on it, and no result was moved out
    of it."""
    return not any(
        slot.edits or slot.summary or _has_stub(slot.message.blocks) for slot in view.slots
    )


def _has_stub(blocks: Sequence[object]) -> bool:
    return any(isinstance(block, ToolResult) and block.artifact for block in blocks)


class Encoded:
    """The messages that were sent last, each with its bytes."""

    def __init__(self) -> None:
        self._wires: list[Wire] = []
        self.sent: list[bytes] = []  # without cache marks

    def encode(self, wires: Sequence[Wire], marks: Sequence[Mark]) -> list[bytes]:
        """The messages of a page as bytes, marked where the client's list is."""
        same = _common(self._wires, wires)
        del self._wires[same:], self.sent[same:]
        self._wires += wires[same:]
        self.sent += map(msgspec.json.encode, wires[same:])
        sent = list(self.sent)
        for mark in marks:
            place = len(wires) - mark.from_end
            if place >= 0 and (marked := _marked(wires[place], mark)) is not None:
                sent[place] = msgspec.json.encode(marked)
        return sent


def _common(before: Sequence[Wire], now: Sequence[Wire]) -> int:
    """How many messages two lists have in common at their beginning."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))


# --- cache marks ---


def _marked(wire: Wire, mark: Mark) -> Wire | None:
    """A copy of the message with the mark; None where it cannot have one."""
    content = wire.get("content")
    if isinstance(content, str) and content:
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return None
    places = [at for at, block in enumerate(content) if _can_be_marked(block)]
    if not places:
        return None
    place = mark.block if mark.block in places else places[-1]
    blocks = [
        {**block, MARK: mark.says} if at == place else block for at, block in enumerate(content)
    ]
    return {**wire, "content": blocks}


def _can_be_marked(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") not in _UNMARKABLE
