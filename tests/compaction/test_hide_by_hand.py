"""Chosen messages leave the page, as one batch that can be undone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.errors import Invalid, NotFound, RefoldError
from tests.turns import call, checked, opened_in_characters, talk

DIALECTS = ["openai_chat", "openai_responses", "anthropic", "gemini"]


def worked(**given: Any) -> refold.Context:
    """#1 asks, #2 calls, #3 answers, #4 says, #5 calls twice, #6 and #7 answer, #8 says, #9 asks."""
    context = opened_in_characters(**{"window": None, **given})
    context.append({"role": "user", "content": "do it " + "x" * 200})
    context.append(call(1))
    context.append_result("c1", "result one " + "y" * 200)
    context.append({"role": "assistant", "content": "done " + "z" * 200})
    both = call(2)
    both["tool_calls"] += call(3)["tool_calls"]
    context.append(both)
    context.append_result("c2", "result two " + "y" * 200)
    context.append_result("c3", "result three " + "y" * 200)
    context.append({"role": "assistant", "content": "all done " + "z" * 200})
    context.append({"role": "user", "content": "and now?"})
    return context


def on_page(context: refold.Context) -> list[int]:
    return [slot.seq for slot in context.view.slots if not slot.standin]


def test_what_was_chosen_leaves_the_page_and_comes_back() -> None:
    context = worked()
    before = checked(context)
    receipt = context.hide(4)
    assert on_page(context) == [1, 2, 3, 5, 6, 7, 8, 9]
    assert "'done zzz" not in str(checked(context))
    assert context.unfold("#4").text.startswith("done ")
    assert [(item.handle, item.action) for item in receipt.items] == [("#4", "hidden")]
    assert receipt.batch and receipt.reached and receipt.messages_hidden == 1
    assert receipt.tokens_after == context.view.tokens < receipt.tokens_before
    assert [one.id for one in context.log.batches()] == [receipt.batch]
    context.undo()
    assert checked(context) == before


@pytest.mark.parametrize(
    ("first", "last", "left", "added"),
    [
        (2, None, [1, 4, 5, 6, 7, 8, 9], "#3"),
        ("#3", None, [1, 4, 5, 6, 7, 8, 9], "#2"),
        (3, 6, [1, 8, 9], "#2, #7"),
        (1, 1, [2, 3, 4, 5, 6, 7, 8, 9], ""),
        ("#1", "#8", [9], ""),
        (7, 8, [1, 2, 3, 4, 9], "#5, #6"),
    ],
)
def test_tool_pairs_go_whole_and_it_is_said(
    first: int | str, last: int | str | None, left: list[int], added: str
) -> None:
    context = worked()
    receipt = context.hide(first, last)
    assert on_page(context) == left
    reason = receipt.items[0].reason
    assert reason == "hidden by hand" + (f", with related messages: {added}" if added else "")
    for name in DIALECTS:
        assert dialects.dialect(name).check(context.request(name)) == []


def test_pins_and_the_latest_request_are_refused() -> None:
    context = worked()
    context.pin(6)
    head = context.view.head
    for first, last, said in ((8, 9, "#9"), (9, None, "#9"), (7, 7, "pinned"), (1, 5, "pinned")):
        with pytest.raises(Invalid, match=said):
            context.hide(first, last)
    for first, last in ((10, 11), (0, 3), (40, 50)):
        with pytest.raises(NotFound):
            context.hide(first, last)
    with pytest.raises(Invalid, match="comes after"):
        context.hide(4, 2)
    with pytest.raises(Invalid):
        context.hide("the first one")
    assert context.view.head == head


def test_a_call_that_waits_for_its_result_is_refused() -> None:
    context = worked()
    context.append(call(9))
    with pytest.raises(Invalid, match="waits"):
        context.hide(10)
    context.append_result("c9", "it came")
    assert context.hide(10).messages_hidden == 2


def test_what_is_hidden_already_is_not_found_and_a_summary_goes_whole() -> None:
    context = worked()
    context.hide(2, 4)
    assert context.hide(3).messages_hidden == 0  # the notice that stood for them
    with pytest.raises(NotFound, match="#3"):
        context.hide(3)
    talk(context, 30)
    context.compact("gist", target=4_000)
    summary = next(slot for slot in context.view.slots if slot.standin and slot.last > 20)
    receipt = context.hide(summary.seq + 1)
    assert str(summary.span) in receipt.items[0].reason
    checked(context)


def test_hiding_is_no_compaction() -> None:
    """What is asked for next is done, and what is due is not put off."""
    context = worked()
    talk(context, 20)
    context.hide(4)
    assert context.compact().batch
    assert context.undo() and context.undo()
    assert 4 in on_page(context)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_any_choice_leaves_a_valid_request_or_is_refused(data: st.DataObject) -> None:
    context = worked()
    for seq in data.draw(st.sets(st.integers(1, 8), max_size=2)):
        context.pin(seq)
    for _ in range(data.draw(st.integers(1, 4))):
        before, tokens, pins = context.view.head, context.view.tokens, context.view.pins
        first, last = sorted(data.draw(st.tuples(*[st.integers(1, 12)] * 2)))
        try:
            context.hide(first, last)
        except RefoldError as error:
            assert error.hint and context.view.head == before
            continue
        assert context.view.tokens < tokens
        assert {*pins, 9} <= set(on_page(context)) and not set(on_page(context)) & {
            seq for seq in range(first, last + 1)
        }
        for name in DIALECTS:
            assert dialects.dialect(name).check(context.request(name)) == []
