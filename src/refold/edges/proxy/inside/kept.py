"""The exchanges of one conversation of which its client has less than was said.

The log has them too, and knows them by what the client repeats; this is for a list that leaves the
log and comes back, and for a client that repeats an answer otherwise. How its texts are cut and
joined means nothing. Without its thinking, all of the exchange goes without; in other words, it is
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
    seen: Wire
    whole: list[Wire]


class Kept:
    """Exchanges by their place in the client's list."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._places: dict[int, _Exchange] = {}

    def add(self, begin: int, inside: Inside) -> None:
        """Keeps an exchange that begins at this place."""
        for at, whole in inside.inner.items():
            self._places[begin + at] = _Exchange(inside.seen[at], whole)

    def inner(self, messages: Sequence[Wire]) -> dict[int, list[Wire]]:
        """What was really said, for each message of the list that is one of these."""
        there = {at: kept for at, kept in self._places.items() if at < len(messages)}
        found = {at: self._whole(kept, messages[at]) for at, kept in there.items()}
        return {at: whole for at, whole in found.items() if whole}

    def part(self, messages: Sequence[Wire]) -> bool:
        """Takes the list as the client has it now; whether it has one of these otherwise."""
        has_parted = False
        for at in [at for at in self._places if at < len(messages)]:
            kept = self._places[at]
            whole = self._whole(kept, messages[at])
            if whole == kept.whole:
                continue
            has_parted = True
            if whole:
                self._places[at] = _Exchange(messages[at], whole)
            else:
                del self._places[at]
        return has_parted

    def _whole(self, kept: _Exchange, message: Wire) -> list[Wire]:
        """All that was said for a message; nothing if it is another one."""
        if message == kept.seen:
            return kept.whole
        came, seen = self._said(message), self._said(kept.seen)
        if came == seen:
            return kept.whole
        is_same = came.texts == seen.texts and came.rest == seen.rest
        return list(map(unthought, kept.whole)) if is_same and not came.thoughts else []

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


def _is_thought(part: Any) -> bool:
    return is_thinking(part) or (isinstance(part, dict) and part.get("thought") is True)


def note(context: refold.Context, inside: Inside) -> None:
    """Says in the log that something was answered inside, before it is."""
    names = [call.name for whole in inside.inner.values() for call in _calls(whole)]
    said = f"answered inside: {', '.join(names)}"
    context.note(NOTE, {"tools": names, "text": said}, by="proxy")


def _calls(whole: Sequence[Wire]) -> list[ToolCall]:
    return [call for one in whole for call in dialects.tool_calls(one) if is_own(call.name)]
