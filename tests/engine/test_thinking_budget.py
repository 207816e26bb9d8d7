"""A thinking budget is part of what the answer may be long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold import Invalid
from refold.dialects import anthropic


def opened(model: str = "claude-sonnet-4-5", **given: Any) -> refold.Context:
    context = refold.open("x", store="memory:", model=model, **given)
    context.append({"role": "user", "content": "hi"})
    return context


def thinking(budget: Any) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget}


def test_the_budget_is_added_to_the_limit_of_the_answer() -> None:
    request = opened().request(thinking=thinking(10_000))
    assert request["max_tokens"] == 18_192 and anthropic.check(request) == []
    configured = opened(config={"output_tokens": 500}).request(thinking=thinking(10_000))
    assert configured["max_tokens"] == 10_500
    assert opened().request(thinking={"type": "disabled"})["max_tokens"] == 8_192
    assert opened().request(thinking={"type": "adaptive"})["max_tokens"] == 8_192


@pytest.mark.parametrize("budget", [None, "10000", True, 1.5])
def test_a_budget_that_is_no_number_is_left_to_the_provider(budget: Any) -> None:
    assert opened().request(thinking=thinking(budget))["max_tokens"] == 8_192


def test_a_limit_that_the_caller_gave_stays_and_check_reports_it() -> None:
    request = opened().request(thinking=thinking(10_000), max_tokens=9_000)
    assert request["max_tokens"] == 9_000
    assert any("thinking budget" in fault for fault in anthropic.check(request))


@given(budget=st.integers(1_024, 80_000), window=st.integers(40_000, 200_000))
def test_a_budget_fits_the_model_and_the_window_or_is_refused(budget: int, window: int) -> None:
    context = opened(window=window)
    most = min(64_000, window - context.stats().current)
    try:
        request = context.request(thinking=thinking(budget))
    except Invalid as error:
        assert budget + 1_024 > most and "budget_tokens" in str(error)
    else:
        assert budget < request["max_tokens"] <= most
        assert anthropic.check(request) == []
