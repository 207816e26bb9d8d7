"""The view becomes a request, and only what is new is rendered.

Slots up to the last group are rendered once and kept; a page that only grew costs its growth.
An edit anywhere starts over. The messages handed out are copies, so a caller may change them.
Requests that follow each other share them for as long as nobody did: comparing is far cheaper than
copying. Neighbours: `core.laws` puts slots in lawful order, a dialect gives them their wire form.

The page as messages, each with the slots it came from, for a caller that brings its own loop.

Unsettled, the messages are as the log has them: a call that waits has no result, and nothing is put
in between. Slots are rendered in the groups in which they belong together, because only a group
shows which call a result answers. A group that was shown last time is not rendered again; what is
handed out are copies, which pages that follow each other share for as long as nobody changes them.
Neighbours: `page` makes whole requests, `core.laws` the groups.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.laws import Stands, groups, opens_page, settled, thinking, without_thinking
from refold.core.model import Message, Slot, View
from refold.dialects import MARKED, REASONED
from refold.dialects.native import Takes, is_shown, slot_messages, takes_none, without_opening
from refold.dialects.protocol import REFOLDS, CacheMarks, Dialect
from refold.dialects.wire import at, copied, is_silent

MARKS_MAX = 3
_MESSAGE_KEYS = ("messages", "contents", "input")  # where a dialect's request has its messages


class Rendered(Struct, frozen=True):
    """A request, what it could not say, and what had to be put in order."""

    request: dict[str, Any]
    lost: tuple[str, ...]
    repairs: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no message is in it: then there is nothing to ask the model."""
        return not any(map(self.request.get, _MESSAGE_KEYS))


class _Unit(Struct, frozen=True):
    """Slots that are rendered together."""

    slots: Sequence[Slot] = ()
    messages: Sequence[dict[str, Any]] = ()
    lost: Sequence[str] = ()
    repairs: Sequence[str] = ()
    opens: bool = False  # whether anything but system messages is in it
    overdue: dict[str, str] = {}  # the calls that had no result yet after it, and their tools


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
        self.edition = edition  # what must not change for the rendered part to stand
        self.stands: Stands = lambda _: True  # which slots keep their thinking
        self.stable: list[Slot] = []
        self.opened = False  # whether anything but system messages was rendered
        self.overdue: dict[str, str] = {}  # the calls without a result, and their tools
        self.messages: list[dict[str, Any]] = []  # of the stable part
        self.handed: list[dict[str, Any]] = []  # the copies of them that callers hold
        self.seqs: list[int] = []  # after the slot with this seq …
        self.counts: list[int] = []  # … there are so many messages
        self.summary_seq = 0
        self.ttl = ""  # how long the newest mark that came was to live
        self.lost: list[str] = []
        self.repairs: list[str] = []
        self.tail = _Unit()

    def render(self, view: View) -> Rendered:
        """The keyword arguments of the provider's call for this view."""
        self._grow(view)
        self.tail = self._unit(view.slots[len(self.stable) :])
        if self.handed != self.messages:
            self.handed = copied(self.messages)
        messages = [*self.handed, *map(copied, self.tail.messages)]
        marks = self._marks(view, len(messages)) if self.caching.by == "refold" else []
        lost = [*self.lost, *self.tail.lost]
        request = self.dialect.request(
            messages,
            system=view.system,
            tools=view.tools,
            marks=marks,
            lost=lost,
            caching=self._caching_now(),
        )
        return Rendered(request, tuple(lost), (*self.repairs, *self.tail.repairs))

    def _caching_now(self) -> CacheMarks:
        """As it was asked for; marks live as long as the newest that came, unless that was said."""
        if self.caching.ttl or not self.ttl:
            return self.caching
        return replace(self.caching, ttl=self.ttl)

    def _grow(self, view: View) -> None:
        """Renders for good every unit but the last, which may still grow."""
        edition = (view.undoable[-1:], len(view.undoable), view.changed_at)
        if edition != self.edition or not self._leads(view.slots):
            self._restart(edition)
            native = is_shown(view.slots, self.takes)
            self.stands = thinking(view, bound=self.bound, native=native)
        new = view.slots[len(self.stable) :]
        for span in groups(new)[:-1]:
            self._keep(self._unit(new[span.start : span.stop]))

    def _leads(self, slots: Sequence[Slot]) -> bool:
        """Whether the slots begin with what is rendered already."""
        done = len(self.stable)
        if len(slots) < done:
            return False
        return not done or slots[done - 1] is self.stable[-1]

    def _keep(self, unit: _Unit) -> None:
        """Takes a unit into the part that stays as it is."""
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
        """Slots in their wire form; those that were the tail of the last request are rendered
        already."""
        known = self.tail
        if len(slots) == len(known.slots) and all(map(is_, slots, known.slots)):
            return known
        lost: list[str] = []
        overdue = dict(self.overdue)
        ordered, repairs = settled(slots, opens=not self.opened, overdue=overdue)
        if repairs and not self.opened:
            settled_slots = ordered
            ordered = without_opening(settled_slots, self.dialect.name)
            if ordered is not settled_slots:
                repairs = repairs[:-1]  # the opening is put in last
        ordered = without_thinking(ordered, self.stands)
        spoken = [
            self._unmarked(message)
            for slot in ordered
            if not is_silent(slot.message)
            for message in slot_messages(slot, self.takes)
        ]
        messages = self.dialect.render(spoken, lost)
        opens = any(map(opens_page, ordered))
        return _Unit(slots, messages, lost, repairs, opens, overdue)

    def _unmarked(self, message: Message) -> Message:
        """The message; without the cache marks it came with, unless they count."""
        if MARKED not in message.metadata:
            return message
        ttl = at(message.metadata, (MARKED, -1, 1, "ttl"))
        self.ttl = ttl if isinstance(ttl, str) else self.ttl
        return message if self.caching.by == "caller" else unmarked(message)

    def _marks(self, view: View, count: int) -> list[int]:
        """The messages that end a prefix which later requests will repeat: the last summary,
        what the last request showed, and the end."""
        if not count:
            return []
        shown = view.anchor.upto if view.anchor is not None else 0
        ends = {count, self._count_upto(self.summary_seq), self._count_upto(shown)}
        return sorted(end - 1 for end in ends if end)[-MARKS_MAX:]

    def _count_upto(self, seq: int) -> int:
        """How many messages of the part that stays show slots up to this seq."""
        at = bisect_right(self.seqs, seq)
        return self.counts[at - 1] if at else 0


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
        spoken += map(unmarked, slot_messages(slot, takes))
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
