"""The page in place of the client's list: the client's own messages wherever there is no edit, each
encoded once.

Messages are kept as the bytes first sent, so the next request begins with the same bytes as long as
the page only grew, even if the client rewords one without changing its meaning. Cache marks move at
every call: they are put on copies, where the client has them now. Roles follow the client's list:
where its messages alternate, ours do, since some gateways refuse two user messages in a row; a
system message inside the list stays one where the provider accepts it.

Thinking that the provider refuses, because it belongs to another front, is removed once more from
the client's own list. Neighbours: `observer` asks for the page, `body` puts it into the request,
`app` sends without thinking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from refold import decoding, dialects
from refold.artifacts.intake import is_own as is_own_tool
from refold.core.model import Message, ToolCall, ToolResult, View
from refold.dialects.anthropic.request import with_loops_said
from refold.dialects.page import PageMessage, unmarked
from refold.edges.proxy.body import MARK, Mark, ParsedCall, Wire, is_answer
from refold.tokens.models import model_info

Seqs = tuple[int, ...]
Inner = Mapping[int, Sequence[Wire]]  # by position in the list: all messages of a turn
_THINKING = frozenset({"thinking", "redacted_thinking"})


def is_own(view: View, places: Sequence[Seqs]) -> bool:
    """Whether the page is the client's own list: without edits, with all its messages and whole
    results."""
    there = {slot.seq for slot in view.slots}
    return not any(_edited(view)) and all(map(there.issuperset, places))


def _has_stub(blocks: Sequence[object]) -> bool:
    return any(isinstance(block, ToolResult) and block.artifact for block in blocks)


class Encoded:
    """The messages sent last, each with its bytes."""

    def __init__(self) -> None:
        self._own: dict[Seqs, Wire] = {}  # the client's messages as first sent
        self._wires: list[Wire] = []
        self.sent: list[bytes] = []  # without cache marks
        self.broke = False  # whether the last page changed bytes sent before

    def messages(
        self, view: View, shown: Sequence[PageMessage], places: Sequence[Seqs], own: Sequence[Wire]
    ) -> list[Wire]:
        """The messages of a page: the client's own if unedited, without thinking where the page has
        none, and with the client's system messages."""
        edited = set(_edited(view))
        place_of = {seq: at for at, place in enumerate(places) for seq in place}
        chosen: list[Wire] = []
        for one in shown:
            found = dict.fromkeys(place_of[seq] for seq in one.seqs if seq in place_of)
            is_whole = tuple(seq for at in found for seq in places[at]) == one.seqs
            # A message that the page inserts has the seq of its neighbour and the other role.
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
        """The client's list, with all rounds in place of a message of which the client sees only a
        part; None if the page shows anything else."""
        slots = {slot.seq: slot for slot in view.slots}
        has_edits = any(slot.edits or slot.summary for slot in view.slots)
        if has_edits or slots.keys() != {seq for place in places for seq in place}:
            return None
        ours = _own_calls(view)
        chosen: list[Wire] = []
        is_inside = False  # the message chosen last
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
        """The messages of a page as bytes, with the cache marks of the client's list."""
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
    """The seqs of messages that differ from what the client sent."""
    for slot in view.slots:
        if slot.edits or slot.summary or _has_stub(slot.message.blocks):
            yield from range(slot.seq, slot.last + 1)


def _own_calls(view: View) -> set[str]:
    """The ids of the calls of our tools."""
    blocks = (block for slot in view.slots for block in slot.message.blocks)
    return {one.id for one in blocks if isinstance(one, ToolCall) and is_own_tool(one.name)}


def _is_inside(message: Message, ours: set[str]) -> bool:
    """Whether a message calls our tools, or has their results."""
    return any(
        (isinstance(block, ToolCall) and block.id in ours)
        or (isinstance(block, ToolResult) and block.call in ours)
        for block in message.blocks
    )


def _rendered(said: Sequence[Message], dialect: str) -> list[Wire]:
    wires = dialects.dialect(dialect).render(list(map(unmarked, said)), [])
    return [{key: value for key, value in one.items() if key != dialects.REASONED} for one in wires]


def _are_results(one: Wire, other: Wire) -> bool:
    """Whether two contents belong to one user message: Gemini takes parallel results as one."""
    return "parts" in one and one.get("role") == other.get("role") == "user"


def has_thoughts_of(wires: Sequence[Wire], other: Sequence[Wire]) -> bool:
    """Whether two lists have the same number of thoughts."""
    return sum(map(_thoughts_in, wires)) == sum(map(_thoughts_in, other))


def _thoughts_in(wire: Wire) -> int:
    parts = wire.get("parts")
    thought = [one for one in parts or () if isinstance(one, dict) and one.get("thought") is True]
    is_item = wire.get("type") == "reasoning"
    return len(thought) + is_item + bool(wire.get("reasoning_content"))


def _thoughts(messages: Sequence[Wire]) -> int:
    return sum(map(is_thinking, (block for one in messages for block in _blocks(one))))


def _blocks(message: Wire) -> Sequence[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def is_thinking(block: Any) -> bool:
    """Whether a block of the Messages API is thinking."""
    return isinstance(block, dict) and block.get("type") in _THINKING


def _unthought(sent: Sequence[Wire], shown: PageMessage) -> list[Wire]:
    """The client's messages without their thinking; the page's own, if nothing else is in them."""
    left = [
        {**one, "content": [block for block in _blocks(one) if not is_thinking(block)]}
        if _blocks(one)
        else one
        for one in sent
    ]
    return left if all(one.get("content") != [] for one in left) else [shown.message]


def _common(before: Sequence[Wire], now: Sequence[Wire]) -> int:
    """The number of messages that two lists have in common at their beginning."""
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


LOOKED_AT = 8  # messages that show whether roles alternate
_CONTENTS = {"anthropic": "content", "openai_chat": "content", "gemini": "parts"}


def as_the_client_has_them(
    wires: Sequence[Wire], own: Sequence[Wire], dialect: str
) -> Sequence[Wire]:
    """The messages of a page, with alternating roles if the client's list has them."""
    key = _CONTENTS.get(dialect)
    if key is None or not _takes_turns(own[:LOOKED_AT]):
        return wires
    made: list[Wire] = []
    for wire in wires:
        if made and wire.get("role") == made[-1].get("role") == "user":
            made[-1] = {**made[-1], key: _joined(made[-1].get(key), wire.get(key))}
        else:
            made.append(wire)
    return made


def _takes_turns(own: Sequence[Wire]) -> bool:
    return all(one.get("role") != other.get("role") for one, other in pairwise(own))


def _joined(one: Any, other: Any) -> list[Any]:
    return [*_parts(one), *_parts(other)]


def _parts(content: Any) -> Sequence[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def in_place(chosen: Sequence[Wire]) -> list[Wire]:
    """The messages, with a system message as the user's unless it directly follows the user."""
    before = ["", *(one.get("role") for one in chosen)]
    return [
        {**one, "role": "user"} if one.get("role") == "system" and role != "user" else one
        for role, one in zip(before, chosen, strict=False)
    ]


_REFUSED = re.compile(rb"`signature`.{0,20}`(redacted_)?thinking`")
_NOTHING = [{"type": "text", "text": "…"}]  # a message must have content


def with_loops_taken(parsed: ParsedCall, wires: Sequence[Wire]) -> Sequence[Wire]:
    """The messages of a page, with thinking at the beginning of every answer in an open tool loop,
    or its calls as text. Models that do not bind thinking keep it anyway, and `adaptive` ones
    accept calls without."""
    is_by_budget = b'"enabled"' in bytes(parsed.fields.get("thinking", b""))
    if parsed.dialect != "anthropic" or not is_by_budget:
        return wires
    is_bound = model_info(parsed.model or None).thinking_bound
    return with_loops_said(list(wires)) if is_bound else wires


def is_refused(status: int, answer: bytes) -> bool:
    """Whether a provider refuses thinking."""
    return status == 400 and _REFUSED.search(answer) is not None


def without_thinking(body: bytes) -> bytes | None:
    """The body without any thinking in its messages; None if it has none."""
    try:
        fields = decoding.decode(body, dict[str, msgspec.Raw])
        messages = decoding.decode(fields["messages"], list[dict[str, Any]])
    except (msgspec.DecodeError, KeyError):
        return None
    plain = list(map(_plain, messages))
    if plain == messages:
        return None
    return msgspec.json.encode({**fields, "messages": msgspec.Raw(msgspec.json.encode(plain))})


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if not is_thinking(block)]
    return message if len(kept) == len(content) else {**message, "content": kept or _NOTHING}
