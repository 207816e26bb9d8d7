"""The measure of turns and openings, on a small workload."""

from __future__ import annotations

from pathlib import Path

from bench.cells import cold_open, score, seed
from bench.subjects import SUBJECTS
from bench.workload import Workload


def test_the_workload_is_the_same_for_the_same_seed() -> None:
    assert list(Workload(3).take(5)) == list(Workload(3).take(5))
    assert list(Workload(3).take(5)) != list(Workload(4).take(5))


def test_both_subjects_can_be_seeded_scored_and_opened(tmp_path: Path) -> None:
    for name, subject in SUBJECTS.items():
        assert seed(subject(), tmp_path, 40, [40])["turns"] == 19, name
        assert score(subject(), tmp_path, 5)["turn_us"] > 0
        assert cold_open(subject(), tmp_path)["messages"] > 40
