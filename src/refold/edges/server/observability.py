"""The server's metrics for Prometheus, and its log. Neither contains content, names of
conversations or people, or secrets.

Several workers share one port, so a scraper cannot choose which one answers. Each worker writes its
counts to its own file every second, and the worker that answers adds them up; the counts of a
worker that has exited are kept. The log has one JSON object per line, with an event name and a
time. The reason why a store is unavailable is for the operator: it is in the log, not in the
response. Neighbours: `app` and `change_feed` count and log, `serve` creates the folder and
configures the log.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
import traceback
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
from refold.system.disk import replace_file

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
ENDED_S = 10.0  # a worker that has not written for this long has exited
FILES_MAX = 1_000


class Counts(Struct, frozen=True, kw_only=True):
    """The counts of one process. `times` has the number of calls by duration, `gauges` the
    current values."""

    calls: list[tuple[str, int, int]]  # route, status, count
    times: list[int]
    time_s: float
    events: int
    refused: dict[str, int]
    gauges: dict[str, int]


class Metrics:
    """The counts of one process. Only the event loop's thread changes them, except for `events`."""

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
        """Counts appended events. Any thread may call this."""
        with self._adding:
            self.events += number

    def counts(self, gauges: dict[str, int]) -> Counts:
        """A copy of the current counts, because counting continues."""
        return Counts(
            calls=[(*call, count) for call, count in self.calls.copy().items()],
            times=list(self._times),
            time_s=self.time_s,
            events=self.events,
            refused=dict(self.refused.copy()),
            gauges=gauges,
        )


class Shared:
    """The counts of all workers, in a shared folder."""

    def __init__(self, folder: str) -> None:
        self._folder, self._own = Path(folder), f"{os.getpid()}.json"

    def write(self, counts: Counts) -> None:
        """Writes this worker's counts. A missing folder or a full disk does not stop the server;
        the other workers then see older counts."""
        with contextlib.suppress(OSError):
            replace_file(str(self._folder / self._own), msgspec.json.encode(counts))

    def others(self) -> Iterator[Counts]:
        """The counts of the other workers; without gauges for those that have exited."""
        for path in sorted(self._folder.glob("*.json"))[:FILES_MAX]:
            with contextlib.suppress(OSError):
                if path.name != self._own:
                    age_s = time.time() - path.stat().st_mtime
                    counts = decoding.decode(path.read_bytes(), Counts)
                    yield msgspec.structs.replace(counts, gauges={}) if age_s > ENDED_S else counts


def text_of(workers: Sequence[Counts]) -> str:
    """The combined counts of all workers, in the Prometheus text format."""
    calls: Counter[tuple[str, int]] = Counter()
    refused: Counter[str] = Counter()
    gauges: Counter[str] = Counter()
    times = [sum(bucket) for bucket in zip(*(counts.times for counts in workers), strict=True)]
    for counts in workers:
        for route, status, count in counts.calls:
            calls[route, status] += count
        refused.update(counts.refused)
        gauges.update(counts.gauges)
    lines = ["# TYPE refold_calls_total counter"]
    for (route, status), count in sorted(calls.items()):
        lines.append(f'refold_calls_total{{route="{route}",status="{status}"}} {count}')
    lines += _histogram(times, sum(counts.time_s for counts in workers))
    events = sum(counts.events for counts in workers)
    lines += [
        "# TYPE refold_events_appended_total counter",
        f"refold_events_appended_total {events}",
        "# TYPE refold_refused_total counter",
    ]
    for reason, count in sorted(refused.items()):
        lines.append(f'refold_refused_total{{why="{reason}"}} {count}')
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
SYNCED_HINT = "sync it to a device with the key, and use it there"
log = logging.getLogger("refold.server")


def line(event: str, **fields: object) -> str:
    """One line of the log."""
    return json.dumps({"event": event, "at": round(time.time(), 3), **fields})


def warn(event: str, error: RefoldError, **fields: object) -> None:
    """Logs a failure and its reason."""
    log.warning(line(event, **fields, error=error.code, reason=_reason(error), hint=error.hint))


def fault(error: Exception) -> None:
    """Logs a bug: the kind of the error and its place, but not its text, which may quote a call."""
    where = traceback.format_exception(error)[-2:-1]
    log.error(line("fault", error=type(error).__name__, where=where))


def _reason(error: RefoldError) -> str:
    """The reason, without secrets. Paths may contain names of conversations, so an
    operating system error is reduced to the system's own text."""
    cause = error.__cause__
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else error.message
    return redacted(text)[:REASON_CHARS_MAX]


def as_callers_see(error: RefoldError) -> RefoldError:
    """The error that a caller gets for a store's error: without details of the store, which go only
    to the log. The failure is reported as temporary, since another server may reach the store,
    except that encrypted content is refused for good."""
    if isinstance(error, Encrypted):
        return Denied(f"{error.said}, which no server has", hint=SYNCED_HINT)
    warn("store", error)
    retry_s = error.retry_after_s if isinstance(error, Unavailable) else None
    hint = "try again; the server log has the reason"
    message = "this server's store is unavailable"
    return Unavailable(message, retry_after_s=retry_s or STORE_AGAIN_S, hint=hint)


class CallLines:
    """The log lines of recent calls, written in batches, which is cheaper."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, scope: MutableMapping[str, Any], status: int, took_s: float) -> None:
        """Adds the line of a call, without contents, names of conversations, or secrets."""
        if log.isEnabledFor(logging.INFO):
            route, token = scope["refold.route"], scope.get("refold.token", "")
            # None of these values comes from the caller, and none has a character that JSON
            # escapes.
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
