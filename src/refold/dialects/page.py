"""Rendered pages: `Page` renders a view as a request, and the same messages with their seqs;
`unsettled` has the messages as they are in the log.

Slots are rendered in groups, because only a group shows which call a result answers. Each group is
rendered once, so a page that only grew costs no more than its growth, but an edit starts over.
Callers get copies and may change them; successive pages share the copies until someone does,
because comparing is far cheaper than copying. Neighbours: `core.laws` orders and groups slots, a
dialect gives them their wire form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold import dialects
from refold.core.laws import (
    ThinkingCheck,
    groups,
    opens_page,
    settled,
    thinking_check,
    without_thinking,
)
from refold.core.model import Message, Slot, Thinking, View
from refold.dialects import DIALECTS, MARKED, REASONED
from refold.dialects.input import remove_marks
from refold.dialects.native import Takes, is_shown, slot_messages, takes_none, without_opening
from refold.dialects.openai_chat.render import alternating
from refold.dialects.protocol import REFOLDS, Arranged, CacheMarks, Dialect
from refold.dialects.wire import at, copied, is_gone, is_silent, objects_in, with_taken_media

MARKS_MAX = 3
_MESSAGE_KEY = {  # where requests have their messages
    "anthropic": "messages", "openai_chat": "messages", "openai_responses": "input",
    "gemini": "contents",
}  # fmt: skip

Wire = dict[str, Any]


class Rendered(Struct, frozen=True):
    """A request, the content it could not express, and the repairs made to its order. It is empty
    if nobody says anything but the system: some formats have such messages, others a field."""

    request: dict[str, Any]
    lost: tuple[str, ...]
    repairs: tuple[str, ...]
    is_empty: bool = False


class PageMessage(Struct, frozen=True, kw_only=True):
    """A message in a provider's format, and the seqs of the slots that contribute to it. `thinking`
    has the valid thinking of an answer that the format has no place for, in its own provider's
    spelling: for callers whose own messages have a place for it."""

    message: Wire
    seqs: tuple[int, ...]
    thinking: tuple[Wire, ...] = ()


class _Unit(Struct, frozen=True):
    """Slots that are rendered together, and the messages of each."""

    slots: Sequence[Slot] = ()
    said: Sequence[tuple[int, Message]] = ()
    messages: Sequence[dict[str, Any]] = ()
    lost: Sequence[str] = ()
    repairs: Sequence[str] = ()
    opens: bool = False  # whether it has anything but system messages
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
        alternates: bool = False,
    ) -> None:
        self.dialect, self.bound, self.caching, self.takes = dialect, bound, caching, takes
        self.alternates = alternates
        self._restart(None)

    def _restart(self, edition: object) -> None:
        self.edition = edition  # the stable part is valid as long as this is unchanged
        self.keeps_thinking: ThinkingCheck = lambda _: True  # which slots keep their thinking
        self.stable: list[Slot] = []
        self.opened = False  # whether anything but system messages was rendered
        self.overdue: dict[str, str] = {}  # calls without a result, and their tools
        self.messages: list[dict[str, Any]] = []  # of the stable part
        self.said: list[Sequence[tuple[int, Message]]] = []  # of each unit
        self.contributors: list[list[int]] = []  # to each message, for the first units
        self.contributed = 0  # number of those units
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
        messages = self._messages(view)
        marks = self._marks(view, len(messages)) if self.caching.by == "refold" else []
        lost = [*self.lost, *self.tail.lost]
        # Marks live as long as the caller's newest one, unless the caller asked for a lifetime.
        caching = self.caching if self.caching.ttl else replace(self.caching, ttl=self.ttl)
        request = self.dialect.request(
            messages, system=view.system, tools=view.tools, marks=marks, lost=lost, caching=caching
        )
        if self.alternates:
            request["messages"] = alternating(request["messages"]).messages
        is_empty = all(message.get("role") in ("system", "developer") for message in messages)
        return Rendered(request, tuple(lost), (*self.repairs, *self.tail.repairs), is_empty)

    def shown(self, view: View, options: Mapping[str, Any]) -> list[PageMessage]:
        """The messages of the request that has these options, without cache marks, each with its
        seqs. Leading system messages come first, where requests have them elsewhere."""
        rendered = self._messages(view)
        if self.caching.by == "caller":
            rendered = [remove_marks(copied(message)) for message in rendered]
        for said in self.said[self.contributed :]:
            self.contributors += _contributors(said, self.dialect)
        self.contributed = len(self.said)
        seqs = [*self.contributors, *_contributors(self.tail.said, self.dialect)]
        arranged = self.dialect.arranged(rendered, [])
        messages, seqs = arranged.messages, _moved(seqs, arranged)
        if self.alternates:
            arranged = alternating(messages)
            messages, seqs = arranged.messages, _moved(seqs, arranged)
        if messages:
            # Options may need other messages, such as those of Anthropic's thinking.
            key = _MESSAGE_KEY[self.dialect.name]
            messages = self.dialect.finished({**options, key: messages})[key]
        seqs += seqs[-1:] * (len(messages) - len(seqs))
        units = (*self.said, self.tail.said)
        thinking = _unsent_thinking((pair for said in units for pair in said), self.dialect)
        return [
            _page_message(message, found, thinking)
            for message, found in zip(messages, seqs, strict=True)
        ]

    def _messages(self, view: View) -> list[Wire]:
        """The rendered messages, to be changed only on copies."""
        self._grow(view)
        self.tail = self._unit(view.slots[len(self.stable) :])
        if self.handed != self.messages:
            self.handed = copied(self.messages)
        return [*self.handed, *map(copied, self.tail.messages)]

    def _grow(self, view: View) -> None:
        """Adds every unit but the last, which may still grow, to the stable part."""
        edition = (view.changed_at, view.eras)
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
        self.said.append(unit.said)
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
        name = self.dialect.name
        said = [
            (slot.seq, with_taken_media(self._unmarked(message), slot.seq, name, lost))
            for slot in ordered
            if not is_silent(slot.message)
            for message in (
                slot_messages(slot, self.takes) if slot.summary is not None else (slot.message,)
            )
        ]
        messages = self.dialect.render([message for _, message in said], lost)
        opens = any(map(opens_page, ordered))
        return _Unit(slots, said, messages, lost, repairs, opens, overdue)

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


def unsettled(
    slots: Sequence[Slot], dialect: Dialect, keeps_thinking: ThinkingCheck, takes: Takes
) -> list[PageMessage]:
    """The slots as messages of a dialect, in the order of the log, with the thinking that is still
    valid: open calls stay open, and nothing is inserted."""
    ordered = without_thinking(slots, keeps_thinking)
    messages: list[PageMessage] = []
    for span in groups(ordered):
        said = [
            (slot.seq, unmarked(message))
            for slot in ordered[span.start : span.stop]
            for message in slot_messages(slot, takes)
        ]
        wires = dialect.render([message for _, message in said], [])
        thinking = _unsent_thinking(said, dialect)
        for wire, seqs in zip(wires, _contributors(said, dialect), strict=True):
            sendable = {key: value for key, value in wire.items() if key != REASONED}
            messages.append(_page_message(sendable, seqs, thinking))
    return messages


def _page_message(wire: Wire, seqs: list[int], thinking: Mapping[int, list[Wire]]) -> PageMessage:
    is_answer = bool(thinking) and wire.get("role") == "assistant"
    unsent = [block for seq in seqs for block in thinking.get(seq, ())] if is_answer else []
    return PageMessage(message=wire, seqs=tuple(seqs), thinking=tuple(unsent))


def _unsent_thinking(
    said: Iterable[tuple[int, Message]], dialect: Dialect
) -> dict[int, list[Wire]]:
    """The thinking of messages in other dialects, by seq, as content of its own provider."""
    unsent: dict[int, list[Wire]] = {}
    for seq, message in said:
        if message.dialect == dialect.name or Thinking not in map(type, message.blocks):
            continue
        blocks = tuple(
            block for block in message.blocks if type(block) is Thinking and not is_gone(block)
        )
        if blocks and message.dialect in DIALECTS:
            alone = Message(role="assistant", blocks=blocks, dialect=message.dialect)
            [wire, *_] = dialects.dialect(message.dialect).render([alone], [])
            unsent[seq] = objects_in(wire.get("content"))
    return unsent


def _contributors(said: Sequence[tuple[int, Message]], dialect: Dialect) -> list[list[int]]:
    """For each rendered message, the seqs that add or change it."""
    rendered: list[Wire] = []
    seqs: list[dict[int, None]] = []
    for count, (seq, _) in enumerate(said, start=1):
        before, rendered = rendered, dialect.render([message for _, message in said[:count]], [])
        for index, wire in enumerate(rendered):
            if index == len(seqs):
                seqs.append({})
            if index >= len(before) or wire != before[index]:
                seqs[index][seq] = None
    return list(map(list, seqs))


def _moved(seqs: Sequence[list[int]], arranged: Arranged) -> list[list[int]]:
    """The seqs of the arranged messages; an inserted message has those of the message before it."""
    moved: list[dict[int, None]] = [{} for _ in arranged.messages]
    for found, place in zip(seqs, arranged.places, strict=True):
        if place is not None:
            moved[place].update(dict.fromkeys(found))
    for index, added in enumerate(moved):
        if not added and index:
            moved[index] = moved[index - 1]
    return list(map(list, moved))


def unmarked(message: Message) -> Message:
    """The message without its sender's cache marks."""
    if MARKED not in message.metadata:
        return message
    rest = {key: value for key, value in message.metadata.items() if key != MARKED}
    return replace(message, metadata=rest)
