"""The page in place of the client's list: the client's own messages wherever no edit is, and each
encoded once.

What was sent once is kept as bytes, so the next request begins with the same bytes as long as the
page only grew; a message that the client words anew without meaning anything by it goes out as it
did. Cache marks move at every call and are no part of what is compared: they are put on copies,
where the client has them now, so there are never more than it set. Neighbours: `observer` asks for
the page, `body` puts it into the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from refold import dialects
from refold.artifacts.offload import is_own as is_own_tool
from refold.core.model import Message, ToolCall, ToolResult, View
from refold.dialects.messages import PageMessage, unmarked
from refold.edges.proxy.body import MARK, Mark, Wire, is_answer
from refold.edges.proxy.roles import in_place

Seqs = tuple[int, ...]
Inner = Mapping[int, Sequence[Wire]]  # by its place in the list, what was said for one message
_THINKING = frozenset({"thinking", "redacted_thinking"})


def is_own(view: View, places: Sequence[Seqs]) -> bool:
    """Whether the page is the client's own list: no edit stands on it, none of its messages was
    taken off, and no result was moved out of it."""
    there = {slot.seq for slot in view.slots}
    return not any(_edited(view)) and all(map(there.issuperset, places))


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
            # What the page puts in beside a message has its seq, and is of the other side.
            is_put_in = any(is_answer(own[at]) != is_answer(one.message) for at in found)
            if not found or not is_whole or is_put_in or not edited.isdisjoint(one.seqs):
                is_system = found and all(own[at].get("role") == "system" for at in found)
                chosen.append({**one.message, "role": "system"} if is_system else one.message)
                continue
            sent = [self._own.setdefault(places[at], own[at]) for at in found]
            chosen += sent if _thoughts([one.message]) == _thoughts(sent) else _unthought(sent, one)
        return in_place(chosen)

    def as_it_came(
        self, view: View, places: Sequence[Seqs], own: Sequence[Wire], inner: Inner, dialect: str
    ) -> list[Wire] | None:
        """The client's list, with all that was said in the place of a message of which the client
        has less; None if the page shows anything else."""
        slots = {slot.seq: slot for slot in view.slots}
        has_edits = any(slot.edits or slot.summary for slot in view.slots)
        if has_edits or slots.keys() != {seq for place in places for seq in place}:
            return None
        ours = _own_calls(view)
        chosen: list[Wire] = []
        is_inside = False  # what was chosen last
        for at, (place, message) in enumerate(zip(places, own, strict=True)):
            was_inside = is_inside
            said = [slots[seq].message for seq in place]
            is_inside = any(_is_inside(one, ours) for one in said)
            if is_inside or _has_stub([block for one in said for block in one.blocks]):
                wires = inner.get(at) or _rendered(said, dialect)
            else:
                wires = [self._own.setdefault(place, message) if place else message]
            if was_inside and _are_results(chosen[-1], wires[0]):
                parts = [*chosen.pop()["parts"], *wires[0]["parts"]]
                wires = [{**wires[0], "parts": parts}, *wires[1:]]
            chosen += wires
        return chosen

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


def _own_calls(view: View) -> set[str]:
    """The ids of the calls of our tools."""
    blocks = (block for slot in view.slots for block in slot.message.blocks)
    return {one.id for one in blocks if isinstance(one, ToolCall) and is_own_tool(one.name)}


def _is_inside(message: Message, ours: set[str]) -> bool:
    """Whether a message calls our tools, or has what they gave."""
    return any(
        (isinstance(block, ToolCall) and block.id in ours)
        or (isinstance(block, ToolResult) and block.call in ours)
        for block in message.blocks
    )


def _rendered(said: Sequence[Message], dialect: str) -> list[Wire]:
    wires = dialects.dialect(dialect).render(list(map(unmarked, said)), [])
    return [{key: value for key, value in one.items() if key != dialects.REASONED} for one in wires]


def _are_results(one: Wire, other: Wire) -> bool:
    """Whether two contents are of one user: Gemini takes what parallel calls gave as one."""
    return "parts" in one and one.get("role") == other.get("role") == "user"


def has_thoughts_of(wires: Sequence[Wire], other: Sequence[Wire]) -> bool:
    """Whether two lists have as many thoughts."""
    return sum(map(_thoughts_in, wires)) == sum(map(_thoughts_in, other))


def _thoughts_in(wire: Wire) -> int:
    parts = wire.get("parts")
    thought = [one for one in parts or () if isinstance(one, dict) and one.get("thought") is True]
    is_item = wire.get("type") == "reasoning"
    return len(thought) + is_item + bool(wire.get("reasoning_content"))


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
