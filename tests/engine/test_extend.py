"""`context.extend`: a list of messages, read whole before the first is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.laws import results_of
from refold.log import draft


def turn(at: int) -> list[dict[str, Any]]:
    call = {"id": f"c{at}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"request {at}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{at}", "content": f"result {at}"},
    ]


def gemini(at: int) -> list[dict[str, Any]]:
    """A call and a result without ids: which belong together shows only in their order."""
    return [
        {"role": "user", "parts": [{"text": f"request {at}"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"a": at}}}]},
    ]


def unnamed(at: int) -> list[dict[str, Any]]:
    """A result that does not say which call it answers, of a call whose id comes again."""
    asked, called, result = turn(at % 2)
    return [asked, called, {"role": "tool", "content": result["content"]}]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([turn, gemini, unnamed]), max_size=6))
def test_a_list_gives_the_page_that_its_messages_give_one_by_one(kinds: list[Any]):
    messages = [message for at, kind in enumerate(kinds) for message in kind(at)]
    whole = refold.open("whole", store="memory:", model="gpt-4o")
    single = refold.open("single", store="memory:", model="gpt-4o")
    events = whole.append(messages)
    for message in messages:
        single.append(message)
    assert [slot.message.blocks for slot in whole.view.slots] == [
        slot.message.blocks for slot in single.view.slots
    ]
    assert len(events) == len(messages)


def test_a_list_with_something_else_in_it_is_refused_whole_and_says_where():
    context = refold.open("refused", store="memory:")
    with pytest.raises(refold.Invalid, match="message 2 of 3"):
        context.append([{"role": "user", "content": "x"}, 5, {"role": "user", "content": "y"}])
    assert context.view.slots == ()
    assert context.append([]) == []


@pytest.mark.parametrize("known", [0, 1, 2])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_list_with_a_result_that_names_no_call_says_which_calls_wait(known: int, count: int):
    """M-02: those of the log, and those of the list before it."""
    context = refold.open("waiting", store="memory:")
    for at in range(known):
        context.append(turn(at)[1])
    messages = [turn(known + at)[1] for at in range(count)]
    result = {"role": "tool", "content": "done"}
    if known + count == 1:
        context.append([*messages, result])
        assert results_of(context.view.slots[-1].message) == ["c0"]
        return
    waiting = "c0.*c1" if known + count else "no call is waiting"
    with pytest.raises(refold.Invalid, match=f"message {count + 1} of {count + 1}.*{waiting}"):
        context.append([*messages, result])
    assert len(context.view.slots) == known


@pytest.mark.parametrize("limit", ["RUN_EVENTS_MAX", "RUN_BYTES_MAX"])
def test_a_list_that_is_larger_than_one_write_goes_in_several(limit, monkeypatch):
    monkeypatch.setattr(draft, limit, 2)
    context = refold.open("long", store="memory:")
    events = context.append([message for at in range(5) for message in turn(at)])
    assert [event.seq for event in events] == list(range(1, 16))
    assert [slot.seq for slot in context.view.slots] == list(range(1, 16))


@settings(max_examples=40, deadline=None)
@given(
    asked=st.lists(st.integers(0, 5), max_size=4),
    answered=st.lists(st.integers(0, 5), max_size=4, unique=True),
    is_list=st.booleans(),
    cleared=st.booleans(),
)
def test_a_result_that_nobody_asked_for_is_taken_and_told(
    asked: list[int], answered: list[int], is_list: bool, cleared: bool
):
    """A call that is off the page was made, too."""
    context = refold.open("unasked", store="memory:")
    heard: list[refold.Notice] = []
    context.on("result-unasked", heard.append)
    context.append({"role": "user", "content": "begin"})
    calls, results = [turn(at)[1] for at in asked], [turn(at)[2] for at in answered]
    if is_list and not cleared:
        context.append([*calls, *results])
    else:
        context.append(calls)
        if cleared:
            context.clear()
        for result in results:
            context.append(result)
    told = [id for notice in heard for id in notice.details["calls"]]
    assert told == [f"c{at}" for at in answered if at not in asked]
    assert len(context.view.slots) >= len(answered)
