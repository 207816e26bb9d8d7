"""A request that was too long is recovered from once, and what was refused is learnt from."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.compaction.compactor import Veto
from refold.compaction.overflow import as_counted
from refold.errors import OverBudget
from refold.writer.asker import Answer
from tests.refusals import APIStatusError, Provider, anthropic, openai
from tests.scripted import heard_by
from tests.turns import call, opened_in_characters, talk, worked
from tests.waiting import LONG_S

LINE = "a line of output that is long enough to count for something\n"


def turn(context, provider: Provider) -> None:
    """The loop of an agent: call, and call again for as long as the context says so."""
    while True:
        try:
            context.record(provider.complete(context.request("openai_chat")))
            return
        except APIStatusError as error:
            if not context.recover(error):
                raise


def named(notices, name: str) -> list[refold.Notice]:
    return [notice for notice in notices if notice.name == name]


@pytest.mark.parametrize("states", [True, False])
def test_an_overflow_is_recovered_once_and_the_retry_fits(states):
    """C-81: a quarter of what can go is kept, as one batch that can be undone."""
    context, provider = worked(), Provider(20_000, states=states)
    notices, before = heard_by(context), context.stats().current
    turn(context, provider)
    assert len(provider.calls) == 2
    [told] = named(notices, "overflow-recovered")
    assert told.receipt.batch and told.before > told.after
    assert told.after <= before * 0.3
    assert "8443" in json.dumps(context.request("openai_chat"))
    context.undo(told.receipt.batch)
    assert len(context.view.slots) == 122


def test_a_provider_that_refuses_twice_is_called_twice_and_the_error_gives_advice():
    """C-81."""
    context, provider = worked(), Provider(20_000, stubborn=True)
    notices = heard_by(context)
    with pytest.raises(OverBudget, match="refused again") as raised:
        turn(context, provider)
    assert len(provider.calls) == 2
    assert len(named(notices, "overflow-recovered")) == 1
    assert "larger window" in raised.value.hint


def test_after_something_new_was_appended_an_overflow_is_recovered_again():
    """C-81: one try per page, not per conversation."""
    context = worked()
    error = openai("This model's maximum context length is 20000 tokens.")
    context.request("openai_chat")
    assert context.recover(error)
    context.append({"role": "user", "content": LINE * 2_000})
    assert context.recover(openai("This model's maximum context length is 10000 tokens."))
    assert context.budget.window == 10_000


def test_a_recovery_is_deterministic():
    """C-81: two contexts with the same log are reduced alike."""
    pages = []
    for _ in range(2):
        context = worked()
        assert context.recover("maximum context length is 20000 tokens")
        pages.append(json.dumps(context.request("openai_chat")))
    assert pages[0] == pages[1]


def test_neither_a_writer_nor_a_veto_stands_in_the_way_of_a_recovery():
    """C-81: no model is asked; hooks that listen are told."""
    asked: list[object] = []
    receipts: list[refold.Receipt] = []

    def writer(request: object) -> Answer:
        asked.append(request)
        return Answer(text="prose")

    context = worked(writer=writer)
    context.on("before-compaction", lambda plan: Veto("not now"))
    context.on("compaction-complete", lambda notice: receipts.append(notice.receipt))
    assert context.recover("maximum context length is 20000 tokens")
    assert asked == []
    assert len(receipts) == 1 and receipts[0].batch


def test_a_recovery_does_not_wait_for_a_compaction_in_flight():
    """C-81: and the other one finds the page edited, and does nothing that breaks it."""
    asked, answered = threading.Event(), threading.Event()

    def writer(request: object) -> Answer:
        asked.set()
        answered.wait(LONG_S)
        return Answer(text="prose")

    context = worked(writer=writer)
    other = threading.Thread(target=context.compact, kwargs={"target": 8_000})
    other.start()
    assert asked.wait(LONG_S)
    assert context.recover("maximum context length is 20000 tokens")
    assert not answered.is_set()
    answered.set()
    other.join(LONG_S)
    assert dialects.dialect("openai_chat").check(context.request("openai_chat")) == []
    assert context.stats().current <= context.budget.input_max


def test_a_fork_knows_what_was_learnt():
    """C-82."""
    context = worked()
    assert context.recover("maximum context length is 20000 tokens")
    assert context.fork("twin").budget.window == 20_000


def test_another_error_changes_nothing():
    """C-80."""
    context = worked(3)
    head = context.view.head
    broken_pair = "messages.4: `tool_use` ids were found without `tool_result` blocks: toolu_01"
    assert not context.recover(anthropic(broken_pair))
    assert context.view.head == head
    assert context.budget.window == 128_000


def test_a_size_that_is_far_beyond_the_last_usage_still_fits_after_one_recovery():
    """C-82: the anchor of an older report must not hide what the error said."""
    context = worked(5)
    provider = Provider(24_000, per_sign=0.75)
    turn(context, provider)
    context.append({"role": "user", "content": "".join(f"{n} {LINE}" for n in range(900))})
    calls = len(provider.calls)
    turn(context, provider)
    assert len(provider.calls) <= calls + 2


def test_a_refusal_just_above_the_limit_still_leaves_about_a_quarter():
    """C-81: strong, so that the retry does not fail by a hair."""
    context = worked()
    current = context.stats().current
    assert context.recover(f"maximum context length is {current - 1_000} tokens")
    assert context.stats().current <= current * 0.3


def test_a_stated_size_counts_for_more_than_the_last_report():
    """C-82: the report was of 100 tokens for a page of thousands, the refusal is of 2.4 per
    token of our estimate."""
    context = refold.open("work", store="memory:", window=128_000)
    context.append({"role": "user", "content": LINE * 400})
    reply = Provider(100_000).complete(context.request("openai_chat"))
    context.record(
        {**reply, "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}}
    )
    context.append({"role": "user", "content": "".join(f"{n} {LINE}" for n in range(1_500))})
    context.request("openai_chat")
    size = round(context.view.tokens * 2.4)
    assert context.recover(
        f"maximum context length is 30000 tokens. However, you requested {size} tokens"
    )
    assert context.view.tokens * 2.4 <= 30_000


def test_a_page_on_which_nothing_can_go_is_an_error_at_once():
    """C-81: no second call that must fail."""
    context = refold.open("work", store="memory:", window=128_000, system="s" * 4_000)
    context.append({"role": "user", "content": "hello"})
    context.request("openai_chat")
    with pytest.raises(OverBudget) as raised:
        context.recover("prompt is too long")
    assert "system prompt" in raised.value.hint


# --- no dead end ---


def test_one_message_larger_than_the_window_is_cut_with_a_note_and_unfolds_whole():
    """C-83: a single message of 300k tokens in a window of 128k."""
    context = refold.open("work", store="memory:", window=128_000)
    text = "".join(f"{n} {LINE}" for n in range(24_000))
    [event] = context.append({"role": "user", "content": text})
    assert context.view.tokens > 300_000
    request = context.request("openai_chat")
    assert dialects.dialect("openai_chat").check(request) == []
    assert context.stats().current <= context.budget.input_max
    assert f"are cut here: #{event.seq} " in json.dumps(request)
    assert context.unfold(f"#{event.seq}").text == text


def test_one_message_larger_than_a_learnt_limit_is_cut_to_it():
    """C-82, C-83."""
    context, provider = (
        refold.open("work", store="memory:", window=400_000),
        Provider(60_000, per_sign=0.4),
    )
    text = "".join(f"{n} {LINE}" for n in range(12_000))
    context.append({"role": "user", "content": text})
    turn(context, provider)
    assert len(provider.calls) == 2
    assert context.unfold("#2").text == text


def test_switching_to_a_smaller_model_makes_room_before_the_next_call():
    """Y-84: 150k in a window of 200k, then a window of 64k."""
    context = worked(235, model="claude-sonnet-4-5", window=200_000)
    notices, before = heard_by(context), context.stats().current
    assert 130_000 < before < 180_000
    context.request("anthropic")
    assert not named(notices, "compaction-complete")
    context.update(window=64_000)
    assert dialects.dialect("anthropic").check(context.request("anthropic")) == []
    assert len(named(notices, "compaction-complete")) == 1
    assert context.stats().current <= context.budget.input_max < 64_000


def test_a_refusal_without_numbers_keeps_about_a_quarter():
    """C-81"""
    context = opened_in_characters(window=40_000)
    talk(context, 40)
    for n in range(40):
        context.append({"role": "user", "content": f"handler_{n} in src/mod_{n}.py gives code_{n}"})
    before = context.stats().current
    assert context.recover(Exception("context_length_exceeded"))
    assert 0.15 * before < context.stats().current <= 0.26 * before


@given(
    counted=st.integers(min_value=1, max_value=300_000),
    share=st.floats(min_value=1.0, max_value=6.0),
    limit=st.integers(min_value=1_000, max_value=300_000),
)
def test_a_limit_in_our_tokens_is_within_the_providers_and_never_next_to_nothing(
    counted: int, share: float, limit: int
):
    stated = int(counted * share)
    ours = as_counted(limit, counted, stated)
    by_share = limit * counted // max(stated, counted)
    assert by_share // 2 <= ours <= by_share
    if limit - (stated - counted) >= by_share // 2:  # what is not counted is beside the page
        assert ours + stated - counted <= limit


@pytest.mark.parametrize("more", [1.02, 1.2, 1.5, 2.0, 3.0])
def test_a_page_that_the_provider_counts_higher_keeps_its_request(more: float):
    """We believed that it fits: what was stated says by how much that is wrong."""
    context = opened_in_characters(window=20_000, config={"reserve_tokens": 0})
    context.append({"role": "user", "content": "Repair login_form.py, please. " * 20})
    for number in range(12):
        context.append(call(number))
        context.append_result(f"c{number}", LINE * 16)
    context.request("openai_chat")
    context.record(usage={"input_tokens": context.stats().current, "output_tokens": 1})
    context.append(call(99))
    context.append_result("c99", LINE * 60)
    sent = context.request("openai_chat")
    current = context.stats().current
    stated = round(current * more)
    text = f"prompt is too long: {stated} tokens > {round(stated / 1.01)} maximum"
    assert context.recover({"status_code": 400, "body": text})
    after = context.request("openai_chat")
    assert dialects.dialect("openai_chat").check(after) == []
    assert sent["messages"][0] in after["messages"]
    assert context.stats().current < current
    assert after["messages"][-1]["content"].count(LINE) > 2
