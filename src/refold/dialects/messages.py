"""The page as messages, each with the slots it came from, for a caller that brings its own loop.

Unsettled, the messages are as the log has them: a call that waits has no result, and nothing is put
in between. Slots are rendered in the groups in which they belong together, because only a group
shows which call a result answers. A group that was shown last time is not rendered again; what is
handed out are copies, which pages that follow each other share for as long as nobody changes them.
Neighbours: `page` makes whole requests, `core.laws` the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.laws import Stands, groups, settled, without_thinking
from refold.core.model import Message, Slot
from refold.dialects import MARKED, REASONED
from refold.dialects.native import Takes, said, takes_none, without_opening
from refold.dialects.protocol import Dialect
from refold.dialects.system import is_silent
from refold.dialects.wire import copied

Wire = dict[str, Any]


class PageMessage(Struct, frozen=True, kw_only=True):
    """A message in a provider's format, and the seqs of the slots that have a part in it."""

    message: Wire
    seqs: tuple[int, ...]


class _Group(Struct, frozen=True):
    """Slots that belong together, their messages, and the copies of those that callers hold."""

    slots: Sequence[Slot]
    messages: list[PageMessage]
    handed: list[PageMessage]


class PageMessages:
    """The messages of one conversation's pages, in one dialect; `settle` puts slots in lawful
    order first."""

    def __init__(self, dialect: Dialect, *, settle: bool, takes: Takes = takes_none) -> None:
        self._dialect, self._settle, self._takes = dialect, settle, takes
        self._groups: dict[tuple[int, ...], _Group] = {}  # of the last page, by their seqs

    def of(self, slots: Sequence[Slot], stands: Stands) -> list[PageMessage]:
        """The slots in the dialect's format, with the thinking that stands."""
        ordered = slots
        if self._settle:
            lawful = without_opening(settled(slots)[0], self._dialect.name)
            ordered = [slot for slot in lawful if not is_silent(slot.message)]
        ordered = without_thinking(ordered, stands)
        shown: dict[tuple[int, ...], _Group] = {}
        messages: list[PageMessage] = []
        for span in groups(ordered):
            part = ordered[span.start : span.stop]
            seqs = tuple(slot.seq for slot in part)
            shown[seqs] = group = self._group(part, self._groups.get(seqs))
            messages += group.handed
        self._groups = shown
        return messages

    def _group(self, slots: Sequence[Slot], known: _Group | None) -> _Group:
        if known is None or list(known.slots) != list(slots):
            messages = _of_group(slots, self._dialect, self._takes)
            return _Group(slots, messages, list(map(_copied, messages)))
        if known.handed != known.messages:
            return replace(known, handed=list(map(_copied, known.messages)))
        return known


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


def _copied(one: PageMessage) -> PageMessage:
    return PageMessage(message=copied(one.message), seqs=one.seqs)


def unmarked(message: Message) -> Message:
    """The message without the cache marks it came with."""
    if MARKED not in message.metadata:
        return message
    rest = {key: value for key, value in message.metadata.items() if key != MARKED}
    return replace(message, metadata=rest)


def _sendable(wire: Wire) -> Wire:
    return {key: value for key, value in wire.items() if key != REASONED}
