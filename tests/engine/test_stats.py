"""The figures of a Context: what the next request weighs, and what was billed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.model import shows_memories
from refold.errors import Invalid
from tests.turns import LONG, call, opened, opened_in_characters, response, talk, work

REPLY = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}}],
}


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": 0, "completion_tokens": 0}, {}, {"prompt_tokens": -5}]
)
def test_a_provider_that_reports_nothing_does_not_empty_the_page(usage):
    """Y-08, Y-09: current falls back to the full estimate."""
    context = opened_in_characters(counter=None)
    for n in range(20):
        context.append({"role": "user", "content": f"{n} " + "word " * 1_000})
        context.request("openai_chat")
        assert context.view.tokens <= context.budget.window
        context.record({**REPLY, "id": f"r{n}", "model": "local", "usage": usage})
    assert context.stats().current >= context.view.tokens * 0.5


def test_what_the_caller_adds_to_the_page_is_not_taken_for_growth():
    """Y-09: 12,000 reported for a page of 5,000, then 7,000 more: about 19,000."""
    context = opened_in_characters(window=200_000)
    context.append({"role": "user", "content": "h" * 5_000})
    context.request("openai_chat")
    context.record(
        {
            **REPLY,
            "id": "r",
            "model": "m",
            "usage": {"prompt_tokens": 12_000, "completion_tokens": 5},
        }
    )
    context.append({"role": "user", "content": "x" * 7_000})
    assert 18_900 < context.stats().current < 19_200


def test_a_new_conversation_is_untitled_and_empty(tmp_path):
    """M-01."""
    stats = opened(f"sqlite:{tmp_path}/refold.db", id="conv-1").stats()
    assert (stats.conversation, stats.title) == ("conv-1", "Untitled")
    assert stats.messages == stats.artifacts == stats.current == stats.billed.calls == 0
    assert stats.cost == 0 and stats.by_role == {}


def test_the_share_of_messages_on_the_page_is_one_where_there_are_none():
    """Y-83."""
    context = opened(window=100_000)
    assert context.stats().ratio == 1.0
    talk(context, 20)
    context.compact("hide", preset="half")
    stats = context.stats()
    assert stats.active < stats.messages == 40
    assert stats.ratio == stats.active / 40


def test_bills_survive_a_restart(tmp_path):
    """Y-11: and a conversation without usage has none."""
    url = f"sqlite:{tmp_path}/refold.db"
    with opened(url) as context:
        context.append({"role": "user", "content": "hello there " * 300})
        assert context.stats().billed.calls == 0
        context.request()
        context.record(response(1, prompt=900))
        before = context.stats()
    with opened(url) as context:
        after = context.stats()
        assert (after.billed, after.current) == (before.billed, before.current)
        assert after.billed.input == 900


def test_no_count_is_kept_in_a_file_of_its_own(tmp_path):
    """Y-12."""
    with opened(f"sqlite:{tmp_path}/refold.db") as context:
        talk(context, 10)
        context.request()
        context.stats()
    assert {path.name for path in tmp_path.iterdir()} <= {
        "refold.db",
        "refold.db-wal",
        "refold.db-shm",
    }


def test_the_size_of_the_next_request_is_known_before_it_is_sent():
    """Y-09."""
    context = opened(window=128_000, config={"offload_tokens": 100_000})
    context.append({"role": "user", "content": "go on with it " * 20_000})
    context.request()
    context.record(response(1, prompt=90_000))
    context.append({"role": "user", "content": "x" * 40_000})
    assert context.stats().current > 95_000


def test_the_parts_of_the_breakdown_sum_to_the_whole():
    """Y-10: system, tools, memories, summaries, artifacts (stubs of results that were moved out)
    and the rest."""
    context = opened(
        system="s" * 4_000,
        tools=[{"name": "t", "description": "d", "input_schema": {"type": "object"}}],
    )
    context.append({"role": "user", "content": "go"})
    work(context, 60)
    without = context.stats().breakdown
    context.append(call(60))
    [*_, stub] = context.append_result("c60", LONG * 2_000)
    stats = context.stats()
    assert without["artifacts"] == 0 and stats.breakdown["artifacts"] == stub.tokens
    assert sum(stats.breakdown.values()) == stats.current
    assert stats.breakdown["memory"] == 0
    assert all(size > 0 for part, size in stats.breakdown.items() if part != "memory")


@given(
    remembered=st.lists(st.sampled_from(["port 6432", "port 5432", "tea", "Ida"]), max_size=3),
    results=st.integers(0, 2),
    compacts=st.booleans(),
)
def test_each_message_of_the_page_is_in_one_part(remembered, results, compacts):
    """Y-10: with what memories take, and never a token twice."""
    context = opened(system="s" * 400, embedder=False)
    for what in remembered:
        context.memory.store(f"The staging database has {what}")
    context.append({"role": "user", "content": "Connect to the staging database"})
    context.request()
    shown = [slot.tokens for slot in context.view.slots if shows_memories(slot.message)]
    for n in range(results):
        context.append(call(n))
        context.append_result(f"c{n}", LONG * 2_000)
    if compacts:
        context.compact()
    stats = context.stats()
    assert sum(stats.breakdown.values()) == stats.current == context.view.tokens
    assert bool(shown) == bool(remembered)
    if not compacts:
        assert stats.breakdown["memory"] == sum(shown)
        assert bool(stats.breakdown["artifacts"]) == bool(results)


def test_what_is_still_to_be_written_counts():
    with refold.open(
        "c", store="memory:", model="gpt-4o", system="You fix tests. " * 20
    ) as context:
        before = context.stats()
        assert before.current == before.breakdown["system"] > 0


def test_what_is_hidden_is_no_summary(tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    with refold.open("c", store=url, window=60_000) as context:
        for turn in range(30):
            role = "assistant" if turn % 2 else "user"
            context.append({"role": role, "content": f"part {turn}: " + "some words " * 100})
        context.hide(context.view.slots[2].seq, context.view.slots[5].seq)
        assert context.stats().summaries == 0
        context.compact("summarize", target=3_000)
        summaries = context.stats().summaries
        assert summaries >= 1
    with refold.open("c", store=url, window=60_000) as context:
        assert context.stats().summaries == summaries


def test_what_was_billed_has_a_total_with_the_cache_in_it():
    """Y-01"""
    usage = {"input_tokens": 20, "cache_read_input_tokens": 580, "output_tokens": 7}
    context = refold.open("billed", store="memory:", model="claude-sonnet-4-5")
    context.append({"role": "user", "content": "word " * 600})
    context.request()
    context.record(
        {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
         "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": usage}
    )  # fmt: skip
    billed = context.stats().billed
    assert (billed.input, billed.output, billed.total) == (600, 7, 607)


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", None])
def test_a_text_and_blocks_are_counted_alone(model):
    """Y-02"""
    context = refold.open("count", store="memory:", model=model)
    assert context.count("") == context.count([]) == 0
    text = "Why does the login test fail?"
    blocks = [
        {"type": "text", "text": text},
        {"type": "thinking", "thinking": text, "signature": "s"},
        {"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a.py"}},
        {"type": "tool_result", "tool_use_id": "1", "content": text},
    ]
    alone = [context.count([block]) for block in blocks]
    assert all(alone) and alone[0] == context.count(text)
    assert sum(alone) == context.count(blocks)
    assert context.count(text) < context.count({"role": "user", "content": text})
    assert context.stats().messages == 0
    for not_content in (5, None, b"x", ["text"]):
        with pytest.raises(Invalid):
            context.count(not_content)


@pytest.mark.parametrize(("reported", "advises"), [(90_000, True), (10, False)])
def test_an_ignored_report_says_what_may_be_missing(reported: int, advises: bool) -> None:
    """Y-09: a large system prompt that refold was not told of is what mostly makes the difference."""
    context = refold.open("beside", store="memory:", model="gpt-4o")
    heard: list[refold.Notice] = []
    context.on("usage-ignored", heard.append)
    context.append({"role": "user", "content": "word " * 400})
    context.request()
    context.record(usage={"prompt_tokens": reported, "completion_tokens": 1})
    context.request()
    [notice] = heard
    assert ("system prompt and tools" in notice.reason) is advises
