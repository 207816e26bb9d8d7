"""What a caller names in a call by `keep_recent` stays whole, whatever strategy runs and whether
or not the target is met."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Slot
from refold.strategies.registry import BUILT_IN
from tests.turns import call

STRATEGIES = sorted({*BUILT_IN} - {"native"})  # asks a provider; tests/compaction/test_native.py
SIZES = {"importance": {"max_tokens": 100}, "relevance": {"max_tokens": 100}}


def opened(sizes: list[int], tools: list[bool], **options: Any) -> refold.Context:
    """Requests with their answers, some of them by a tool that reads the same file again."""
    context = refold.open("kept", store="memory:", **{"window": 64_000, **options})
    for n, (size, with_tool) in enumerate(zip(sizes, tools, strict=True)):
        context.append({"role": "user", "content": f"step {n} of the login form " * size})
        if with_tool:
            context.append(call(n, "read_file", '{"path": "a.py"}'))
            context.append_result(f"c{n}", "\n".join(f"line {at}" for at in range(40 * size)))
        context.append({"role": "assistant", "content": f"did step {n} " * size})
    return context


def last(context: refold.Context, count: int) -> tuple[Slot, ...]:
    return context.view.slots[-count:]


pages = st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=3, max_size=8)


@pytest.mark.parametrize("strategy", [*STRATEGIES, ""])
@given(page=pages, count=st.integers(1, 12), target=st.integers(0, 4_000))
@settings(max_examples=8, deadline=None)
def test_what_the_call_names_stays_whole(
    strategy: str, page: list[tuple[int, bool]], count: int, target: int
) -> None:
    context = opened([size for size, _ in page], [tool for _, tool in page])
    before = last(context, count)
    given = SIZES.get(strategy) or {"target": target}
    ladder = [strategy] if strategy else []
    receipt = context.compact(*ladder, keep_recent=count, task="login", **given)
    after = last(context, count)
    assert [(slot.seq, slot.message) for slot in after] == [
        (slot.seq, slot.message) for slot in before
    ]
    if receipt.batch and receipt.tokens_after > receipt.target:
        assert "tokens too many" in receipt.reason


def test_a_missed_target_names_what_was_kept() -> None:
    context = opened([20] * 20, [False] * 20)
    receipt = context.compact("hide", target=300, keep_recent=10)
    assert not receipt.reached
    assert "the last messages (keep_recent 10) alone have" in receipt.reason


def test_a_page_over_the_hard_limit_is_cut_all_the_same() -> None:
    """What does not fit cannot be sent: the last rung takes of what was named as well."""
    context = opened([300] * 10, [False] * 10, window=8_000)
    context.compact(keep_recent=20)
    assert context.stats().current <= context.budget.input_max


def test_the_default_gives_way_to_a_size_that_was_named() -> None:
    context = opened([20] * 20, [False] * 20)
    assert context.compact("hide", target=1_200).reached
