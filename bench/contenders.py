"""refold as a policy among others: the default configuration, its presets, and an oracle that knows
the future.

The whole window is usable as input (`reserve_tokens` 0), and refold counts as the measure does, so
that all have the same budget. The oracle is the gist with one thing replaced: how likely a name is
needed is not estimated but known. It says how much of what is lost could still be won by choosing
better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import refold
from bench.sessions import Message
from refold.replay.policies import BASELINES, Policy, Refold
from refold.strategies.gist.names import Needs
from refold.strategies.registry import strategy

PRESETS: dict[str, tuple[str, ...]] = {
    "refold, dedup + hide": ("dedup", "hide"),
    "refold, clear + hide": ("clear", "hide"),
    "refold, window": ("window",),
    "refold, importance": ("importance",),
}


class Oracle(Refold):
    """The default, told beforehand which names later actions will use, and how often."""

    def foresee(self, uses: Iterable[tuple[int, Iterable[str]]]) -> None:
        """`uses` are the needs of each action by the index of its message, in order."""
        self.uses = list(uses)
        self.ahead = Counter(name for _, names in self.uses for name in names)
        self.seen = self.used = 0

    def observe(self, message: Message) -> None:
        self.seen += 1
        while self.used < len(self.uses) and self.uses[self.used][0] < self.seen:
            self.ahead.subtract(self.uses[self.used][1])
            self.used += 1
        super().observe(message)

    def prompt(self) -> list[Message]:
        with needs_known(self.ahead):
            return super().prompt()


@contextmanager
def needs_known(ahead: Counter[str]) -> Iterator[None]:
    """While this lasts, a name's odds are the number of times that it will be needed."""
    estimated = Needs.odds
    Needs.odds = lambda self, names: {name: float(ahead[name]) for name in names}  # type: ignore[method-assign]
    try:
        yield
    finally:
        Needs.odds = estimated  # type: ignore[method-assign]


def contenders(only: Iterable[str] = ()) -> tuple[dict[str, Callable[[], Policy]], list[str]]:
    """The policies by name, and the names of those that this version of refold does not have."""
    found: dict[str, Callable[[], Policy]] = {"refold": Refold}
    missing = []
    for name, ladder in PRESETS.items():
        if all(map(_is_known, ladder)):
            found[name] = partial(Refold, ladder=ladder)
        else:
            missing.append(name)
    found |= {"oracle": Oracle, **BASELINES}
    wanted = list(only)
    if wanted:
        found = {name: make for name, make in found.items() if any(part in name for part in wanted)}
    return found, missing


def _is_known(name: str) -> bool:
    try:
        strategy(name)
    except refold.Invalid:
        return False
    return True
