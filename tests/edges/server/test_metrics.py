"""The metrics of a machine are those of all its workers, whichever of them is asked; and they never
go back when one ends."""

from __future__ import annotations

import os
import re

from hypothesis import given
from hypothesis import strategies as st

from refold.edges.server import observability
from refold.edges.server.observability import BOUNDS_S, Counts, Metrics, Shared, text_of

CALLS = st.lists(
    st.tuples(st.sampled_from(["get-a", "post-b"]), st.sampled_from([200, 404]), st.floats(0, 9))
)


def counted(calls: list[tuple[str, int, float]], running: int = 1) -> Counts:
    one = Metrics()
    for route, status, took_s in calls:
        one.count(route, status, took_s)
        one.events += 1
    return one.counts({"calls_running": running})


@given(workers=st.lists(CALLS, min_size=1, max_size=5))
def test_several_workers_count_what_one_would_have(workers: list[list[tuple[str, int, float]]]):
    together = text_of([counted(calls) for calls in workers])
    alone = text_of([counted([call for calls in workers for call in calls], len(workers))])

    def without_sum(text: str) -> str:  # floats that are added in another order
        return re.sub(r"(seconds_sum .*\.\d)\d*", r"\1", text)

    assert without_sum(together) == without_sum(alone)


def test_a_worker_finds_the_others_and_not_itself(tmp_path, monkeypatch):
    for pid, calls in ((101, 3), (102, 4)):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        Shared(str(tmp_path)).write(counted([("get-a", 200, 0.1)] * calls))
    shared = Shared(str(tmp_path))
    assert [one.events for one in shared.others()] == [3]
    # One that has ended is counted, but nothing of it runs.
    os.utime(tmp_path / "101.json", (0, 0))
    [ended] = shared.others()
    assert (ended.events, ended.gauges) == (3, {})


def test_a_folder_that_is_gone_keeps_nobody_from_serving(tmp_path):
    shared = Shared(str(tmp_path / "gone"))
    shared.write(counted([]))
    assert list(shared.others()) == []


def test_the_buckets_of_the_histogram_add_up():
    text = text_of([counted([("get-a", 200, bound) for bound in (*BOUNDS_S, 99.0)])])
    buckets = [int(one) for one in re.findall(r"_bucket\{.*\} (\d+)", text)]
    assert buckets == list(range(1, len(BOUNDS_S) + 2))
    assert observability.ENDED_S > 1
