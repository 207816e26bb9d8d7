"""Messages are counted without a conversation as they would be in one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import Invalid
from tests.dialects.test_whatever_came import messages

TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]
MODELS = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro")


@settings(deadline=None, max_examples=60)
@given(st.lists(messages, max_size=4), st.sampled_from(MODELS), st.booleans())
def test_a_count_is_what_the_page_of_a_new_conversation_has(
    said: list[Any], model: str, with_rest: bool
) -> None:
    rest: dict[str, Any] = {"system": "Be brief.", "tools": TOOLS} if with_rest else {}
    context = refold.open("x", store="memory:", model=model, embedder=False, **rest)
    taken = []
    for message in [{"role": "user", "content": "q"}, *said]:
        try:
            context.append(message)
        except Invalid:
            continue
        taken.append(message)
    assert refold.count_messages(taken, model=model, **rest) == context.view.tokens


def test_a_counter_of_ones_own_counts() -> None:
    said = [{"role": "user", "content": "12345"}]
    longer = [{"role": "user", "content": "1234567"}]
    short, long = (refold.count_messages(one, counter=len) for one in (said, longer))
    assert long - short == 2


@pytest.mark.parametrize("wrong", [None, "text", {"role": "user", "content": "q"}, 5])
def test_what_is_not_a_list_of_messages_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid, match="messages"):
        refold.count_messages(wrong)


@pytest.mark.parametrize(
    "given", [{"model": 5}, {"tools": "x"}, {"dialect": "klingon"}, {"counter": "nobody"}]
)
def test_a_wrong_argument_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        refold.count_messages([], **given)
