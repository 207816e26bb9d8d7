"""The last messages named by `keep_recent`, in a call or in the configuration, stay whole, whatever
strategy runs and whether or not the target is met."""

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
@given(page=pages, count=st.integers(1, 12), target=st.integers(0, 4_000), configured=st.booleans())
@settings(max_examples=8, deadline=None)
def test_the_messages_that_are_named_stay_whole(
    strategy: str, page: list[tuple[int, bool]], count: int, target: int, configured: bool
) -> None:
    named = {"keep_recent": count}
    config = named if configured else {}
    context = opened([size for size, _ in page], [tool for _, tool in page], config=config)
    before = last(context, count)
    given = SIZES.get(strategy) or {"target": target}
    ladder = [strategy] if strategy else []
    receipt = context.compact(*ladder, task="login", **given, **({} if configured else named))
    after = last(context, count)
    assert [(slot.seq, slot.message) for slot in after] == [
        (slot.seq, slot.message) for slot in before
    ]
    if receipt.batch and receipt.tokens_after > receipt.target:
        assert "tokens too many" in receipt.reason


@pytest.mark.parametrize("configured", [False, True])
def test_a_missed_target_names_what_was_kept(configured: bool) -> None:
    named = {"keep_recent": 10}
    context = opened([20] * 20, [False] * 20, config=named if configured else {})
    receipt = context.compact("hide", target=300, **({} if configured else named))
    assert not receipt.reached
    assert "the last messages (keep_recent 10) alone have" in receipt.reason


@pytest.mark.parametrize("configured", [False, True])
def test_a_page_over_the_hard_limit_is_cut_all_the_same(configured: bool) -> None:
    """What does not fit cannot be sent: the last rung takes of what was named as well."""
    named = {"keep_recent": 20}
    sizes, tools = [300] * 10, [False] * 10
    context = opened(sizes, tools, window=8_000, config=named if configured else {})
    context.compact(**({} if configured else named))
    assert context.stats().current <= context.budget.input_max


@pytest.mark.parametrize("count", [1, 7, 24, 40])
def test_automatic_compactions_leave_the_configured_messages_whole(count: int) -> None:
    context = opened([], [], window=16_000, config={"keep_recent": count})
    done: list[refold.Notice] = []
    context.on("compaction-complete", done.append)
    said: list[int] = []
    for number in range(300):
        role = "assistant" if number % 2 else "user"
        words = " ".join(f"word{number}x{word}" for word in range(30))
        said += [event.seq for event in context.append({"role": role, "content": words})]
        context.request()
        slots = {slot.seq for slot in context.view.slots if not slot.edits}
        assert slots.issuperset(said[-count:])
    assert len(done) > 1


def test_the_default_gives_way_to_a_size_that_was_named() -> None:
    context = opened([20] * 20, [False] * 20)
    assert context.compact("hide", target=1_200).reached
