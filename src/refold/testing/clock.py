"""A clock that stands still until a test moves it.

It is the clock of every conversation that is opened while it is in force, and stays so after.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refold.log import log

HOUR_MS = 3_600_000


class Clock:
    """The time in milliseconds, as a test says it is."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def __call__(self) -> int:
        return self.at_ms

    def advance(self, *, ms: int = 0, hours: float = 0.0) -> None:
        """Moves the time forward."""
        self.at_ms += ms + round(hours * HOUR_MS)


@contextmanager
def fixed_clock(at_ms: int) -> Iterator[Clock]:
    """Conversations that are opened inside of this have a clock that stands still."""
    clock, before = Clock(at_ms), log.now_ms
    log.now_ms = clock
    try:
        yield clock
    finally:
        log.now_ms = before
