"""What was worked out of a text, remembered up to a bound, so that memory does not grow with the
conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

TEXTS_MAX = 20_000

Found = TypeVar("Found")


class Memo(dict[str, Found]):
    """A function of a text whose answers are kept. A full memory starts anew: that costs less
    than keeping an order."""

    def __init__(self, find: Callable[[str], Found]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, text: str) -> Found:
        if len(self) >= TEXTS_MAX:
            self.clear()
        self[text] = found = self._find(text)
        return found
