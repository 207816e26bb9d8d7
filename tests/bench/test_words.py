"""What a user typed stays on the page; the measure of it, on examples made by hand."""

from __future__ import annotations

import pytest
from bench.exact import Found
from bench.words import POINTS, points_kept, run, typed_lines, weigh_words

from refold.replay.policies import BASELINES, Refold


def test_only_what_a_person_typed_is_counted() -> None:
    typed = {"role": "user", "content": "Use  the port 8443.\nok\nNever touch the till."}
    assert typed_lines(typed, 4_000) == ["Use the port 8443.", "Never touch the till."]
    assert typed_lines({"role": "user", "content": "long " * 2_000}, 4_000) == []
    put_in = {"role": "user", "content": "<system-reminder>Be good to all.</system-reminder>"}
    assert typed_lines(put_in, 4_000) == []
    assert typed_lines({"role": "assistant", "content": "Now I look at it."}, 4_000) == []


def test_a_line_that_went_off_the_page_is_missed() -> None:
    said = [
        {"role": "user", "content": f"Rule number {n}: keep the limit at {n}."} for n in range(9)
    ]
    work = [{"role": "assistant", "content": "some words " * 300} for _ in range(30)]
    messages = [*said, *work]
    everything, half = Found(), Found()
    weigh_words(BASELINES["everything"](), messages, 4_000, everything)
    weigh_words(BASELINES["window, cut to half"](), messages, 4_000, half)
    assert everything.row()[:2] == (1.0, 1.0)
    assert half.row()[0] < 0.5


@pytest.mark.parametrize("window", [12_000, 24_000, 64_000])
def test_every_point_of_a_typed_specification_stays_on_the_page(window: int) -> None:
    assert points_kept(Refold(), window, turns=250) == POINTS


def test_without_sessions_the_specification_is_measured_alone() -> None:
    [table] = run([])
    assert "specification" in str(table) and "NO" not in str(table)
