"""Cache marks of the Messages API: refold's own, or the caller's.

A mark ends a prefix that the provider caches. A request has four at most, those with a longer
lifetime first. Marks are set on copies; the original request never changes. Neighbour: `request`
sets them, and limits them once more in the complete call.
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
    """A mark with this lifetime, or with the provider's default if it is empty."""
    return {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}


def given_ttl(blocks: Iterable[Wire]) -> str:
    """The lifetime of the caller's marks. refold's marks get the same lifetime, because a shorter
    mark must not come before a longer one."""
    for block in blocks:
        ttl = at(block, (MARK, "ttl"))
        if isinstance(ttl, str):
            return ttl
    return ""


# --- refold's own ---


def marked(request: Wire, indices: Sequence[int], marks_max: int, mark: Wire) -> Wire:
    """The request with at most `marks_max` marks: on the system prompt or, without one, the tools,
    and on the newest of the messages at these indices."""
    room = min(marks_max, MARKS_MAX)
    if not room:
        return request
    beginning = next((key for key in ("system", "tools") if request.get(key)), "")
    result = dict(request)
    if beginning:
        entries = _blocks(request[beginning])
        entries[-1] = _with_mark(entries[-1], mark)
        result[beginning] = entries
        room -= 1
    messages = result["messages"] = list(request["messages"])
    for index in sorted(set(indices), reverse=True):
        if not room or not 0 <= index < len(messages):
            continue
        blocks = _blocks(messages[index]["content"])
        for at_block in reversed(range(len(blocks))):
            if is_markable(blocks[at_block]):
                blocks[at_block] = _with_mark(blocks[at_block], mark)
                messages[index] = {**messages[index], "content": blocks}
                room -= 1
                break
    return result


def _blocks(content: Any) -> list[Wire]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _with_mark(block: Wire, mark: Wire) -> Wire:
    return {**block, MARK: dict(mark)}


def is_markable(block: Mapping[str, Any]) -> bool:
    """Whether the provider accepts a mark on this block: not on thinking, nor on empty text."""
    kind = block.get("type")
    if kind == "text":
        return bool(block.get("text"))
    return kind not in ("thinking", "redacted_thinking")


# --- the caller's ---


def with_came(content: Any, marks: Any) -> list[Wire]:
    """The content with the caller's marks, each on its block."""
    blocks = _blocks(content)
    for entry in marks if type(marks) is list else ():
        index, mark = at(entry, (0,)), at(entry, (1,))
        block = at(blocks, (index,)) if type(index) is int else None
        if type(mark) is dict and type(block) is dict and is_markable(block):
            blocks[index] = _with_mark(block, mark)
    return blocks


def with_marks_in_order(request: Wire, marks_max: int = MARKS_MAX) -> Wire:
    """The request with its newest marks, at most `marks_max`, none of them with a longer lifetime
    than one before it."""
    room = max(0, min(marks_max, MARKS_MAX) - (MARK in request))
    # The provider reads marks in this order.
    contents = [message.get("content") for message in objects_in(request.get("messages"))]
    entry_lists = (request.get("tools"), request.get("system"), *contents)
    marks = [
        block[MARK] for entries in entry_lists for block in objects_in(entries) if MARK in block
    ]
    are_long = [_is_long(mark) for mark in marks]
    if len(marks) <= room and are_long == sorted(are_long, reverse=True):
        return request
    limit = _MarkLimit(excess=max(0, len(marks) - room))
    result = dict(request)
    for key in ("tools", "system"):
        if isinstance(result.get(key), list):
            result[key] = list(map(limit.entry, result[key]))
    if isinstance(result.get("messages"), list):
        result["messages"] = list(map(limit.message, result["messages"]))
    return result


def _is_long(mark: Any) -> bool:
    return bool(at(mark, ("ttl",)) == _LONG)


class _MarkLimit:
    """One walk over the marks of a request: drops the first ones in excess, and shortens long marks
    after a short one."""

    def __init__(self, excess: int) -> None:
        self.excess, self.is_short = excess, False

    def message(self, message: Any) -> Any:
        content: Any = message.get("content") if isinstance(message, dict) else None
        if not any(MARK in block for block in objects_in(content)):
            return message
        return {**message, "content": list(map(self.entry, content))}

    def entry(self, entry: Any) -> Any:
        if not isinstance(entry, dict) or MARK not in entry:
            return entry
        if self.excess:
            self.excess -= 1
            return {key: value for key, value in entry.items() if key != MARK}
        is_long = _is_long(entry[MARK])
        if self.is_short and is_long:
            return _with_mark(entry, mark_of(""))
        self.is_short = self.is_short or not is_long
        return entry
