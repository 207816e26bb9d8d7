"""Rows C-50 and C-83: there is always a page that fits, and what was cut says where the whole
is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.laws import broken
from refold.core.model import (
    Media,
    Message,
    Pin,
    Span,
    Summarize,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.strategies.fit import common_size, fit
from tests.strategies.talks import (
    alternating,
    answered,
    climbed,
    log_of,
    pages,
    said,
    same_slots,
    shown,
    state_of,
    talks,
    used,
)

WINDOW = 128_000


def test_a_single_message_larger_than_the_window_is_cut_in_the_middle() -> None:
    text = "start " + "x" * 1_200_000 + " end"
    done = climbed(log_of([said("user", text)]), fit, target=100_000, window=WINDOW)  # C-83
    (page,) = pages(done)
    assert 90_000 < done.state.view().tokens <= 100_000
    assert page.startswith("start ") and page.endswith(" end")
    assert "are cut here: #1 …]" in page


def test_the_first_request_is_cut_only_above_a_quarter_of_the_window() -> None:
    long, short = said("user", "a" * 500_000), said("user", "b" * 1_000)
    rest = [said("assistant", "ok"), said("user", "next"), *used("t", "y" * 40_000)]
    done = climbed(log_of([long, *rest]), fit, target=50_000, window=WINDOW)  # C-50
    assert "are cut here" in pages(done)[0] and done.state.view().tokens <= 50_000
    done = climbed(log_of([short, *rest]), fit, target=2_000, window=WINDOW)
    assert pages(done)[0] == "b" * 1_000 and done.state.view().tokens <= 2_000


def test_results_are_cut_before_arguments_and_texts() -> None:
    parts = [
        said("user", "go"),
        said("assistant", "t" * 4_000),
        *used("a", "r" * 4_000, text="", body="w" * 4_000),
    ]
    log = log_of([*parts, said("user", "more")])
    done = climbed(log, fit, target=state_of(log).view().tokens - 400)
    texts = pages(done)
    assert "cut here" in texts[3] and "cut here" not in texts[1] + texts[2]
    done = climbed(log, fit, target=state_of(log).view().tokens - 900)
    texts = pages(done)
    assert "cut here: #4" in texts[3] and "cut here: #3" in texts[2] and "cut" not in texts[1]


def test_results_beside_the_latest_request_are_results() -> None:
    """C-83: as Anthropic writes it, one user message answers the calls and asks for more; only
    the request is kept."""
    calls = Message(
        role="assistant", blocks=(ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}"))
    )
    answers = [ToolResult(id, content=(Text(id * 40_000),)) for id in "ab"]
    asked = Message(role="user", blocks=(*answers, Text("and now fix it")))
    done = climbed(log_of([said("user", "go"), calls, asked]), fit, target=8_000, window=WINDOW)
    view = done.state.view()
    assert view.tokens <= 8_000 and not broken(view)
    assert view.slots[-1].message.blocks[-1] == Text("and now fix it")


def test_the_largest_is_cut_and_the_small_stay() -> None:
    parts = [
        said("user", "go"),
        *used("a", "r" * 400),
        *used("b", "R" * 40_000),
        *used("c", "r" * 400),
    ]
    done = climbed(log_of(parts), fit, target=2_000)
    assert [edit.edit.seq for edit in done.proposals] == [5]
    assert done.state.view().tokens <= 2_000


def test_pinned_messages_are_never_cut() -> None:
    parts = [said("user", "go"), *used("a", "r" * 8_000), *used("b", "R" * 8_000), Pin(seq=3)]
    log = log_of(parts)
    done = climbed(log, fit, target=2_600)
    assert same_slots(state_of(log).view(), done.state.view(), {2, 3})
    assert done.state.view().tokens <= 2_600


def test_summaries_and_media_give_way_too() -> None:
    picture = Message(role="user", blocks=(Text("see"), Media(media="image", data="aGk=")))
    parts = [
        said("user", "go"),
        said("assistant", "ok"),
        said("user", "s" * 8_000),
        picture,
        said("user", "last"),
    ]
    summary = Summarize(batch="b1", span=Span(3, 3), text="sum " * 2_000)
    done = climbed(log_of([*parts, summary]), fit, target=60)
    assert done.state.view().tokens <= 60
    assert not broken(done.state.view())


def test_thinking_goes_whole_and_never_leaves_an_empty_message() -> None:
    thought = Message(role="assistant", blocks=(Thinking("t" * 8_000, "sig"), Text("so")))
    alone = Message(role="assistant", blocks=(Thinking("u" * 800, "sig"),))
    log = log_of([said("user", "go"), thought, alone])
    done = climbed(log, fit, target=300)
    assert done.state.view().slots[1].message.blocks[0] == Thinking()
    assert done.state.view().slots[2].message.blocks[0] == alone.blocks[0]
    assert not broken(done.state.view())


def test_arguments_that_are_json_text_stay_json() -> None:
    call = Message(
        role="assistant", blocks=(ToolCall("a", "write", '{"body": "' + "x" * 8_000 + '"}'),)
    )
    done = climbed(log_of([said("user", "go"), call, answered("a", "ok")]), fit, target=200)
    (arguments,) = shown(done.state.view().slots[1])
    assert arguments.startswith('{"…": ') and "#2" in arguments and arguments.endswith("}")


def test_two_thousand_small_messages_are_hidden_where_cutting_cannot_help() -> None:
    done = climbed(log_of(alternating(2_000, 40)), fit, target=1_000)
    assert done.state.view().tokens <= 1_000
    assert not broken(done.state.view())


@pytest.mark.parametrize(
    ("sizes", "wanted", "level"),
    [
        ([100], 30, 70),
        ([100, 50], 30, 70),
        ([100, 50], 70, 40),
        ([100, 50], 500, 0),
        ([], 10, 0),
        ([10, 10], 0, 10),
    ],
)
def test_the_common_size_frees_what_is_wanted(sizes: list[int], wanted: int, level: int) -> None:
    assert common_size(sizes, wanted) == level


@given(
    st.lists(st.integers(0, 1_000)).map(lambda sizes: sorted(sizes, reverse=True)),
    st.integers(0, 5_000),
)
def test_the_common_size_is_the_highest_that_does(sizes: list[int], wanted: int) -> None:
    level = common_size(sizes, wanted)
    assert sum(max(0, size - level) for size in sizes) >= min(wanted, sum(sizes))


@settings(deadline=None)
@given(talks(), st.integers(0, 100))
def test_the_page_fits_whenever_stubs_and_what_is_fixed_fit(log: list, percent: int) -> None:
    view = state_of(log).view()
    done = climbed(log, fit, target=0)
    smallest = done.state.view().tokens
    target = smallest + (view.tokens - smallest) * percent // 100
    again = climbed(log, fit, target=target)
    assert again.state.view().tokens <= target or not view.tokens > target


@settings(deadline=None)
@given(talks())
def test_at_its_smallest_every_free_block_is_a_stub(log: list) -> None:
    view = climbed(log, fit, target=0, window=100_000).state.view()
    kept = {*view.pins, view.request}
    free = [
        slot
        for slot in view.slots
        if slot.message.role in ("assistant", "tool") and not slot.standin
    ]
    for slot in free:
        for block in slot.message.blocks:
            if isinstance(block, ToolResult) and not view.pins and slot.seq not in kept:
                assert (
                    len(block.content) <= 2
                    and sum(len(getattr(p, "text", "")) for p in block.content) < 64
                )
