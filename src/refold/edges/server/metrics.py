"""What the server counts, as Prometheus reads it. No name of a conversation or a person stands in
it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """Counts of one process; only the loop's thread writes to them."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self._times = [0] * (len(BOUNDS_S) + 1)  # how many calls took so long, by bound
        self.time_s = 0.0
        self.events = 0
        self.refused: Counter[str] = Counter()

    def count(self, route: str, status: int, took_s: float) -> None:
        self.calls[route, status] += 1
        self.time_s += took_s
        self._times[bisect_left(BOUNDS_S, took_s)] += 1

    def text(self, gauges: dict[str, int]) -> str:
        """The counts in Prometheus' text format."""
        lines = ["# TYPE refold_calls_total counter"]
        for (route, status), count in sorted(self.calls.items()):
            lines.append(f'refold_calls_total{{route="{route}",status="{status}"}} {count}')
        lines.append("# TYPE refold_call_seconds histogram")
        total = sum(self.calls.values())
        for le, count in zip(BOUNDS_S, accumulate(self._times)):
            lines.append(f'refold_call_seconds_bucket{{le="{le}"}} {count}')
        lines += [
            f'refold_call_seconds_bucket{{le="+Inf"}} {total}',
            f"refold_call_seconds_sum {self.time_s:.6f}",
            f"refold_call_seconds_count {total}",
            "# TYPE refold_events_appended_total counter",
            f"refold_events_appended_total {self.events}",
            "# TYPE refold_refused_total counter",
        ]
        for why, count in sorted(self.refused.items()):
            lines.append(f'refold_refused_total{{why="{why}"}} {count}')
        for name, value in sorted(gauges.items()):
            lines += [f"# TYPE refold_{name} gauge", f"refold_{name} {value}"]
        return "\n".join(lines) + "\n"
