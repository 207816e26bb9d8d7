"""A session played again: what the policies are given is lawful, and what is counted is right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.dialects import DIALECTS, dialect
from refold.replay.needs import Prompt
from refold.replay.page import HEIGHT, faults_words, plot
from refold.replay.run import AGENT, ALL, OURS, USER_FIRST, faults_of, replay
from refold.replay.session import NO_RESULT, SUMMARY, messages_of, said_in
from refold.stores import open_store


def told(at: int) -> dict[str, Any]:
    return {"role": "user", "content": f"Look at src/file_{at}.py and say what it does. " * 12}


def turns(count: int) -> list[dict[str, Any]]:
    """Turns of a call and its result; every tenth uses a name from the first."""
    said: list[dict[str, Any]] = [told(0)]
    for at in range(1, count):
        path = f"src/file_{at if at % 10 else 1}.py"
        call = {"id": f"c{at}", "name": "read", "arguments": {"path": path}}
        text = f"Now I read {path}, which defines handler_{at} for the login form."
        said.append({"role": "assistant", "content": text, "tool_calls": [call]})
        body = f"def handler_{at}():  # the login form calls this\n" + "    pass\n" * 60
        said.append({"role": "tool", "tool_call_id": f"c{at}", "content": body})
    return said


def test_all_policies_see_the_same_turns_and_refold_has_no_fault():
    played = replay(turns(60), 3_000, "claude-sonnet-4-5")
    assert {len(one.turns) for one in played.outcomes} == {59}
    ours, whole = played.outcome(OURS), played.outcome(ALL)
    assert ours.faults == {} and ours.sent < whole.sent
    assert max(turn.tokens for turn in ours.turns) <= 3_000
    assert whole.kept == 1.0 and ours.needed == whole.needed > 0
    assert 0 < ours.dollars < whole.dollars
    assert played.receipts and all(one.tokens_after < one.tokens_before for one in played.receipts)


def test_what_a_policy_lost_is_named_with_its_line():
    window = replay(turns(60), 3_000).outcome("window, cut to half")
    assert window.lost and window.kept < 1
    assert all(lost.name in lost.line for lost in window.lost)


@given(st.text(alphabet="ab c\n", max_size=60), st.text(alphabet="ab", min_size=1, max_size=3))
def test_the_lines_that_hold_a_name_are_found(text: str, name: str):
    lines = [line for line in text.split("\n") if name in line]
    assert Prompt(text).holding(name) == "\n".join(lines)


def test_the_agents_own_compactions_are_a_policy_where_there_are_any():
    said = turns(20)
    assert AGENT not in [one.policy for one in replay(said, 3_000).outcomes]
    summary = {"role": "user", "content": "It reads files.", SUMMARY: True}
    played = replay([*said[:21], summary, *said[21:]], 3_000)
    own = played.outcome(AGENT)
    assert own.turns[10].tokens < own.turns[9].tokens
    assert played.messages == len(said)


def test_a_conversation_is_played_whole_whatever_was_compacted():
    context = refold.open("played", store="memory:", system="Be brief.")
    context.append({"role": "user", "content": "Why?"})
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"a": 1}'}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.compact(span=(2, 2), summary="Somebody asked why.", author="other")
    assert messages_of(context) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "ls", "arguments": {"a": 1}}]},
        {"role": "tool", "tool_call_id": "c", "content": NO_RESULT},
        {"role": "user", "content": "Somebody asked why.", SUMMARY: True},
    ]  # fmt: skip


PARTS = st.lists(
    st.sampled_from(["user", "text", "call", "result", "late"]), min_size=1, max_size=25
)


@settings(max_examples=60, deadline=None)
@given(PARTS)
def test_any_order_of_calls_and_results_is_played_in_lawful_order(parts: list[str]):
    """Calls and results as other agents write them down: item by item, late, or never answered."""
    context = refold.open("any", store="memory:", model="gpt-5")
    context.append({"role": "user", "content": "Begin."})
    open_calls: list[str] = []
    for at, part in enumerate(parts):
        if part == "user":
            context.append({"role": "user", "content": f"request {at}"})
        elif part == "text":
            context.append({"role": "assistant", "content": f"answer {at}"})
        elif part == "call":
            open_calls.append(f"c{at}")
            context.append(
                {"type": "function_call", "call_id": f"c{at}", "name": "ls", "arguments": "{}"}
            )
        elif open_calls:
            call = open_calls.pop(0 if part == "late" else -1)
            context.append({"type": "function_call_output", "call_id": call, "output": f"out {at}"})
    messages = messages_of(context)
    assert faults_of(messages, 10**9, "") == []
    assert replay(messages, 4_000).outcome(OURS).faults == {}


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.integers(1, 100), st.booleans())
def test_a_plot_is_as_wide_as_it_may_be(count: int, width: int, is_utf8: bool):
    played = replay(turns(count), 3_000)
    lines = plot(played, width=width, is_utf8=is_utf8)
    assert lines == [] if count == 1 else len(lines) in (HEIGHT + 1, HEIGHT + 2)
    assert all(len(line) <= width + 11 for line in lines)
    assert is_utf8 or all(line.isascii() for line in lines)


# --- faults ---


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gemini-2.5-pro", "gpt-5", "", "nosuch"])
def test_a_fault_is_a_request_and_only_where_the_provider_refuses_it(model: str):
    """Eight answers come before the user: each request has one fault, not eight, and none where
    the provider does not mind."""
    said = [{"role": "assistant", "content": f"Welcome, part {part}."} for part in range(8)]
    played = replay([*said, *turns(12)], 100_000, model)
    cut, is_refused = played.outcome("window, cut to half"), model.startswith(("claude", "gemini"))
    assert cut.faults == ({"assistant before user": 11} if is_refused else {})
    assert played.outcome("sliding window").faulty == (11 if is_refused else 0)
    assert played.outcome(OURS).faulty == 0


def test_a_request_with_several_faults_counts_once():
    long = {"role": "user", "content": "x " * 9_000}
    early = {"role": "assistant", "content": "Welcome."}
    window = replay([early, *turns(3), long, *turns(5)[1:]], 3_000, "claude-sonnet-4-5")
    for outcome in window.outcomes:
        if outcome.faulty is not None:
            assert max(outcome.faults.values(), default=0) <= outcome.faulty <= len(outcome.turns)
    sliding = window.outcome("sliding window")
    assert len(sliding.faults) > 1 and sum(sliding.faults.values()) > sliding.faulty


GREETED: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 10,
        "messages": [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Hi"}],
    },
    "gemini": {
        "contents": [
            {"role": "model", "parts": [{"text": "Hi"}]},
            {"role": "user", "parts": [{"text": "Hi"}]},
        ]
    },
    "openai_responses": {
        "model": "gpt-5",
        "input": [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Hi"}],
    },
}


# openai_chat's check is stricter than OpenAI, because hosts of many other models speak it.
@pytest.mark.parametrize("name", sorted({*DIALECTS} - {"openai_chat"}))
def test_who_must_speak_first_is_what_the_dialect_checks(name: str):
    assert bool(dialect(name).check(GREETED[name])) == (name in USER_FIRST)


def test_what_was_erased_keeps_its_place():
    store = open_store("memory:")
    context = refold.open("erased", store=store, model="claude-sonnet-4-5")
    [asked] = context.append({"role": "user", "content": "My name is Ada."})
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    [called] = context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append({"role": "tool", "tool_call_id": "c", "content": "a.py"})
    context.append({"role": "assistant", "content": "There is one file."})
    refold.conversations.erase(store, "erased", [asked.seq, called.seq])
    messages = messages_of(refold.open("erased", store=store))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[0]["content"] == "[erased]" and "Ada" not in str(messages)
    assert messages[1]["tool_calls"] == [{"id": "c", "name": "erased", "arguments": {}}]
    assert {one.faulty for one in replay(messages, 4_000, "claude-sonnet-4-5").outcomes} == {
        0,
        None,
    }


def test_who_need_not_fit_the_window_has_no_count_of_faults():
    said = turns(20)
    summary = {"role": "user", "content": "It reads files.", SUMMARY: True}
    for messages, free in ((said, {ALL}), ([*said[:21], summary, *said[21:]], {ALL, AGENT})):
        outcomes = replay(messages, 1_000).outcomes
        assert {one.policy for one in outcomes if one.faulty is None} == free
        assert all(not one.faults for one in outcomes if one.policy in free)
        assert all(f'"{policy}"' in faults_words(outcomes) for policy in free)


def test_what_a_person_took_back_at_the_end_is_played_until_the_session_goes_on():
    context = refold.open("played", store="memory:")
    for at in range(3):
        context.append({"role": "user", "content": f"Ask {at}."})
        context.append({"role": "assistant", "content": f"Answer {at}."})
    context.compact(span=(1, 2), summary="Somebody asked.", author="other")
    whole = said_in(context)
    assert [one["content"] for one in whole.messages][-1] == "Somebody asked."
    context.undo()
    context.restore(3)
    now = said_in(context)
    assert (now.messages, now.taken_back, now.off_page) == (whole.messages, 0, 3)
    context.append({"role": "assistant", "content": "Another answer."})
    now = said_in(context)
    assert [one["content"] for one in now.messages] == [
        "Ask 0.",
        "Answer 0.",
        "Ask 1.",
        "Another answer.",
    ]
    assert (now.taken_back, now.off_page) == (3, 0)


def test_what_the_session_itself_took_back_is_not_played():
    said = [told(at) for at in range(3)]
    context = refold.open("played", store="memory:")
    context.mirror(said)
    context.mirror(said[:2])
    now = said_in(context)
    assert (now.messages, now.taken_back, now.off_page) == (said[:2], 1, 0)
