"""How much one caller may ask, and how much this server takes in at once.

A bucket per token refills at a steady rate; wrong tokens empty a bucket per address, so that nobody
can guess. A server that is full says so at once (`Busy`), before memory grows. All of it is in this
process: behind several servers each has its share.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from msgspec import Struct

from refold.errors import Unavailable

BUCKETS_MAX = 10_000


class Limits(Struct, frozen=True, kw_only=True):
    """What a server is told. Sizes in bytes, times in seconds. `held_bytes` is what all bodies
    have that are being read or written; `calls_at_once` are those at work: whoever is slow to
    send or to listen is not."""

    body_bytes: int = 24 * 1024 * 1024
    artifact_bytes: int = 1024 * 1024 * 1024
    calls_per_s: float = 500.0
    burst: int = 2_000
    wrong_tokens_per_minute: int = 30
    calls_at_once: int = 256
    listeners: int = 2_000
    held_bytes: int = 256 * 1024 * 1024
    body_s: float = 30.0
    upload_s: float = 600.0
    header_s: float = 15.0
    call_s: float = 60.0


class Busy(Unavailable):
    """Too many calls: 429, with when to try again."""

    code = "busy"


class Buckets:
    """One bucket per name, the ones used longest ago forgotten first."""

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s, self._most = per_s, most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Takes one from the bucket; Busy if it is empty."""
        level, at = self._level(name)
        if level < 1.0:
            wait_s = (1.0 - level) / self._per_s
            raise Busy("too many calls", retry_after_s=wait_s, hint="slow down")
        self._keep(name, level - 1.0, at)

    def check(self, name: str) -> None:
        """Busy if the bucket is empty; takes nothing."""
        if name not in self._levels:
            return
        level, _ = self._level(name)
        if level < 1.0:
            raise Busy("too many wrong tokens", retry_after_s=(1.0 - level) / self._per_s)

    def _level(self, name: str) -> tuple[float, float]:
        now = time.monotonic()
        level, at = self._levels.get(name, (self._most, now))
        return min(self._most, level + (now - at) * self._per_s), now

    def _keep(self, name: str, level: float, at: float) -> None:
        self._levels[name] = level, at
        self._levels.move_to_end(name)
        if len(self._levels) > BUCKETS_MAX:
            self._levels.popitem(last=False)
