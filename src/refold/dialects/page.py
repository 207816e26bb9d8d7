"""Rendered pages: `Page` renders a view as a request, `PageMessages` as messages with their seqs.

Slots are rendered in groups, because only a group shows which call a result answers, and each group
once: a page that only grew costs its growth, and an edit starts over. Callers get copies and may
change them; successive pages share the copies until someone does, because comparing is far cheaper
than copying. Neighbours: `core.laws` orders and groups slots, a dialect gives them their wire form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.laws import (
    ThinkingCheck,
    groups,
    opens_page,
    settled,
    thinking_check,
    without_thinking,
)
from refold.core.model import Message, Slot, View
from refold.dialects import MARKED, REASONED
from refold.dialects.native import Takes, is_shown, slot_messages, takes_none, without_opening
from refold.dialects.protocol import REFOLDS, CacheMarks, Dialect
from refold.dialects.wire import at, copied, is_silent, with_taken_media

MARKS_MAX = 3
_MESSAGE_KEYS = ("messages", "contents", "input")  # where requests keep their messages


class Rendered(Struct, frozen=True):
    """A request, the content it could not express, and the repairs made to its order."""

    request: dict[str, Any]
    lost: tuple[str, ...]
    repairs: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the request has no messages, and so nothing to ask the model."""
        return not any(map(self.request.get, _MESSAGE_KEYS))


class _Unit(Struct, frozen=True):
    """Slots that are rendered together."""

    slots: Sequence[Slot] = ()
    messages: Sequence[dict[str, Any]] = ()
    lost: Sequence[str] = ()
    repairs: Sequence[str] = ()
    opens: bool = False  # whether anything but system messages is in it
    overdue: dict[str, str] = {}  # calls still without a result after it, and their tools


class Page:
    """Renders one conversation's views in one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        bound: bool,
        caching: CacheMarks = REFOLDS,
        takes: Takes = takes_none,
    ) -> None:
        self.dialect, self.bound, self.caching, self.takes = dialect, bound, caching, takes
        self._restart(None)

    def _restart(self, edition: object) -> None:
        self.edition = edition  # the stable part is valid as long as this is unchanged
        self.keeps_thinking: ThinkingCheck = lambda _: True  # which slots keep their thinking
        self.stable: list[Slot] = []
        self.opened = False  # whether anything but system messages was rendered
        self.overdue: dict[str, str] = {}  # calls without a result, and their tools
        self.messages: list[dict[str, Any]] = []  # of the stable part
        self.handed: list[dict[str, Any]] = []  # copies of them, shared with callers
        self.seqs: list[int] = []  # seq of the last slot of each unit
        self.counts: list[int] = []  # number of messages up to that slot
        self.summary_seq = 0
        self.ttl = ""  # lifetime of the caller's newest cache mark
        self.lost: list[str] = []
        self.repairs: list[str] = []
        self.tail = _Unit()

    def render(self, view: View) -> Rendered:
        """Renders the view as keyword arguments of the provider's call."""
        self._grow(view)
        self.tail = self._unit(view.slots[len(self.stable) :])
        if self.handed != self.messages:
            self.handed = copied(self.messages)
        messages = [*self.handed, *map(copied, self.tail.messages)]
        marks = self._marks(view, len(messages)) if self.caching.by == "refold" else []
        lost = [*self.lost, *self.tail.lost]
        # Marks live as long as the caller's newest one, unless the caller asked for a lifetime.
        caching = self.caching if self.caching.ttl else replace(self.caching, ttl=self.ttl)
        request = self.dialect.request(
            messages, system=view.system, tools=view.tools, marks=marks, lost=lost, caching=caching
        )
        return Rendered(request, tuple(lost), (*self.repairs, *self.tail.repairs))

    def _grow(self, view: View) -> None:
        """Adds every unit but the last, which may still grow, to the stable part."""
        edition = (view.undoable[-1:], len(view.undoable), view.changed_at)
        if edition != self.edition or not self._leads(view.slots):
            self._restart(edition)
            native = is_shown(view.slots, self.takes)
            self.keeps_thinking = thinking_check(view, bound=self.bound, native=native)
        new = view.slots[len(self.stable) :]
        for span in groups(new)[:-1]:
            self._keep(self._unit(new[span.start : span.stop]))

    def _leads(self, slots: Sequence[Slot]) -> bool:
        """Whether the slots begin with the stable part."""
        done = len(self.stable)
        if len(slots) < done:
            return False
        return not done or slots[done - 1] is self.stable[-1]

    def _keep(self, unit: _Unit) -> None:
        """Appends a unit to the stable part."""
        self.messages += unit.messages
        self.handed += map(copied, unit.messages)
        self.lost += unit.lost
        self.repairs += unit.repairs
        self.stable += unit.slots
        self.opened = self.opened or unit.opens
        self.overdue = unit.overdue
        last = unit.slots[-1]
        self.seqs.append(last.seq)
        self.counts.append(len(self.messages))
        if last.standin:
            self.summary_seq = last.seq

    def _unit(self, slots: Sequence[Slot]) -> _Unit:
        """Renders slots, or returns the tail of the last request if it has the same slots."""
        tail = self.tail
        if len(slots) == len(tail.slots) and all(map(is_, slots, tail.slots)):
            return tail
        lost: list[str] = []
        overdue = dict(self.overdue)
        ordered, repairs = settled(slots, opens=not self.opened, overdue=overdue)
        if repairs and not self.opened:
            settled_slots = ordered
            ordered = without_opening(settled_slots, self.dialect.name)
            if ordered is not settled_slots:
                repairs = repairs[:-1]  # the inserted opening is the last repair
        ordered = without_thinking(ordered, self.keeps_thinking)
        spoken = [
            with_taken_media(self._unmarked(message), slot.seq, self.dialect.name, lost)
            for slot in ordered
            if not is_silent(slot.message)
            for message in (
                slot_messages(slot, self.takes) if slot.summary is not None else (slot.message,)
            )
        ]
        messages = self.dialect.render(spoken, lost)
        opens = any(map(opens_page, ordered))
        return _Unit(slots, messages, lost, repairs, opens, overdue)

    def _unmarked(self, message: Message) -> Message:
        """The message, without the caller's cache marks unless the request carries those."""
        if MARKED not in message.metadata:
            return message
        ttl = at(message.metadata, (MARKED, -1, 1, "ttl"))
        self.ttl = ttl if isinstance(ttl, str) else self.ttl
        return message if self.caching.by == "caller" else unmarked(message)

    def _marks(self, view: View, count: int) -> list[int]:
        """Indices of the messages that end a prefix which later requests will repeat: the last
        summary, the end of the last request, and the end of this one."""
        if not count:
            return []
        last_sent = view.anchor.upto if view.anchor is not None else 0
        ends = {count, self._count_upto(self.summary_seq), self._count_upto(last_sent)}
        return sorted(end - 1 for end in ends if end)[-MARKS_MAX:]

    def _count_upto(self, seq: int) -> int:
        """Number of stable messages that show slots up to this seq."""
        at = bisect_right(self.seqs, seq)
        return self.counts[at - 1] if at else 0


Wire = dict[str, Any]


class PageMessage(Struct, frozen=True, kw_only=True):
    """A message in a provider's format, and the seqs of the slots that contribute to it."""

    message: Wire
    seqs: tuple[int, ...]


class _Group(Struct, frozen=True):
    """Slots that belong together, their messages, and the copies shared with callers."""

    slots: Sequence[Slot]
    messages: list[PageMessage]
    handed: list[PageMessage]


class PageMessages:
    """Renders one conversation's slots as messages of one dialect, for callers with a loop of
    their own. `settle` puts slots in lawful order first; otherwise messages are as in the log."""

    def __init__(self, dialect: Dialect, *, settle: bool, takes: Takes = takes_none) -> None:
        self._dialect, self._settle, self._takes = dialect, settle, takes
        self._groups: dict[tuple[int, ...], _Group] = {}  # of the last page, by seqs

    def of(self, slots: Sequence[Slot], keeps_thinking: ThinkingCheck) -> list[PageMessage]:
        """The slots in the dialect's format, with the thinking that is still valid."""
        ordered = slots
        if self._settle:
            lawful = without_opening(settled(slots)[0], self._dialect.name)
            ordered = [slot for slot in lawful if not is_silent(slot.message)]
        ordered = without_thinking(ordered, keeps_thinking)
        page_groups: dict[tuple[int, ...], _Group] = {}
        messages: list[PageMessage] = []
        for span in groups(ordered):
            members = ordered[span.start : span.stop]
            seqs = tuple(slot.seq for slot in members)
            group = self._groups.get(seqs)
            if group is None or list(group.slots) != list(members):
                rendered = _group_messages(members, self._dialect, self._takes)
                group = _Group(members, rendered, list(map(_copied, rendered)))
            elif group.handed != group.messages:
                group = replace(group, handed=list(map(_copied, group.messages)))
            page_groups[seqs] = group
            messages += group.handed
        self._groups = page_groups
        return messages


def _group_messages(slots: Sequence[Slot], dialect: Dialect, takes: Takes) -> list[PageMessage]:
    """The messages of one group. A slot contributes to each message that it adds or changes."""
    rendered: list[Wire] = []
    seqs: list[dict[int, None]] = []
    spoken: list[Message] = []
    for slot in slots:
        spoken += (
            with_taken_media(unmarked(message), slot.seq, dialect.name, [])
            for message in slot_messages(slot, takes)
        )
        before, rendered = rendered, dialect.render(spoken, [])
        for index, wire in enumerate(rendered):
            if index == len(seqs):
                seqs.append({})
            if index >= len(before) or wire != before[index]:
                seqs[index][slot.seq] = None
    messages = []
    for wire, contributors in zip(rendered, seqs):
        sendable = {key: value for key, value in wire.items() if key != REASONED}
        messages.append(PageMessage(message=sendable, seqs=tuple(contributors)))
    return messages


def _copied(message: PageMessage) -> PageMessage:
    return PageMessage(message=copied(message.message), seqs=message.seqs)


def unmarked(message: Message) -> Message:
    """The message without its sender's cache marks."""
    if MARKED not in message.metadata:
        return message
    rest = {key: value for key, value in message.metadata.items() if key != MARKED}
    return replace(message, metadata=rest)
