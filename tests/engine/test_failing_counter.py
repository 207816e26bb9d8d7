"""A counter of the caller's that fails stops nothing: the estimate counts in its place, and one
notice says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import refold
from tests.scripted import heard_by

LONG = "some words about the form and its fields. " * 20


def raising(text: str) -> int:
    raise ConnectionError("the tokenizer is away")


class Unlucky:
    """Counts a few texts, then fails at every second one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> int:
        self.calls += 1
        if self.calls % 2:
            return len(text)
        raise ValueError("not now")


WRONG: dict[str, Callable[[str], Any]] = {
    "raises": raising,
    "negative": lambda text: -1,
    "a float": lambda text: 1.5,
    "nothing": lambda text: None,
    "a truth": lambda text: True,
    "a text": lambda text: "7",
    "huge": lambda text: 10**400,
}


@pytest.mark.parametrize("name", WRONG)
def test_the_estimate_counts_where_a_counter_fails_and_it_is_said_once(name: str) -> None:
    context = refold.open("work", store="memory:", window=8_000, counter=WRONG[name])
    heard = heard_by(context)
    for n in range(40):
        context.append({"role": "user", "content": f"{n} {LONG}"})
        context.append({"role": "assistant", "content": "ok"})
    request = context.request("openai_chat")
    assert request["messages"] and context.view.tokens <= 8_000
    told = [notice for notice in heard if notice.name == "counter-failed"]
    assert len(told) == 1 and "tokens are estimated instead" in told[0].reason


def test_a_counter_that_fails_now_and_then_counts_the_rest() -> None:
    counter = Unlucky()
    context = refold.open("work", store="memory:", counter=counter)
    heard = heard_by(context)
    for n in range(20):
        context.append({"role": "user", "content": f"{n} {LONG}"})
        context.update(model="gpt-4o" if n % 2 else "claude-sonnet-4-5")
    assert counter.calls >= 20
    assert [notice.name for notice in heard].count("counter-failed") == 1
