"""The exchanges of one conversation of which its client has less than was said.

The log has them too, and knows them by what the client repeats; this is for a list that leaves the
log and comes back, and for a client that repeats an answer otherwise. How its texts are cut and
joined means nothing. Without its thinking, all of the exchange goes without, also where thinking is
an item of its own and everything behind it stands at an earlier place; in other words, it is
another answer, and what was thought after our tools had answered can no longer be sent.
Neighbours: `book` holds one for each conversation, `observer` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

import refold
from refold import dialects
from refold.artifacts.offload import is_own
from refold.core.model import Message, Text, Thinking, ToolCall
from refold.edges.proxy.body import Wire
from refold.edges.proxy.inside.seen import Inside
from refold.edges.proxy.thinking import is_thinking
from refold.log.front import mark_of

NOTE = "proxy-inside"
_THOUGHT = "reasoning_content"


class _Exchange(Struct, frozen=True):
    """Where it begins in the client's list, what the client has of it, and for each place of that
    where more was said, all of it."""

    begin: int
    seen: list[Wire]
    inner: dict[int, list[Wire]]

    @property
    def placed(self) -> dict[int, list[Wire]]:
        """What was said, by the place in the client's list."""
        return {self.begin + at: whole for at, whole in self.inner.items()}


class Kept:
    """Exchanges by their place in the client's list."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._exchanges: dict[int, _Exchange] = {}

    def add(self, begin: int, inside: Inside) -> None:
        """Keeps an exchange that begins at this place."""
        self._exchanges[begin] = _Exchange(begin, inside.seen, inside.inner)

    def inner(self, messages: Sequence[Wire]) -> dict[int, list[Wire]]:
        """What was really said, for each message of the list that is one of these."""
        found = [self._found(one, messages) for one in self._exchanges.values()]
        return {at: whole for one in found for at, whole in one.placed.items()}

    def part(self, messages: Sequence[Wire]) -> bool:
        """Takes the list as the client has it now; whether it has one of these otherwise."""
        has_parted = False
        for begin, kept in list(self._exchanges.items()):
            there = {at: whole for at, whole in kept.placed.items() if at < len(messages)}
            found = self._found(kept, messages)
            if found.placed == there:
                continue
            has_parted = True
            del self._exchanges[begin]
            if found.inner:
                self._exchanges[begin] = found
        return has_parted

    def _found(self, kept: _Exchange, messages: Sequence[Wire]) -> _Exchange:
        """An exchange as the list has it; with nothing inside if it is not there."""
        at = kept.begin
        inner: dict[int, list[Wire]] = {}
        waiting: list[Wire] = []  # what was said before an item that is left out
        is_thought = True
        for place, seen in enumerate(kept.seen):
            if at >= len(messages):
                break
            said = kept.inner.get(place, [seen])
            whole = self._whole(seen, said, messages[at])
            if whole or not _is_reasoning(seen):
                if whole and (waiting or place in kept.inner):
                    inner[at - kept.begin] = [*waiting, *whole]
                waiting, at = [], at + 1
            else:
                waiting, is_thought = [*waiting, *said], False
        if waiting and at > kept.begin:
            last = at - 1 - kept.begin
            inner[last] = [*inner.get(last, [messages[at - 1]]), *waiting]
        if not is_thought:
            inner = {place: _unreasoned(whole) for place, whole in inner.items()}
        return _Exchange(kept.begin, list(messages[kept.begin : at]), inner)

    def _whole(self, seen: Wire, whole: list[Wire], message: Wire) -> list[Wire]:
        """All that was said for a message; nothing if it is another one."""
        if message == seen:
            return whole
        came, known = self._said(message), self._said(seen)
        if came == known:
            return whole
        is_same = came.texts == known.texts and came.rest == known.rest
        return list(map(unthought, whole)) if is_same and not came.thoughts else []

    def _said(self, message: Wire) -> _Said:
        """What a message says, however its texts are cut, joined and set beside its calls."""
        blocks = [block for one in dialects.parse(message, self._dialect) for block in one.blocks]
        texts = "".join(block.text for block in blocks if isinstance(block, Text))
        thoughts = [block for block in blocks if isinstance(block, Thinking)]
        rest = [block for block in blocks if not isinstance(block, Text | Thinking)]
        return _Said(
            "".join(texts.split()),
            "".join(one.text + one.signature + one.data for one in thoughts),
            sorted(mark_of(Message(role="assistant", blocks=(block,))) for block in rest),
        )


class _Said(Struct, frozen=True):
    texts: str  # without any space: clients join them with some, or trim them
    thoughts: str
    rest: list[bytes]


def unthought(message: Wire) -> Wire:
    """A message without its thinking."""
    plain = {key: value for key, value in message.items() if key != _THOUGHT}
    for key in ("content", "parts"):
        if isinstance(plain.get(key), list):
            plain[key] = [one for one in plain[key] if not _is_thought(one)]
    return plain


def _is_reasoning(item: Wire) -> bool:
    return item.get("type") == "reasoning"


def _unreasoned(items: Sequence[Wire]) -> list[Wire]:
    """Items without reasoning, and so without the ids by which a provider knows what it led to."""
    return [
        {key: value for key, value in item.items() if key != "id"}
        for item in items
        if not _is_reasoning(item)
    ]


def _is_thought(part: Any) -> bool:
    return is_thinking(part) or (isinstance(part, dict) and part.get("thought") is True)


def note(context: refold.Context, inside: Inside) -> None:
    """Says in the log that something was answered inside, before it is."""
    names = [call.name for whole in inside.inner.values() for call in _calls(whole)]
    said = f"answered inside: {', '.join(names)}"
    context.note(NOTE, {"tools": names, "text": said}, by="proxy")


def _calls(whole: Sequence[Wire]) -> list[ToolCall]:
    return [call for one in whole for call in dialects.tool_calls(one) if is_own(call.name)]
