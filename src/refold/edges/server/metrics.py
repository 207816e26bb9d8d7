"""What the server counts, as Prometheus reads it. No name of a conversation or a person stands in
it.

Several workers share one port, so whoever asks cannot choose which of them answers. Each writes its
counts to a file of its own each second, and the one that is asked adds up all of them; what was
counted by a worker that has ended stays counted. Neighbours: `app` counts, `serve` makes the
folder.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec
from msgspec import Struct

from refold import decoding

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
ENDED_S = 10.0  # a worker that has not written for so long does nothing any more
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
