"""The page in place of the client's list: the client's own messages wherever no edit is, and each
encoded once.

What was sent once is kept as bytes, so the next request begins with the same bytes as long as the
page only grew; a message that the client words anew without meaning anything by it goes out as it
did. Cache marks move at every call and are no part of what is compared: they are put on copies,
where the client has them now, so there are never more than it set. Neighbours: `observer` asks for
the page, `body` puts it into the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from refold.core.model import ToolResult, View
from refold.dialects.messages import PageMessage
from refold.edges.proxy.body import MARK, Mark, Wire
from refold.edges.proxy.roles import in_place

Seqs = tuple[int, ...]
_THINKING = frozenset({"thinking", "redacted_thinking"})


def is_own(view: View) -> bool:
    """Whether the page is the client's own list: no edit stands on it, and no result was moved out
    of it."""
    return not any(_edited(view))


def _has_stub(blocks: Sequence[object]) -> bool:
    return any(isinstance(block, ToolResult) and block.artifact for block in blocks)


class Encoded:
    """The messages that were sent last, each with its bytes."""

    def __init__(self) -> None:
        self._own: dict[Seqs, Wire] = {}  # the client's messages, as they were sent first
        self._wires: list[Wire] = []
        self.sent: list[bytes] = []  # without cache marks
        self.broke = False  # whether the last page changed what was sent before it

    def messages(
        self, view: View, shown: Sequence[PageMessage], places: Sequence[Seqs], own: Sequence[Wire]
    ) -> list[Wire]:
        """The messages of a page: the client's where no edit is, without thinking where the page
        has none, and as system what the client said so."""
        edited = set(_edited(view))
        place_of = {seq: at for at, place in enumerate(places) for seq in place}
        chosen: list[Wire] = []
        for one in shown:
            found = dict.fromkeys(place_of[seq] for seq in one.seqs if seq in place_of)
            is_whole = tuple(seq for at in found for seq in places[at]) == one.seqs
            if not found or not is_whole or not edited.isdisjoint(one.seqs):
                is_system = found and all(own[at].get("role") == "system" for at in found)
                chosen.append({**one.message, "role": "system"} if is_system else one.message)
                continue
            sent = [self._own.setdefault(places[at], own[at]) for at in found]
            chosen += sent if _thoughts([one.message]) == _thoughts(sent) else _unthought(sent, one)
        return in_place(chosen)

    def encode(self, wires: Sequence[Wire], marks: Sequence[Mark]) -> list[bytes]:
        """The messages of a page as bytes, marked where the client's list is."""
        same = _common(self._wires, wires)
        self.broke = same < len(self._wires)
        del self._wires[same:], self.sent[same:]
        self._wires += wires[same:]
        self.sent += map(msgspec.json.encode, wires[same:])
        sent = list(self.sent)
        for mark in marks:
            place = len(wires) - mark.from_end
            if place >= 0 and (marked := _marked(wires[place], mark)) is not None:
                sent[place] = msgspec.json.encode(marked)
        return sent


def _edited(view: View) -> Iterator[int]:
    """The seqs of what is not on the page as the client sent it."""
    for slot in view.slots:
        if slot.edits or slot.summary or _has_stub(slot.message.blocks):
            yield from range(slot.seq, slot.last + 1)


def _thoughts(messages: Sequence[Wire]) -> int:
    return sum(map(_is_thinking, (block for one in messages for block in _blocks(one))))


def _blocks(message: Wire) -> Sequence[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _is_thinking(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _THINKING


def _unthought(sent: Sequence[Wire], shown: PageMessage) -> list[Wire]:
    """The client's messages without their thinking; as the page has it, if nothing else is in
    them."""
    left = [
        {**one, "content": [block for block in _blocks(one) if not _is_thinking(block)]}
        if _blocks(one)
        else one
        for one in sent
    ]
    return left if all(one.get("content") != [] for one in left) else [shown.message]


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
    return isinstance(block, dict) and block.get("type") not in _THINKING
