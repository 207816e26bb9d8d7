"""Candidates leave the queue by density."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from refold.strategies.gist.choice import Queue

DENSITIES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=12)


@given(DENSITIES, DENSITIES)
def test_a_queue_gives_the_densest_first_and_among_equals_the_lower_number(
    densities: list[float], again: list[float]
) -> None:
    queue = Queue(densities, floor=0.25)
    for index, density in enumerate(again):
        queue.push(density, index)
    expected = sorted(
        [(-d, i) for i, d in enumerate(densities) if d >= 0.25]
        + [(-d, i) for i, d in enumerate(again)]
    )
    while expected:
        density, index = expected.pop(0)
        assert not queue.is_ahead_of(-density)
        assert queue.pop() == index
        assert all(
            queue.is_ahead_of(limit) == (bool(expected) and -expected[0][0] > limit)
            for limit in (0.0, 0.5)
        )
    assert not queue
