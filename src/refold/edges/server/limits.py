"""How much one caller may ask, and how much this server takes in at once.

A bucket per token refills at a steady rate; unknown tokens empty a bucket per address, so that
nobody can guess, and a token that is known is never refused for it. A server that is full says so
at once (`Busy`), before memory grows. What is set is for one machine: its processes divide it
(`share`), and each counts its own. Neighbours: `serve` is told the limits, `gate`, `bodies`,
`listening` and `app` keep them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.checked import quoted
from refold.display import suggestion
from refold.errors import Invalid, Unavailable

BUCKETS_MAX = 10_000
LEAST, MOST = 1, 1 << 40


class Limits(Struct, frozen=True, kw_only=True):
    """What a server is told. Sizes in bytes, times in seconds. `held_bytes` is what all bodies
    have that are being read or written; `calls_at_once` are those at work: whoever is slow to
    send or to listen is not."""

    body_bytes: int = 24 * 1024 * 1024
    artifact_bytes: int = 1024 * 1024 * 1024
    calls_per_s: float = 500.0
    burst: int = 2_000
    wrong_tokens_per_minute: int = 30
    open_calls_per_s: float = 100.0
    calls_at_once: int = 256
    listeners: int = 2_000
    held_bytes: int = 256 * 1024 * 1024
    body_s: float = 30.0
    upload_s: float = 600.0
    header_s: float = 15.0
    call_s: float = 60.0

    def share(self, workers: int) -> Limits:
        """What one of so many processes may take. Every one has room for a body."""
        return replace(
            self,
            calls_per_s=self.calls_per_s / workers,
            burst=max(1, self.burst // workers),
            wrong_tokens_per_minute=max(1, self.wrong_tokens_per_minute // workers),
            open_calls_per_s=max(1.0, self.open_calls_per_s / workers),
            calls_at_once=max(1, self.calls_at_once // workers),
            listeners=max(1, self.listeners // workers),
            held_bytes=max(self.body_bytes, self.held_bytes // workers),
        )


def limits_of(texts: Sequence[str]) -> Limits:
    """The limits with those that are said otherwise, each as NAME=NUMBER."""
    given = dict(_limit_of(text) for text in texts)
    limits = decoding.convert(given, Limits)
    if limits.held_bytes < limits.body_bytes:
        said = (
            f"held_bytes of {limits.held_bytes:,} has no room for a body of {limits.body_bytes:,}"
        )
        raise Invalid(said, hint="give body_bytes and held_bytes together")
    return limits


def _limit_of(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    types = {field.name: field.type for field in msgspec.structs.fields(Limits)}
    if name not in types:
        raise Invalid(f"{quoted(name)} is not a limit", hint=suggestion(name, types))
    try:
        number: float = decoding.convert(value, types[name], strict=False)
    except msgspec.ValidationError:
        number = 0
    if not LEAST <= number <= MOST:
        whole = "a whole number" if types[name] is int else "a number"
        raise Invalid(f"{name} cannot be {quoted(value)}", hint=f"{whole} from {LEAST} up")
    return name, number


class Busy(Unavailable):
    """Too many calls: 429, with when to try again."""

    code = "busy"


class Flood(Busy):
    """Too many calls without a token from one address: the connection is closed, because what was
    sent ahead on it would have to be read as well."""


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

    def _level(self, name: str) -> tuple[float, float]:
        now = time.monotonic()
        level, at = self._levels.get(name, (self._most, now))
        return min(self._most, level + (now - at) * self._per_s), now

    def _keep(self, name: str, level: float, at: float) -> None:
        self._levels[name] = level, at
        self._levels.move_to_end(name)
        if len(self._levels) > BUCKETS_MAX:
            self._levels.popitem(last=False)
