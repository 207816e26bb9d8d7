"""The view becomes a request, and only what is new is rendered.

Slots up to the last open unit are rendered once and kept; a page that only grew costs its growth. An edit anywhere
starts over. The messages handed out are copies (of the message, its blocks and its calls), so a caller may change them.
Neighbours: `core.laws` puts slots in lawful order, a dialect gives them their wire form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from refold.core.laws import settled, thinking_from, units, without_thinking
from refold.core.model import Slot, View
from refold.dialects.protocol import Dialect
from refold.dialects.wire import copied

MARKS_MAX = 3


class Rendered(Struct, frozen=True):
    """A request, what it could not say, and what had to be put in order."""

    request: dict[str, Any]
    lost: tuple[str, ...]
    repairs: tuple[str, ...]


class Page:
    """Renders one conversation's views in one dialect."""

    def __init__(self, dialect: Dialect, *, bound: bool) -> None:
        self.dialect, self.bound = dialect, bound
        self._restart(None)

    def _restart(self, edition: object) -> None:
        self.edition = edition  # what must not change for the rendered part to stand
        self.thinking_from = 0
        self.stable: list[Slot] = []
        self.messages: list[dict[str, Any]] = []
        self.flat: list[bool] = []  # whether copying a message's dict copies all of it
        self.ends: list[tuple[int, int]] = []  # after the slot with this seq there are so many messages
        self.summary_seq = 0
        self.lost: list[str] = []
        self.repairs: list[str] = []

    def render(self, view: View, *, cache: bool) -> Rendered:
        """The keyword arguments of the provider's call for this view."""
        self._grow(view)
        lost, repairs = list(self.lost), list(self.repairs)
        tail = self._messages(view.slots[len(self.stable) :], lost, repairs)
        messages = [m.copy() if flat else _twin(m) for m, flat in zip(self.messages, self.flat, strict=True)]
        messages += [copied(message) for message in tail]
        marks = self._marks(view, len(messages)) if cache else []
        request = self.dialect.request(messages, system=view.system, tools=view.tools, marks=marks, lost=lost)
        return Rendered(request, tuple(lost), tuple(repairs))

    def _grow(self, view: View) -> None:
        """Renders for good every unit but the last, which may still grow."""
        edition = (view.undoable[-1:], len(view.undoable))
        done = len(self.stable)
        if edition != self.edition or len(view.slots) < done or (done and view.slots[done - 1] is not self.stable[-1]):
            self._restart(edition)
            self.thinking_from = thinking_from(view, bound=self.bound)
            done = 0
        for unit in units(view.slots[done:])[:-1]:
            slots = view.slots[done + unit.start : done + unit.stop]
            rendered = self._messages(slots, self.lost, self.repairs)
            self.messages += rendered
            self.flat += [not any(isinstance(value, dict | list) for value in m.values()) for m in rendered]
            self.stable += slots
            self.ends.append((slots[-1].seq, len(self.messages)))
            self.summary_seq = slots[-1].seq if slots[-1].standin else self.summary_seq

    def _messages(self, slots: Sequence[Slot], lost: list[str], repairs: list[str]) -> list[dict[str, Any]]:
        slots, repaired = settled(slots, opens=not self.stable)
        repairs += repaired
        slots = without_thinking(slots, self.thinking_from)
        return self.dialect.render([slot.message for slot in slots], lost)

    def _marks(self, view: View, count: int) -> list[int]:
        """The messages that end a prefix which later requests will repeat: the last summary, what the last
        request showed, and the end."""
        found = {count - 1}
        for seq in (self.summary_seq, view.anchor.upto if view.anchor is not None else 0):
            at = bisect_right(self.ends, seq, key=lambda end: end[0])
            if at and self.ends[at - 1][1]:
                found.add(self.ends[at - 1][1] - 1)
        return sorted(found)[-MARKS_MAX:] if count else []


def _twin(message: dict[str, Any]) -> dict[str, Any]:
    """A copy of a message, its blocks and its calls. What lies deeper is shared: copying it all for every request
    would cost more than everything else in it."""
    twin = message.copy()
    for key in ("content", "tool_calls"):
        if type(parts := message.get(key)) is list:
            twin[key] = [_part(part) for part in parts]
    return twin


def _part(part: Any) -> Any:
    if type(part) is not dict:
        return part
    twin = part.copy()
    if type(function := part.get("function")) is dict:
        twin["function"] = function.copy()
    return twin
