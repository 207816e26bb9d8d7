"""The page as messages, each with the slots it came from, for a caller that brings its own loop.

Unsettled, the messages are as the log has them: a call that waits has no result, and nothing is put
in between. Slots are rendered in the groups in which they belong together, because only a group
shows which call a result answers. Neighbours: `page` makes whole requests, `core.laws` the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.laws import groups, settled, without_thinking
from refold.core.model import Message, Slot
from refold.dialects import MARKED, REASONED
from refold.dialects.native import Takes, said, takes_none, without_opening
from refold.dialects.protocol import Dialect
from refold.dialects.system import is_silent

Wire = dict[str, Any]


class PageMessage(Struct, frozen=True, kw_only=True):
    """A message in a provider's format, and the seqs of the slots that have a part in it."""

    message: Wire
    seqs: tuple[int, ...]


def page_messages(
    slots: Sequence[Slot],
    dialect: Dialect,
    *,
    settle: bool,
    thinking_from: int = 0,
    takes: Takes = takes_none,
) -> list[PageMessage]:
    """The slots in the dialect's format; `settle` puts them in lawful order first."""
    ordered = slots
    if settle:
        lawful = without_opening(settled(slots)[0], dialect.name)
        ordered = [slot for slot in lawful if not is_silent(slot.message)]
    ordered = without_thinking(ordered, thinking_from)
    return [
        message
        for group in groups(ordered)
        for message in _of_group(ordered[group.start : group.stop], dialect, takes)
    ]


def _of_group(slots: Sequence[Slot], dialect: Dialect, takes: Takes) -> list[PageMessage]:
    """The messages of slots that belong together: a slot has a part in what it changes."""
    shown: list[Wire] = []
    seqs: list[dict[int, None]] = []
    spoken: list[Message] = []
    for slot in slots:
        spoken += map(unmarked, said(slot, takes))
        before, shown = shown, dialect.render(spoken, [])
        for index, wire in enumerate(shown):
            if index == len(seqs):
                seqs.append({})
            if index >= len(before) or wire != before[index]:
                seqs[index][slot.seq] = None
    return [
        PageMessage(message=_sendable(wire), seqs=tuple(came)) for wire, came in zip(shown, seqs)
    ]


def unmarked(message: Message) -> Message:
    """The message without the cache marks it came with."""
    if MARKED not in message.metadata:
        return message
    rest = {key: value for key, value in message.metadata.items() if key != MARKED}
    return replace(message, metadata=rest)


def _sendable(wire: Wire) -> Wire:
    return {key: value for key, value in wire.items() if key != REASONED}
