"""When a compaction is due: by the budget's trigger, and by those of strategies."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.compaction.trigger import answers
from refold.errors import OverBudget
from tests.scripted import heard_by
from tests.turns import call, checked, names, opened_in_characters, talk


def test_a_strategy_acts_by_itself_at_a_trigger_of_its_own():
    """Y-31: far below the budget's own trigger, only that strategy, and not again at every turn."""
    clear = {"trigger_uses": 10, "keep": 3}
    context = opened_in_characters(
        window=200_000, config={"ladder": ("clear", "hide"), "strategy": {"clear": clear}}
    )
    heard = heard_by(context)
    context.append({"role": "user", "content": "go"})
    for n in range(14):
        made = {"id": f"c{n}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        context.append({"role": "assistant", "content": None, "tool_calls": [made]})
        context.append_result(f"c{n}", f"output {n} " + "x" * 2_000)
        context.request("openai_chat")
    begun = [notice for notice in heard if notice.name == "auto-compacting"]
    assert [notice.strategy for notice in begun] == ["clear"]  # Y-23
    assert names(heard).count("compaction-complete") == 1


def test_the_decision_says_what_the_next_request_would_do():
    """Y-22"""
    context = opened_in_characters()
    talk(context, 5)
    assert (context.stats().due, context.stats().due_reason) == ("none", "")
    talk(context, 40)
    full = context.stats()
    assert (full.due, full.level) == ("compact", "critical")
    still = opened_in_characters(config={"auto": False})
    talk(still, 45)
    assert (still.stats().due, still.stats().level) == ("none", "critical")
    assert still.stats().due_reason == "automatic compaction is off"


def test_a_ready_rule_prunes_before_the_trigger():
    """M-82: above 150,000 down to 100,000, the last 20 stay, once."""
    rule = {"trigger_tokens": 150_000, "max_tokens": 100_000, "keep_recent": 20}
    context = opened_in_characters(
        window=200_000, config={"ladder": ("importance",), "strategy": {"importance": rule}}
    )
    heard = heard_by(context)
    talk(context, 125, size=600)
    context.append({"role": "user", "content": "go"})
    assert 150_000 < context.stats().current < context.budget.compact_at
    context.request("openai_chat")
    context.append({"role": "assistant", "content": "ok"})
    context.request("openai_chat")
    assert context.stats().current <= 100_000
    assert names(heard).count("compaction-complete") == 1


def test_critical_is_told_only_where_compaction_could_not_help():
    context = opened_in_characters()
    notices = heard_by(context)
    for _ in range(4):
        talk(context, 20)
        context.request("openai_chat")
    heard = names(notices)
    assert heard.count("compaction-complete") >= 2 and "context-critical" not in heard
    context.update(system="s" * 16_500)
    context.append({"role": "user", "content": "go on"})
    with pytest.raises(OverBudget):
        context.request("openai_chat")
    assert names(notices).count("context-critical") == 1


def test_critical_is_told_at_once_where_compaction_is_off():
    context = opened_in_characters(config={"auto": False})
    notices = heard_by(context)
    talk(context, 45)
    assert names(notices).count("context-critical") == 1


@pytest.mark.parametrize("ladder", [("dedup", "gist", "hide"), ("hide",), ("clear", "hide")])
@given(cap=st.integers(20, 60), size=st.integers(20, 60), tools=st.booleans())
@settings(deadline=None, max_examples=15)
def test_a_message_cap_takes_off_the_oldest_and_leaves_the_others(
    ladder: tuple[str, ...], cap: int, size: int, tools: bool
) -> None:
    """G-10, G-11: whatever their size, at most the cap stays, and most of it."""
    context = opened_in_characters(
        window=100_000, config={"ladder": ladder, "messages_cap": cap, "reserve_tokens": 0}
    )
    done = heard_by(context)
    for n in range(cap + 1):
        if tools and n % 5 == 3:
            context.append(call(n))
            context.append_result(f"c{n}", f"result {n} " + "word " * size)
        else:
            role = "assistant" if n % 2 else "user"
            context.append({"role": role, "content": f"message {n}: " + "word " * size})
        before = {slot.seq for slot in context.view.slots}
        checked(context)
        assert len(context.view.slots) <= cap
        if any(notice.name == "compaction-complete" for notice in done):
            after = [slot for slot in context.view.slots if not slot.standin]
            assert len(after) >= 0.8 * cap - 6
            newest = sorted(before)[-len(after) + 3 :]  # beside the opening
            assert set(newest) <= {slot.seq for slot in after}
            return


def compactions(every: int, *, size: int, turns: int) -> tuple[list[int], int]:
    """The answers before which a page was compacted, and the largest page that was sent."""
    ratios = {"warn_ratio": 0.5, "compact_ratio": 0.6, "target_ratio": 0.4, "reserve_tokens": 0}
    config = {**ratios, "compact_every": every}
    context = opened_in_characters(window=20_000, config=config)
    heard, found, largest = heard_by(context), list[int](), 0
    for n in range(turns):
        context.append({"role": "user", "content": f"question {n} " + "q" * size})
        before = names(heard).count("compaction-complete")
        context.request("openai_chat")
        largest = max(largest, context.stats().current)
        if names(heard).count("compaction-complete") > before:
            found.append(n)
        context.append({"role": "assistant", "content": f"answer {n}"})
    return found, largest


def test_a_page_that_fits_is_not_compacted_twice_within_so_many_answers():
    often, small = compactions(0, size=1_500, turns=60)
    rarely, large = compactions(40, size=1_500, turns=60)
    assert len(rarely) < len(often)
    assert rarely[0] == often[0]  # the first is as ever
    assert small <= 12_500 < large <= 20_000


@given(
    every=st.integers(min_value=0, max_value=50),
    size=st.integers(min_value=100, max_value=8_000),
)
@settings(max_examples=15, deadline=None)
def test_however_long_a_compaction_waits_the_page_fits(every: int, size: int):
    _, largest = compactions(every, size=size, turns=20)
    assert largest <= 20_000


def sizes_before_compactions(share: float, turns: int) -> list[int]:
    """How large the page was when it was compacted, by each compaction."""
    config = {"reserve_tokens": 0, "target_ratio": 0.3, "compact_share": share}
    context = opened_in_characters(window=20_000, config=config)
    notices = heard_by(context)
    for n in range(turns):
        context.append({"role": "user", "content": f"question {n} " + "q" * 900})
        context.request("openai_chat")
        context.append({"role": "assistant", "content": f"answer {n}"})
    return [one.tokens for one in notices if one.name == "auto-compacting"]


def test_a_page_grows_with_what_was_said_up_to_the_trigger():
    always_full = sizes_before_compactions(0.0, turns=150)
    growing = sizes_before_compactions(0.25, turns=150)
    assert min(always_full) >= 18_000
    assert 9_000 <= growing[0] < 11_000
    assert growing[-1] >= 18_000
    falls = [before - after for before, after in pairwise(growing)]
    assert max(falls) < 1_000  # the size of a turn


def test_messages_in_a_row_are_one_answer():
    context = opened_in_characters()
    said = ("user", "assistant", "assistant", "user", "assistant", "user", "assistant")
    for number, role in enumerate(said):
        context.append({"role": role, "content": f"{role} {number}"})
    slots = context.view.slots
    assert [answers(slots[:count]) for count in range(8)] == [0, 0, 1, 1, 1, 2, 2, 3]
    assert answers(slots[1:]) == 3


@settings(max_examples=15, deadline=None)
@given(front=st.integers(0, 25_000), ratio=st.floats(0.4, 0.6))
def test_an_early_trigger_counts_the_room_beside_the_system_prompt(
    front: int, ratio: float
) -> None:
    """S6: a large front is no reason to fold what was read a turn ago."""
    config = {"compact_ratio": ratio, "warn_ratio": ratio * 0.9}
    context = opened_in_characters(window=60_000, config=config)
    context.update(system="s" * front)
    context.append({"role": "user", "content": "go"})
    while context.stats().due == "none" and context.stats().current < context.budget.input_max:
        context.append({"role": "assistant", "content": "x" * 500})
    folded = context.stats().current - front
    assert folded >= min(ratio * (60_000 - front), 0.8 * context.budget.input_max - front) - 100
    assert context.stats().due == "compact" and context.stats().current < 0.9 * 60_000
