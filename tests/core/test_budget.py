"""Thresholds in exact arithmetic; the current size is the provider's word plus what came since."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.config import Config, config_from
from refold.core.budget import budget_for, current_tokens, offload_tokens, page_tokens
from refold.core.fold import fold
from refold.core.model import Usage
from refold.errors import Invalid
from tests.core.logs import sealed, user


@pytest.mark.parametrize(
    ("window", "output", "limit"),
    [
        (200_000, 8_192, 191_808),
        (128_000, 4_096, 123_904),
        (1_000_000, 8_192, 991_808),
        (200_000, 64_000, 168_000),
    ],
)
def test_the_input_budget_is_the_window_less_the_reserve(window, output, limit):
    """Y-06."""
    assert budget_for(Config(), window=window, output=output).input_max == limit


def test_a_reported_maximum_input_wins_within_the_window():
    """X-10."""
    assert (
        budget_for(
            Config(reserve_tokens=0), window=400_000, output=None, input_max=272_000
        ).input_max
        == 272_000
    )
    assert (
        budget_for(
            Config(reserve_tokens=0), window=400_000, output=None, input_max=500_000
        ).input_max
        == 400_000
    )


def test_warning_and_compaction_start_exactly_at_their_ratio():
    """D1, Y-20."""
    budget = budget_for(Config(), window=128_000, output=None)
    sizes = (102_399, 102_400, 115_199, 115_200)
    assert [budget.level(size) for size in sizes] == ["ok", "warn", "warn", "compact"]


def test_where_the_budget_is_lower_it_wins_and_the_warning_moves_down():
    """Y-21: window 200,000 with 40,000 reserved."""
    budget = budget_for(Config(reserve_tokens=40_000), window=200_000, output=None)
    assert (budget.compact_at, budget.warn_at) == (160_000, 142_222)


def test_a_million_token_window_still_compacts():
    assert budget_for(Config(), window=1_000_000, output=8_192).compact_at == 256_000


def test_the_target_leaves_the_fixed_part_alone():
    budget = budget_for(Config(), window=100_000, output=4_096)
    assert budget.compact_at == 90_000
    assert budget.target(10_000) == 50_000


@given(share=st.floats(0, 1), said=st.integers(0, 10**9), window=st.integers(1, 10**6))
def test_a_share_of_what_was_said_moves_the_trigger_between_its_half_and_itself(
    share: float, said: int, window: int
) -> None:
    whole = budget_for(Config(), window=window, output=None)
    budget = whole.paced(share, said)
    assert whole.compact_at // 2 <= budget.compact_at <= whole.compact_at
    assert budget.warn_at <= budget.compact_at
    if whole.compact_at // 2 <= int(said * share) <= whole.compact_at:
        assert budget.compact_at == int(said * share)
    assert (budget.input_max, budget.critical_at) == (whole.input_max, whole.critical_at)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_lies_between_nothing_and_everything(share: float) -> None:
    with pytest.raises(Invalid, match="compact_share"):
        config_from({"compact_share": share})


def test_five_calls_bill_their_sum_and_leave_the_last_as_the_current_size():
    """Y-07, Y-08, trap 1: the sum of all inputs is not the size of the context."""
    bodies = [user()]
    for n, size in enumerate((10_000, 12_000, 14_000, 16_000, 18_000)):
        bodies += [
            user(),
            Usage(
                response=str(n), model="m", input=size, output=1_000, upto=len(bodies), replied=True
            ),
        ]
    view = fold(sealed(bodies, tokens=[9_000, *[1_000] * 10]))
    assert (view.totals.input, view.totals.output) == (70_000, 5_000)
    assert current_tokens(view, 1.0) == 19_000


def test_a_large_result_counts_before_the_next_call():
    """Y-09: 90,000 reported, 60,000 appended."""
    log = sealed(
        [
            user(),
            user(),
            Usage(response="r", input=89_000, output=1_000, upto=1, replied=True),
            user(),
        ],
        tokens=[80_000, 10, 0, 60_000],
    )
    assert current_tokens(fold(log), 1.0) == 150_000


def test_estimates_follow_the_provider_after_a_few_calls():
    """X-13: a true ratio of 1.3 over five calls, then within 5 %."""
    bodies = [user()]
    for n in range(5):
        bodies += [
            user(),
            Usage(
                response=str(n),
                model="m",
                input=13 * len([*bodies]),
                upto=len(bodies),
                replied=True,
            ),
        ]
    calibration = fold(sealed(bodies, tokens=[10] * len(bodies))).calibration["m"]
    assert 0.5 <= calibration <= 2.0


def test_page_tokens_undo_current_tokens():
    view = fold(sealed([user(), user()], tokens=[100, 200]))
    assert page_tokens(view, 1.5, current_tokens(view, 1.5)) == view.tokens


def test_offload_follows_the_window():
    """M-60, T-17, T-21."""
    assert [offload_tokens(Config(), window) for window in (24_000, 64_000, 200_000)] == [
        3_000,
        8_000,
        8_000,
    ]
    assert offload_tokens(Config(offload_tokens=5), 200_000) == 5


@pytest.mark.parametrize(
    "values",
    [
        {"warn_ratio": 1.5},
        {"compact_ratio": 0.0},
        {"warn_ratio": 0.95},
        {"warn_ratio": 0.05},
        {"tokens_cap": 0},
        {"reserve_tokens": -1},
        {"target_ratio": 1.0},
        {"durability": "sometimes"},
        {"ladder": "hide"},
        {"warn_rati": 0.5},
    ],
)
def test_a_bad_setting_is_refused_with_a_hint(values):
    """X-15, Y-01, G-61."""
    with pytest.raises(Invalid) as refused:
        config_from(values)
    assert refused.value.hint


@given(*[st.integers(30, 100)] * 3)
def test_ratios_out_of_order_are_refused_with_their_values(warn, compact, critical):
    """X-15: whoever sets one is told which other stands in its way, and where it would do."""
    values = {"warn_ratio": warn / 100, "compact_ratio": compact / 100}
    values["critical_ratio"] = critical / 100
    if warn < compact <= critical:
        assert config_from(values).compact_ratio == compact / 100
        return
    with pytest.raises(Invalid) as refused:
        config_from(values)
    assert str(compact / 100) in refused.value.message
    assert str(compact / 100) in refused.value.hint


def test_a_misspelt_setting_answers_with_the_nearest():
    with pytest.raises(Invalid, match="warn_rati") as refused:
        config_from({"warn_rati": 0.5})
    assert "warn_ratio" in refused.value.hint


@pytest.mark.parametrize(("window", "reserve"), [(0, None), (-5, None), (1_000, 1_000)])
def test_an_impossible_window_is_refused(window, reserve):
    """G-01, C-01."""
    with pytest.raises(Invalid):
        budget_for(Config(reserve_tokens=reserve), window=window, output=None)
