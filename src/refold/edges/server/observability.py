"""The server's metrics for Prometheus, and its log. Neither has contents, names of conversations or
people, or secrets.

Several workers share one port, so a scraper cannot choose which of them answers. Each writes its
counts to a file of its own each second, and the answering one adds up all; counts of an ended
worker stay. The log is one JSON object a line, with event and time. The reason why a store is away
is for the operator: it is in the log, not in the answer. Neighbours: `app` and `feed` count and
log, `serve` makes the folder and configures the log.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from refold import decoding
from refold.errors import Denied, RefoldError, Unavailable
from refold.redaction import redacted
from refold.stores import Encrypted

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
ENDED_S = 10.0  # a worker without a write for this time has ended
FILES_MAX = 1_000


class Counts(Struct, frozen=True, kw_only=True):
    """What one process counted so far. `times` are calls by how long they took, `gauges` what is
    so right now."""

    calls: list[tuple[str, int, int]]  # route, status, how many
    times: list[int]
    time_s: float
    events: int
    refused: dict[str, int]
    gauges: dict[str, int]


class Metrics:
    """Counts of one process; only the loop's thread writes to them, except for events."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self._times = [0] * (len(BOUNDS_S) + 1)
        self.time_s = 0.0
        self.events = 0
        self._adding = threading.Lock()
        self.refused: Counter[str] = Counter()

    def count(self, route: str, status: int, took_s: float) -> None:
        self.calls[route, status] += 1
        self.time_s += took_s
        self._times[bisect_left(BOUNDS_S, took_s)] += 1

    def add_events(self, number: int) -> None:
        """So many were appended. Called by any thread."""
        with self._adding:
            self.events += number

    def counts(self, gauges: dict[str, int]) -> Counts:
        """All of it at this moment; copied first, because it is counted on meanwhile."""
        return Counts(
            calls=[(*which, count) for which, count in self.calls.copy().items()],
            times=list(self._times),
            time_s=self.time_s,
            events=self.events,
            refused=dict(self.refused.copy()),
            gauges=gauges,
        )


class Shared:
    """The counts of the other workers, in a folder that all of them know."""

    def __init__(self, folder: str) -> None:
        self._folder, self._own = Path(folder), f"{os.getpid()}.json"

    def write(self, counts: Counts) -> None:
        """Puts down what this worker counted. A folder that is gone, or a disk that is full, does
        not keep anybody from serving: the others then know less of this one."""
        new = self._folder / f"{self._own}.new"
        with contextlib.suppress(OSError):
            new.write_bytes(msgspec.json.encode(counts))
            new.replace(self._folder / self._own)

    def others(self) -> Iterator[Counts]:
        """What the other workers counted; of those that have ended, not what is so right now."""
        found = sorted(self._folder.glob("*.json"))[:FILES_MAX]
        for path in found:
            with contextlib.suppress(OSError):
                if path.name != self._own:
                    age_s = time.time() - path.stat().st_mtime
                    counts = decoding.decode(path.read_bytes(), Counts)
                    yield msgspec.structs.replace(counts, gauges={}) if age_s > ENDED_S else counts


def text_of(workers: Sequence[Counts]) -> str:
    """The counts of all workers together, in Prometheus' text format."""
    calls: Counter[tuple[str, int]] = Counter()
    refused: Counter[str] = Counter()
    gauges: Counter[str] = Counter()
    times = [sum(of_one) for of_one in zip(*(one.times for one in workers), strict=True)]
    for one in workers:
        for route, status, count in one.calls:
            calls[route, status] += count
        refused.update(one.refused)
        gauges.update(one.gauges)
    lines = ["# TYPE refold_calls_total counter"]
    for (route, status), count in sorted(calls.items()):
        lines.append(f'refold_calls_total{{route="{route}",status="{status}"}} {count}')
    lines += _histogram(times, sum(one.time_s for one in workers))
    events = sum(one.events for one in workers)
    lines += [
        "# TYPE refold_events_appended_total counter",
        f"refold_events_appended_total {events}",
        "# TYPE refold_refused_total counter",
    ]
    for why, count in sorted(refused.items()):
        lines.append(f'refold_refused_total{{why="{why}"}} {count}')
    for name, value in sorted(gauges.items()):
        lines += [f"# TYPE refold_{name} gauge", f"refold_{name} {value}"]
    return "\n".join(lines) + "\n"


def _histogram(times: Sequence[int], time_s: float) -> list[str]:
    lines = ["# TYPE refold_call_seconds histogram"]
    for le, count in zip(BOUNDS_S, accumulate(times)):
        lines.append(f'refold_call_seconds_bucket{{le="{le}"}} {count}')
    return [
        *lines,
        f'refold_call_seconds_bucket{{le="+Inf"}} {sum(times)}',
        f"refold_call_seconds_sum {time_s:.6f}",
        f"refold_call_seconds_count {sum(times)}",
    ]


LINES_MAX = 500
REASON_CHARS_MAX = 500
STORE_AGAIN_S = 5.0
SYNCED_HINT = "a device with the key syncs it, and reads and writes it there"
log = logging.getLogger("refold.server")


def line(event: str, **said: object) -> str:
    """One line of the log."""
    return json.dumps({"event": event, "at": round(time.time(), 3), **said})


def warn(event: str, error: RefoldError, **said: object) -> None:
    """Logs a failure and its reason."""
    log.warning(line(event, **said, error=error.code, reason=_reason(error), hint=error.hint))


def _reason(error: RefoldError) -> str:
    """The reason, without secrets. A path may have the name of a conversation in it, so an error of
    the system is reduced to its own text."""
    cause = error.__cause__
    said = cause.strerror if isinstance(cause, OSError) and cause.strerror else error.message
    return redacted(said)[:REASON_CHARS_MAX]


def as_callers_see(error: RefoldError) -> RefoldError:
    """Where the store is, who may use it and which version it has is not for callers: to them it
    is away for a moment, and another server may have it. The log says what it is. What is encrypted
    stays so however often it is asked for: that is refused for good."""
    if isinstance(error, Encrypted):
        return Denied(f"{error.said}, which no server has", hint=SYNCED_HINT)
    warn("store", error)
    again_s = error.retry_after_s if isinstance(error, Unavailable) else None
    said = "the store of this server cannot serve now"
    hint = "try again; the log of the server says why"
    return Unavailable(said, retry_after_s=again_s or STORE_AGAIN_S, hint=hint)


class CallLines:
    """The lines of the last calls, written together: that costs less than one by one."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, scope: MutableMapping[str, Any], status: int, took_s: float) -> None:
        """One line a call, without contents, names of conversations, or secrets."""
        if log.isEnabledFor(logging.INFO):
            route, token = scope["refold.route"], scope.get("refold.token", "")
            # All of these are ours, and none has a character that JSON would escape.
            self._lines.append(
                f'{{"event": "call", "at": {time.time():.3f}, "route": "{route}", '
                f'"status": {status}, "ms": {took_s * 1_000:.2f}, "token": "{token}"}}'
            )
            if len(self._lines) >= LINES_MAX:
                self.write()

    def write(self) -> None:
        if self._lines:
            log.info("\n".join(self._lines))
            self._lines = []
