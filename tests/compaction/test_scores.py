"""What a message is worth, and why, on demand: `context.log.scores`."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import aio
from refold.strategies.importance import WEIGHTS


def talked(turns: int) -> refold.Context:
    context = refold.open("work", store="memory:", window=24_000)
    for n in range(turns):
        role = "assistant" if n % 2 else "user"
        context.append({"role": role, "content": f"We decided {n} on src/a_{n % 3}.py " * 8})
    return context


def test_every_message_says_what_it_is_worth_and_why() -> None:
    """G-91"""
    context = talked(30)
    head = context.view.head
    scores = context.log.scores(task="src/a_1.py")
    assert [one.seq for one in scores] == [slot.seq for slot in context.view.slots]
    for one in scores:
        assert isinstance(one, refold.types.Score) and 0 <= one.score <= 1
        assert set(one.factors) == set(WEIGHTS)
        assert all(0 <= value <= 1 for value in one.factors.values())
    assert context.view.head == head


@settings(deadline=None, max_examples=15)
@given(turns=st.integers(0, 40), keep=st.integers(0, 12), threshold=st.floats(0, 1))
def test_what_goes_is_what_a_plan_would_take(turns: int, keep: int, threshold: float) -> None:
    context = talked(turns)
    given = {"threshold": threshold, "keep_recent": keep}
    going = {one.seq for one in context.log.scores(**given) if one.goes}
    planned = context.plan("importance", **given)
    taken: set[int] = set()
    for item in planned.items:
        first, _, last = item.handle.removeprefix("#").partition("-")
        taken.update(range(int(first), int(last or first) + 1))
    said = {slot.seq for slot in context.view.slots}
    assert not planned.items or taken & said == going


def test_weights_and_tasks_are_those_of_the_call() -> None:
    context = talked(12)
    only_role = {name: 0.0 for name in WEIGHTS} | {"role": 1.0}
    scores = context.log.scores(weights=only_role)
    assert {round(one.score, 3) for one in scores} == {1.0, 0.6}
    with pytest.raises(refold.Invalid, match="weights"):
        context.log.scores(weights={"nothing": 1.0})
    with pytest.raises(refold.Invalid):
        context.log.scores(preset="half")


def test_async_callers_have_it_too() -> None:
    async def run() -> list[refold.types.Score]:
        async with await aio.open("work", store="memory:") as context:
            await context.append({"role": "user", "content": "go"})
            return await context.log.scores()

    assert [one.seq for one in asyncio.run(run())] == [1]
