"""Lawful order whatever the log holds, and seams that never cut a pair."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from refold.core.fold import fold
from refold.core.laws import (
    NO_RESULT,
    broken,
    calls_of,
    groups,
    in_order,
    is_request,
    results_of,
    seams,
    settled,
    thinking_check,
    units,
    without_thinking,
)
from refold.core.model import (
    CLEARED,
    Erase,
    Hide,
    Message,
    Meta,
    Pin,
    Span,
    Summarize,
    Text,
    Thinking,
    ToolResult,
)
from tests.core.logs import call, logs, result, sealed, user


def texts(slots) -> list[str]:
    return [said(block) for slot in slots for block in slot.message.blocks]


def said(block) -> str:
    if isinstance(block, ToolResult):
        return block.content[0].text
    return block.text if isinstance(block, Text) else "call"


def shown(*bodies) -> list[str]:
    slots, _ = settled(fold(sealed([*bodies])).slots)
    return texts(slots)


@given(logs)
def test_settled_slots_are_in_order_whatever_the_log_holds(log):
    slots, _ = settled(fold(log).slots)
    assert in_order(slots)
    first = next((slot for slot in slots if slot.message.role != "system"), None)
    assert first is None or first.message.role == "user"


@given(logs)
def test_settling_twice_changes_nothing(log):
    once, _ = settled(fold(log).slots)
    assert settled(once) == (once, [])


@given(logs)
def test_no_seam_parts_a_call_from_its_result(log):
    slots = fold(log).slots
    for seam in seams(slots):
        asked = {id for slot in slots[:seam] for id in calls_of(slot.message)}
        again = {id for slot in slots[seam:] for id in calls_of(slot.message)}
        answered = {id for slot in slots[seam:] for id in results_of(slot.message)}
        answered_before = {id for slot in slots[:seam] for id in results_of(slot.message)}
        assert not (asked & answered) - again - answered_before


def test_a_result_after_a_message_of_the_user_is_told_late_at_its_own_place():
    assert shown(user("go"), call("a"), user("typed"), result("a", "done"), user("on")) == [
        "go",
        "call",
        NO_RESULT,
        "typed",
        "[late result of call a (run)]\ndone",
        "on",
    ]


def test_a_late_result_waits_for_the_results_of_calls_that_are_open():
    log = [user("go"), call("a"), user("typed"), call("b"), result("a", "1"), result("b", "2")]
    assert shown(*log) == [
        "go",
        "call",
        NO_RESULT,
        "typed",
        "call",
        "2",
        "[late result of call a (run)]\n1",
    ]


def test_a_late_result_comes_once():
    log = [user("go"), call("a"), user("typed"), result("a", "1"), result("a", "2")]
    assert shown(*log)[-1] == "[late result of call a (run)]\n1"


def test_items_of_one_reply_do_not_interrupt_each_other():
    first, second = (msgspec.structs.replace(call(id), dialect="openai_responses") for id in "ab")
    log = [user("go"), first, second, result("b", "2"), result("a", "1")]
    assert shown(*log) == ["go", "call", "1", "call", "2"]


@given(logs)
def test_a_page_that_grows_never_changes_what_stands_before_its_last_group(log):
    slots = fold(log).slots
    for end in range(len(slots)):
        closed = groups(slots[:end])[:-1]
        stop = closed[-1].stop if closed else 0
        early, _ = settled(slots[:stop])
        assert list(settled(slots)[0][: len(early)]) == list(early)


def test_an_open_call_is_closed_by_a_result_that_says_so():
    """C-48, Y-48."""
    assert shown(user("go"), call("a", "b"), result("b", "done")) == [
        "go",
        "call",
        "call",
        NO_RESULT,
        "done",
    ]


def test_a_result_without_its_call_is_left_out_and_reported():
    """C-47."""
    slots, repairs = settled(fold(sealed([user("go"), result("zz"), user("on")])).slots)
    assert texts(slots) == ["go", "on"]
    assert "zz" in repairs[0]


def test_a_second_result_for_one_call_is_left_out():
    assert shown(user("go"), call("a"), result("a", "one"), result("a", "two")) == [
        "go",
        "call",
        "one",
    ]


def test_an_id_that_is_used_again_later_is_paired_with_the_nearest_call():
    assert shown(user("go"), call("a"), result("a", "1"), call("a"), result("a", "2")) == [
        "go",
        "call",
        "1",
        "call",
        "2",
    ]


def test_lawful_slots_come_back_as_they_are():
    """C-62."""
    slots = fold(sealed([user(), call("a"), result("a"), user()])).slots
    assert settled(slots)[0] is slots


def test_a_summary_is_never_taken_for_a_request():
    """Y-57."""
    view = fold(sealed([user("a"), user("b"), Summarize(batch="b", span=Span(1, 1), text="s")]))
    assert [is_request(slot) for slot in view.slots] == [False, True]


def test_hiding_the_latest_request_or_a_pin_breaks_a_law():
    log = [user("0"), user("a"), user("b"), Pin(seq=2)]
    assert broken(fold(sealed(log))) == []
    assert (
        "latest user request" in broken(fold(sealed([*log, Hide(batch="b", span=Span(3, 3))])))[0]
    )
    assert (
        broken(fold(sealed([*log, Hide(batch="b", span=Span(1, 3))]))) == []
    )  # M-23: cleared, nothing is asked


def test_thinking_from_before_a_change_is_dropped_for_models_that_bind_it():
    """X-21: signed blocks are never edited, only removed."""
    thought = Message(role="assistant", blocks=(Thinking("hm", "sig"), Text("yes")))
    view = fold(
        sealed(
            [
                user("a"),
                thought,
                user("b"),
                thought,
                Hide(batch="b", span=Span(1, 1)),
                user("c"),
                thought,
            ]
        )
    )
    assert [
        _thinks(slot) for slot in without_thinking(view.slots, thinking_check(view, bound=True))
    ] == [
        False,
        False,
        False,
        False,
        True,
    ]
    assert without_thinking(view.slots, thinking_check(view, bound=False)) is view.slots


@pytest.mark.parametrize(
    "change", [Meta(system="Be brief."), Meta(tools=[{"name": "run"}]), Erase(seq=1)]
)
def test_a_change_of_what_stands_before_it_ends_bound_thinking_only(change):
    thought = Message(role="assistant", blocks=(Thinking("hm", "sig"), Text("yes")))
    view = fold(sealed([user("a"), thought, change, user("b"), thought]))
    after = without_thinking(view.slots, thinking_check(view, bound=True))
    assert [_thinks(slot) for slot in after] == [False, False, False, True]
    assert without_thinking(view.slots, thinking_check(view, bound=False)) is view.slots


def test_a_system_prompt_from_the_beginning_changes_nothing():
    thought = Message(role="assistant", blocks=(Thinking("hm", "sig"), Text("yes")))
    log = [Meta(system="Be brief."), Meta(tools=[]), user("a"), thought, Meta(title="t")]
    view = fold(sealed(log))
    assert without_thinking(view.slots, thinking_check(view, bound=True)) is view.slots


def test_after_a_clear_nothing_is_asked():
    """What an assistant says on a cleared page breaks no law."""
    cleared = Hide(batch="b", span=Span(1, 1), purpose=CLEARED)
    said = Message(role="assistant", blocks=(Text("hello"),))
    view = fold(sealed([user("a"), cleared, said]))
    assert (view.request, broken(view)) == (0, [])


def _thinks(slot) -> bool:
    return any(isinstance(block, Thinking) and block.signature for block in slot.message.blocks)


def test_units_cover_every_slot_once():
    slots = fold(sealed([user(), call("a"), result("a"), call("b"), user()])).slots
    assert [index for unit in units(slots) for index in unit] == list(range(len(slots)))
