"""A prompt cache as the providers have it: what was sent before is read, the rest is written.

A front is a chained digest over the units of a request. With marks (Anthropic) only marked fronts
are written, and a mark finds what was written up to 20 units before it; without (OpenAI, Gemini)
every front counts. Fronts below a minimum of tokens are not cached. Nothing expires unless it is
told to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tests.real.proxy.strict.wire import digest, tokens_in

_LOOKED_BACK = 20


@dataclass(frozen=True)
class Cached:
    read: int
    written: int
    rest: int


class Cache:
    def __init__(self, tokens_min: int) -> None:
        self.tokens_min = tokens_min
        self._known: set[str] = set()
        self._lock = Lock()

    def forget(self) -> None:
        with self._lock:
            self._known.clear()

    def marked(self, scope: str, units: Sequence[Any], marks: Sequence[int]) -> Cached:
        """What a request with marks after these units reads and writes."""
        fronts, sums = _chain(scope, units)
        with self._lock:
            read = max((self._found(fronts, sums, mark) for mark in marks), default=0)
            long = [mark for mark in marks if sums[mark] >= self.tokens_min]
            self._known.update(fronts[mark] for mark in long)
        end = max((sums[mark] for mark in long), default=0)
        total = sums[-1] if sums else 0
        return Cached(read, max(0, end - read), total - max(read, end))

    def _found(self, fronts: list[str], sums: list[int], mark: int) -> int:
        for at in range(mark, max(-1, mark - _LOOKED_BACK), -1):
            if fronts[at] in self._known:
                return sums[at]
        return 0

    def automatic(self, scope: str, units: Sequence[Any]) -> Cached:
        """What a request without marks reads; everything is written, at no price."""
        fronts, sums = _chain(scope, units)
        with self._lock:
            known = [sum for front, sum in zip(fronts, sums) if front in self._known]
            self._known.update(fronts)
        read = max((sum for sum in known if sum >= self.tokens_min), default=0)
        return Cached(read, 0, (sums[-1] if sums else 0) - read)


def _chain(scope: str, units: Sequence[Any]) -> tuple[list[str], list[int]]:
    """The digest and the tokens of every front."""
    fronts: list[str] = []
    sums: list[int] = []
    front, total = scope, 0
    for unit in units:
        front, total = digest(front, unit), total + tokens_in(unit)
        fronts.append(front)
        sums.append(total)
    return fronts, sums
