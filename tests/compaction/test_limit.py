"""Always fits: whatever is appended, what is sent is within the input limit of the model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import OverBudget
from refold.tokens.models import model_info, table

CHARS = 30_000  # of a page that fills a window: each character counts so many tokens


def by_character(model: str) -> Any:
    each = max(1, model_info(model).window // CHARS)
    return lambda text: len(text) * each


def opened(model: str, **given: Any) -> refold.Context:
    return refold.open(
        "x", store="memory:", model=model, embedder=False, counter=by_character(model), **given
    )


def text_of(model: str, share: float, line: int) -> str:
    """A text of so much of the window, in lines of this length."""
    each = max(1, model_info(model).window // CHARS)
    chars = int(model_info(model).window * share / each)
    lines = [f"line {n} ".ljust(line, "x") for n in range(chars // line + 1)]
    return "\n".join(lines)[:chars]


@pytest.mark.parametrize("model", sorted(table().models))
@settings(max_examples=4)
@given(
    shares=st.lists(st.floats(0.01, 1.4), min_size=1, max_size=4), line=st.sampled_from([40, 10**6])
)
def test_what_is_sent_is_within_the_input_limit_of_every_model(
    model: str, shares: list[float], line: int
) -> None:
    """C-83, X-10."""
    with opened(model) as context:
        for number, share in enumerate(shares):
            role = "assistant" if number % 2 else "user"
            context.append({"role": role, "content": text_of(model, share, line)})
            context.request()
            assert context.stats().current <= context.budget.input_max


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5"])
@pytest.mark.parametrize("share", [0.75, 0.875, 0.95, 0.975, 1.025])
def test_a_message_between_the_input_limit_and_the_window_is_cut(model: str, share: float) -> None:
    """C-83, X-10: it used to be sent whole."""
    with opened(model) as context:
        context.append({"role": "user", "content": text_of(model, share, 40)})
        before = context.stats().current
        context.request()
        after = context.stats().current
        limit = context.budget.input_max
        assert after <= limit
        assert after == before or (before > limit and after > limit // 2)


def test_requests_of_usual_size_are_cut_where_the_page_would_not_fit_otherwise() -> None:
    system = "s" * 4_900
    with refold.open(
        "x", store="memory:", window=10_000, counter=len, system=system, embedder=False
    ) as context:
        for letter in "abcd":
            context.append({"role": "user", "content": letter * 1_100})
            context.request("openai_chat")
            assert context.stats().current <= context.budget.input_max


def test_a_system_prompt_may_take_from_a_reserve_that_was_only_assumed() -> None:
    """X-12: said once, nothing compacted, and sent; not where somebody set the reserve."""
    given: dict[str, Any] = {"window": 32_768, "counter": len, "system": "s" * 29_000}
    with refold.open("x", store="memory:", embedder=False, **given) as context:
        heard: list[str] = []
        context.on("*", lambda notice: heard.append(notice.name))
        for number in range(46):
            context.append({"role": "user", "content": f"{number}"})
            context.request("openai_chat")
        assert heard.count("budget-unreachable") == 1
        assert "compaction-complete" not in heard
    config = {"reserve_tokens": 4_096}
    with refold.open("x", store="memory:", embedder=False, config=config, **given) as context:
        context.append({"role": "user", "content": "go"})
        with pytest.raises(OverBudget, match="28,672 of a window of 32,768"):
            context.request("openai_chat")


def test_a_system_prompt_over_the_models_own_input_limit_is_refused() -> None:
    with opened("gpt-5", system=text_of("gpt-5", 0.9, 40)) as context:
        context.append({"role": "user", "content": "go"})
        with pytest.raises(OverBudget, match="272,000"):
            context.request()
