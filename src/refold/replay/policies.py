"""The policies in use today that keep a prompt within its window, each as its authors describe it;
and refold as one of them.

A policy has three methods: `start(budget)`, `observe(message)`, `prompt()`. A call and its results
are kept or dropped together. As a courtesy, policies that cut also bring back the user's latest
request. refold is one conversation in memory that renders a page before every turn; the whole
window is usable as input (`reserve_tokens` 0), and tokens are counted as the measure counts them,
so that all have the same budget. Neighbours: `needs` has the counter, `run` plays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from refold.engine.opening import open as open_context
from refold.replay.needs import MESSAGE_TOKENS, Message, tokens_of, tokens_of_text

FULL, HALF = 0.9, 0.5
CLEARED = "[cleared: old tool result]"
REPEATED = "[repeated: see the newest result]"
LOOK_AHEAD = 7  # messages after a call in which its result may come


class Policy(Protocol):
    def start(self, budget: int) -> None: ...
    def observe(self, message: Message) -> None: ...
    def prompt(self) -> list[Message]: ...


class Everything:
    """Sends everything. As the base of the other policies, it has the log, its sizes, its units,
    and its replacements."""

    def start(self, budget: int) -> None:
        self.budget = budget
        self.log: list[Message] = []
        self.tokens: list[int] = []
        self.opening = 0  # messages up to and including the first request; 0 before it
        self.units: list[list[int]] = []  # of the messages after the opening
        self.request = -1
        self.replaced: dict[int, Message] = {}

    def observe(self, message: Message) -> None:
        index = len(self.log)
        self.log.append(message)
        self.tokens.append(tokens_of(message))
        role = message["role"]
        if self.opening:
            first = self.log[self.units[-1][0]]["role"] if self.units else ""
            if role == "tool" and first == "assistant":
                self.units[-1].append(index)
            else:
                self.units.append([index])
        if role == "user":
            self.request = index
            self.opening = self.opening or index + 1

    def prompt(self) -> list[Message]:
        return list(self.log)

    def replace(self, indexes: Iterable[int], text: str) -> None:
        for index in indexes:
            if index not in self.replaced:
                self.replaced[index] = {**self.log[index], "content": text}
                self.tokens[index] = tokens_of_text(text) + MESSAGE_TOKENS

    def shown(self, indexes: Iterable[int]) -> list[Message]:
        """The current messages, with their replacements."""
        return [self.replaced.get(at) or self.log[at] for at in indexes]

    def size(self, indexes: Iterable[int]) -> int:
        return sum(map(self.tokens.__getitem__, indexes))

    def from_unit(self, first: int) -> list[int]:
        """The opening, the latest request if it would be lost, and the units from this one on."""
        kept = [index for unit in self.units[first:] for index in unit]
        lost = self.request >= self.opening and (not kept or self.request < kept[0])
        return [*range(self.opening), *([self.request] if lost else []), *kept]


class SlidingWindow(Everything):
    """The opening and as many of the newest units as fit, computed again for every prompt."""

    def prompt(self) -> list[Message]:
        left = self.budget - self.size(range(self.opening)) - self.tokens[self.request]
        first = len(self.units)
        while first and (left := left - self.size(self.units[first - 1])) >= 0:
            first -= 1
        return self.shown(self.from_unit(first))


class CutToHalf(Everything):
    """A window that is cut to half when it is full and then grows again, so that the cache is lost
    less often."""

    def start(self, budget: int) -> None:
        super().start(budget)
        self.first = 0

    def prompt(self) -> list[Message]:
        if self.size(self.from_unit(self.first)) > FULL * self.budget:
            self._cut()
        return self.shown(self.from_unit(self.first))

    def _cut(self) -> None:
        """Cuts to the first unit with which the page is at most half full. Sizes fall with every
        unit, except for a request that comes back, so the units are tried one by one."""
        while (
            self.first < len(self.units) - 1
            and self.size(self.from_unit(self.first)) > HALF * self.budget
        ):
            self.first += 1


class ClearResults(CutToHalf):
    """Clears all tool results but the newest few in place when the page is full; then cuts the
    window."""

    keep = 3

    def prompt(self) -> list[Message]:
        if sum(self.tokens) > FULL * self.budget:
            self.clear()
        return super().prompt()

    def clear(self) -> None:
        results = [at for at, message in enumerate(self.log) if message["role"] == "tool"]
        self.replace(results[: -self.keep], CLEARED)


class MaskObservations(ClearResults):
    """Shows only the newest ten observations; then cuts the window."""

    keep = 10

    def prompt(self) -> list[Message]:
        self.clear()
        return CutToHalf.prompt(self)


class DedupElseHalf(Everything):
    """Replaces repeated tool results except the newest; if that frees too little, drops half of the
    middle."""

    enough = 0.7

    def start(self, budget: int) -> None:
        super().start(budget)
        self.dropped = 0

    def prompt(self) -> list[Message]:
        before = self.size(self.kept())
        if before > FULL * self.budget:
            self.replace(self.repeated(), REPEATED)
            if self.size(self.kept()) > self.enough * before:
                self._drop()
        return self.shown(self.kept())

    def kept(self) -> list[int]:
        units = [*self.units[:1], *self.units[1 + self.dropped :]]
        return [*range(self.opening), *(index for unit in units for index in unit)]

    def _drop(self) -> None:
        middle = len(self.units) - 1
        while True:
            self.dropped += max(1, (middle - self.dropped) // 2)
            if self.dropped >= middle or self.size(self.kept()) <= FULL * self.budget:
                return

    def repeated(self) -> list[int]:
        """The results of calls that were repeated later, with the same arguments."""
        newest: dict[tuple[str, str], int] = {}
        older: list[int] = []
        for at, message in enumerate(self.log):
            for call in message.get("tool_calls") or ():
                result = self._result(at, call["id"])
                key = (call.get("name", ""), str(call.get("arguments")))
                if result is not None:
                    older += [newest[key]] if key in newest else []
                    newest[key] = result
        return older

    def _result(self, at: int, call: str) -> int | None:
        near = range(at + 1, min(at + 1 + LOOK_AHEAD, len(self.log)))
        return next((index for index in near if self.log[index].get("tool_call_id") == call), None)


BASELINES: dict[str, type[Everything]] = {
    "everything": Everything,
    "sliding window": SlidingWindow,
    "window, cut to half": CutToHalf,
    "clear results, keep 3": ClearResults,
    "mask observations, last 10": MaskObservations,
    "dedup, else drop half": DedupElseHalf,
}


_KEYS = ("role", "content", "tool_calls", "tool_call_id")


class Refold:
    """One conversation in memory, which renders a page before every turn."""

    def __init__(self, **config: Any) -> None:
        self.config = {"reserve_tokens": 0, **config}

    def start(self, budget: int) -> None:
        self.context = open_context(
            "replayed", store="memory:", window=budget, counter=tokens_of_text, config=self.config
        )

    def observe(self, message: Message) -> None:
        self.context.append(simple(message))

    def prompt(self) -> list[Message]:
        return [
            plain(message) for message in self.context.request(dialect="openai_chat")["messages"]
        ]


def simple(message: Message) -> Message:
    """A recorded message without the recorder's own fields."""
    return {key: message[key] for key in _KEYS if key in message}


def plain(message: Message) -> Message:
    """A message in the measure's shape: content as one string, calls without their wrapper."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content)
    calls = [
        {"id": call["id"], **call.get("function", call)} for call in message.get("tool_calls") or ()
    ]
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}
