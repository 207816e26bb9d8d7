"""A reported usage that cannot be true stays in the log, and nothing follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import refold
from refold.core.fold import USAGE_FRAME_TOKENS, fold
from refold.core.model import Totals, Usage
from tests.core.logs import sealed, user

PAGE = 10_000
FIELDS = ("input", "output", "cache_read", "cache_write", "reasoning")
absurd = st.one_of(
    st.integers(max_value=-1, min_value=-(2**62)), st.integers(min_value=2**25, max_value=2**62)
)


def answer(tokens: int, output: int = 5, number: int = 1) -> dict[str, Any]:
    return {
        "id": f"m{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "x"}],
        "usage": {"input_tokens": tokens, "output_tokens": output},
    }


def opened(store: str = "memory:", messages: int = 40) -> refold.Context:
    context = refold.open(
        "x", store=store, model="claude-sonnet-4-5", counter=lambda text: -(-len(text) // 4)
    )
    for number in range(messages):
        role = "assistant" if number % 2 else "user"
        context.append({"role": role, "content": f"m{number} " + "x" * 2_000})
    return context


@given(st.integers(1, 400_000))
def test_a_report_moves_anchor_calibration_and_totals_only_within_its_bounds(tokens: int) -> None:
    assume(not 4 * PAGE < tokens <= 4 * PAGE + USAGE_FRAME_TOKENS)
    usage = Usage(response="r", model="m", input=tokens, upto=1, counted=PAGE)
    view = fold(sealed([user(), usage], tokens=[PAGE, 0]))
    moved = (view.anchor is not None, view.totals != Totals())
    assert moved == (PAGE / 4 <= tokens <= 4 * PAGE, tokens <= 4 * PAGE)
    assert bool(view.calibration) == (PAGE / 2 <= tokens <= 2 * PAGE)


@given(st.sampled_from(FIELDS), absurd)
def test_a_number_that_no_call_has_moves_nothing(field: str, tokens: int) -> None:
    """Hostile F7: negative, or 2**62."""
    body = Usage(**{"response": "r", "input": PAGE, "upto": 1, "counted": PAGE, field: tokens})
    view = fold(sealed([user(), body], tokens=[PAGE, 0]))
    assert (view.anchor, view.calibration, view.totals) == (None, {}, Totals())


@pytest.mark.parametrize(
    ("messages", "reported"), [(40, 250_000), (40, 2_000_000), (1, 10_000_000), (40, -5)]
)
def test_one_wrong_number_neither_empties_the_page_nor_ends_the_conversation(
    messages: int, reported: int, tmp_path: Any
) -> None:
    url = f"sqlite:{tmp_path}/x.db"
    context, heard = opened(url, messages), []
    context.on("usage-ignored", heard.append)
    context.request()
    before = context.view.tokens
    for number in range(3):
        context.record(answer(reported, number=number))
    assert len(heard) == 1
    context.append({"role": "user", "content": "next"})
    context.request()
    assert context.view.tokens >= before
    assert context.stats().billed == Totals()
    context.close()
    again = refold.open("x", store=url)
    assert again.stats().billed == Totals() and again.view.anchor is None
    kinds = [event.kind for event in again.log.events()]
    assert kinds.count("usage") == 3


def test_a_report_of_little_input_is_billed_and_moves_no_size() -> None:
    tool = {"name": "f", "description": "x" * 2_000, "input_schema": {"type": "object"}}
    context = refold.open("x", store="memory:", model="claude-sonnet-4-5", tools=[tool])
    context.append({"role": "user", "content": "hi"})
    context.request()
    before = context.stats().current
    context.record(answer(40, output=4_000))
    billed = context.stats().billed
    assert (billed.calls, billed.input, billed.output) == (1, 40, 4_000)
    assert billed.cost == pytest.approx(40 * 3e-6 + 4_000 * 15e-6) and not billed.unpriced
    assert context.view.anchor is None and not context.view.calibration
    assert context.stats().current >= before


@pytest.mark.parametrize("tokens", [2**62, -(2**62), 150_000])
def test_hostile_reports_hurt_neither_bookmark_nor_restore(tokens: int, tmp_path: Any) -> None:
    url = f"sqlite:{tmp_path}/x.db"
    context = opened(url, messages=2)
    context.request()
    for number in range(4):
        context.record(answer(tokens, number=number))
    context.restore(2)
    assert context.stats().billed == Totals()
    context.close()
    again = refold.open("x", store=url)
    again.append({"role": "user", "content": "next"})
    assert again.request()["messages"]


def test_usage_may_come_apart_from_a_reply_and_counts_nothing_twice() -> None:
    """The report names what its request showed; what came later is counted beside it."""
    usage = Usage(response="r", input=12_000, output=500, upto=1)
    tokens = [10_000, 400, 0, 30]
    log = sealed([user(), user("a reply"), usage, user("more")], tokens=tokens)
    view = fold(log)
    assert view.anchor is not None
    assert view.anchor.tokens + view.tokens - view.anchor.page == 12_000 + 400 + 30
    assert fold(log[:3]).totals.calls == 1
