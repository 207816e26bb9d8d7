"""A compaction that nobody needs: a page far from full with hardly anything to summarize is left as
it is, no model is asked, and the receipt says why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold


def talk(turns: int, words: int, asked: list[Any], **given: Any) -> refold.Context:
    """A conversation with a writer that notes when it is asked."""

    def write(*question: Any) -> str:
        asked.append(question)
        return "They spoke of shops."

    context = refold.open("short", store="memory:", window=100_000, writer=write, **given)
    for n in range(turns):
        context.append({"role": "user", "content": f"Shop {n}? " + "and what of it " * words})
        context.append({"role": "assistant", "content": f"It is shop_{n}. " + "so it is " * words})
    return context


@settings(max_examples=20, deadline=None)
@given(turns=st.integers(0, 2), words=st.integers(0, 200))
def test_four_messages_are_left_alone_and_no_writer_is_asked(turns: int, words: int) -> None:
    asked: list[Any] = []
    context = talk(turns, words, asked)
    before = context.request(dialect="openai_chat") if turns else None
    receipt = context.compact()
    assert receipt.items == ()
    assert receipt.reason.startswith("too little to gain: what may be summarized has ")
    assert asked == []
    assert turns == 0 or context.request(dialect="openai_chat") == before


@pytest.mark.parametrize(
    ("names", "size"), [((), {"target": 300}), (("gist",), {}), (("hide",), {})]
)
def test_what_was_named_is_carried_out(names: tuple[str, ...], size: dict[str, int]) -> None:
    assert talk(4, 40, []).compact(*names, **size).items


def test_enough_messages_are_summarized() -> None:
    asked: list[Any] = []
    assert talk(20, 40, asked).compact().items
    assert len(asked) == 1
