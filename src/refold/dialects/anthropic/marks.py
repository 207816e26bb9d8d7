"""Cache marks of the Messages API: refold's own, or those that came with the messages.

A mark ends a prefix that the provider keeps. There are four at most, and one that lives longer
stands before those that live shorter. Marks are set on copies, the request given is never changed.
Neighbours: `request` asks for them, `thinking` counts them once more in the whole call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refold.dialects.input import MARKS
from refold.dialects.protocol import MARKS_MAX
from refold.dialects.wire import at, objects_in

MARK = MARKS[0]
_LONG = "1h"

Wire = dict[str, Any]


def mark_of(ttl: str) -> Wire:
    """A mark that lives as long; the provider's own time if it does not say."""
    return {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}


def given_ttl(blocks: Iterable[Wire]) -> str:
    """How long the marks that came were to live; ours live as long, because a shorter mark may not
    come before a longer one."""
    for block in blocks:
        ttl = at(block, (MARK, "ttl"))
        if isinstance(ttl, str):
            return ttl
    return ""


# --- refold's own ---


def marked(request: Wire, places: Sequence[int], most: int, mark: Wire) -> Wire:
    """The request with a mark on the system prompt or, without one, the tools, and on the newest
    of the messages at these places: so many at most."""
    room = min(most, MARKS_MAX)
    if not room:
        return request
    beginning = next((key for key in ("system", "tools") if request.get(key)), "")
    made = dict(request)
    if beginning:
        made[beginning] = _marked_last(_blocks(request[beginning]), mark)
        room -= 1
    made["messages"] = _marked_messages(request["messages"], places, room, mark)
    return made


def _blocks(content: Any) -> list[Wire]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _marked_last(entries: list[Wire], mark: Wire) -> list[Wire]:
    return [*entries[:-1], _with_mark(entries[-1], mark)]


def _with_mark(block: Wire, mark: Wire) -> Wire:
    return {**block, MARK: dict(mark)}


def _marked_messages(
    messages: list[Wire], places: Sequence[int], room: int, mark: Wire
) -> list[Wire]:
    """The messages, the newest of those to be marked with a mark, while there is room."""
    made = list(messages)
    for index in sorted(set(places), reverse=True):
        if not room or not 0 <= index < len(made):
            continue
        message = _marked_message(made[index], mark)
        if message is not None:
            made[index] = message
            room -= 1
    return made


def _marked_message(message: Wire, mark: Wire) -> Wire | None:
    """The message with a mark on its last block that may carry one; None if there is no such
    block."""
    blocks = _blocks(message["content"])
    for index in reversed(range(len(blocks))):
        if is_markable(blocks[index]):
            blocks[index] = _with_mark(blocks[index], mark)
            return {**message, "content": blocks}
    return None


def is_markable(block: Mapping[str, Any]) -> bool:
    """Whether the provider takes a mark on this block: not on thinking, nor on an empty text."""
    kind = block.get("type")
    if kind == "text":
        return bool(block.get("text"))
    return kind not in ("thinking", "redacted_thinking")


# --- the caller's ---


def with_came(content: Any, marks: Any) -> list[Wire]:
    """A content with the marks it came with, each on the block at its place."""
    blocks = _blocks(content)
    for entry in marks if type(marks) is list else ():
        index, mark = at(entry, (0,)), at(entry, (1,))
        block = at(blocks, (index,)) if type(index) is int else None
        if type(mark) is dict and type(block) is dict and is_markable(block):
            blocks[index] = _with_mark(block, mark)
    return blocks


def with_marks_in_order(request: Wire, most: int = MARKS_MAX) -> Wire:
    """The request with its newest marks, so many at most, none of them longer than one before
    it."""
    room = min(most, MARKS_MAX) - (MARK in request)
    marks = list(_marks_of(request))
    keep = _Keeping(dropped=max(0, len(marks) - max(room, 0)))
    if not keep.dropped and not _is_out_of_order(marks):
        return request
    made = dict(request)
    for key in ("tools", "system"):
        if isinstance(made.get(key), list):
            made[key] = keep.entries(made[key])
    if isinstance(made.get("messages"), list):
        made["messages"] = [keep.message(message) for message in made["messages"]]
    return made


def _marks_of(request: Wire) -> Iterable[Wire]:
    """The marks of a request, in the order in which the provider reads them."""
    contents = [message.get("content") for message in objects_in(request.get("messages"))]
    for entries in (request.get("tools"), request.get("system"), *contents):
        yield from (block[MARK] for block in objects_in(entries) if MARK in block)


def _is_out_of_order(marks: Sequence[Wire]) -> bool:
    lives = [_lives_long(mark) for mark in marks]
    return lives != sorted(lives, reverse=True)


def _lives_long(mark: Any) -> bool:
    return bool(at(mark, ("ttl",)) == _LONG)


class _Keeping:
    """One walk over the marks of a request: the first ones are dropped, and after a short one no
    long one follows."""

    def __init__(self, dropped: int) -> None:
        self.dropped, self.is_short = dropped, False

    def message(self, message: Any) -> Any:
        content: Any = message.get("content") if isinstance(message, dict) else None
        if not any(MARK in block for block in objects_in(content)):
            return message
        return {**message, "content": self.entries(content)}

    def entries(self, entries: list[Any]) -> list[Any]:
        return [self._entry(entry) for entry in entries]

    def _entry(self, entry: Any) -> Any:
        if not isinstance(entry, dict) or MARK not in entry:
            return entry
        if self.dropped:
            self.dropped -= 1
            return {key: value for key, value in entry.items() if key != MARK}
        mark = entry[MARK]
        if self.is_short and _lives_long(mark):
            return _with_mark(entry, mark_of(""))
        self.is_short = self.is_short or not _lives_long(mark)
        return entry
