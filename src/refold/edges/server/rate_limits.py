"""Limits per caller, and limits on simultaneous work.

A bucket per token refills at a steady rate; unknown tokens empty a bucket per address, to prevent
guessing, which never affects known tokens. A full server refuses at once (`Busy`), before memory
grows. Limits apply to one machine: its processes divide them (`share`), and each counts its own.
Neighbours: `serve` gets the limits, `access`, `change_feed` and `app` enforce them.
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
    """The limits of a server, with sizes in bytes and times in seconds. `held_bytes` is the total
    of all bodies being read or written; `calls_at_once` counts running calls, without slow senders
    and listeners."""

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
        """The share of one process; each has room for at least one body."""
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
    """The default limits with these changes, each as NAME=NUMBER."""
    changes = dict(_limit_of(text) for text in texts)
    limits = decoding.convert(changes, Limits)
    if limits.held_bytes < limits.body_bytes:
        message = (
            f"held_bytes of {limits.held_bytes:,} has no room for a body of {limits.body_bytes:,}"
        )
        raise Invalid(message, hint="pass body_bytes and held_bytes together")
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
    """Too many calls: status 429, with the time until a retry."""

    code = "busy"


class Flood(Busy):
    """Too many calls without a token from one address. The connection is closed, so that calls sent
    ahead on it need not be read."""


class Buckets:
    """One bucket per name; the least recently used are forgotten."""

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s, self._most = per_s, most
        self.levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Takes one token from the bucket; raises Busy if it is empty."""
        now = time.monotonic()
        level, at = self.levels.get(name, (self._most, now))
        level = min(self._most, level + (now - at) * self._per_s)
        if level < 1.0:
            wait_s = (1.0 - level) / self._per_s
            raise Busy("too many calls", retry_after_s=wait_s, hint="send fewer calls")
        self.levels[name] = level - 1.0, now
        self.levels.move_to_end(name)
        if len(self.levels) > BUCKETS_MAX:
            self.levels.popitem(last=False)
