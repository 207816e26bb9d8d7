"""The Context as an agent loop holds it: real stores, both dialects, the strict validators on
every request."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

import refold
import refold.testing
from refold import dialects
from refold.errors import Conflict, Invalid, NotFound
from tests.toolruns import forget_page, long, ran
from tests.turns import LONG, call, checked, opened, opened_in_characters, page_of, response, work

# --- the loop ---


def test_a_long_tool_loop_stays_valid_and_within_its_budget_in_both_dialects(url):
    """X-24, Y-26, C-81: also inside one turn."""
    context = opened(url, system="You are an agent")
    context.append({"role": "user", "content": "Fix the login test. The port is 8443."})
    for n in range(60):
        context.append(call(n))
        context.append_result(f"c{n}", f"turn {n}\n" + LONG * 50)
        checked(context, "openai_chat")
        assert "8443" in json.dumps(checked(context, "anthropic"))
        assert context.stats().current <= context.budget.input_max
    assert context.stats().summaries
    context.close()


def test_a_new_conversation_writes_nothing_before_the_first_append(tmp_path):
    context = opened(f"sqlite:{tmp_path}/store/refold.db", system="s")
    assert not (tmp_path / "store").exists()
    assert context.stats().messages == 0
    context.append({"role": "user", "content": "hi"})
    assert (tmp_path / "store" / "refold.db").exists()
    context.close()


def test_reopening_gives_the_same_page(tmp_path):
    """X-38: the request after a reload is byte-identical."""
    url = f"sqlite:{tmp_path}/refold.db"
    context = opened(url, system="be brief")
    context.append({"role": "user", "content": "go"})
    work(context, 40)
    before = page_of(context)
    context.close()
    again = opened(url)
    assert page_of(again) == before
    again.close()


def test_reopening_after_a_crash_gives_the_same_page(tmp_path):
    """The bookmark is older than the log when a process dies; the tail is folded on top of it."""
    url = f"sqlite:{tmp_path}/refold.db"
    context = opened(url)
    context.append({"role": "user", "content": "go"})
    work(context, 40)
    before = page_of(context)
    again = opened(url)
    assert page_of(again) == before
    context.close()
    again.close()


def test_a_clock_that_steps_back_leaves_the_order_as_it_was(url):
    """X-03, C-66."""
    with refold.testing.fixed_clock(1_700_000_002_000) as clock, opened(url) as context:
        context.append({"role": "user", "content": "first"})
        clock.advance(ms=-1_000)
        context.append({"role": "user", "content": "second"})
        context.append({"role": "user", "content": "third"})
        said = [message["content"] for message in checked(context)["messages"]]
        assert said == ["first", "second", "third"]
        events = [*context.log.events()]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-2].at_ms < events[-3].at_ms


def test_a_request_may_be_changed_by_its_caller_without_harm():
    context = opened()
    context.append({"role": "user", "content": [{"type": "text", "text": "hi"}]})
    context.append({"role": "assistant", "content": "there"})
    request = context.request("openai_chat")
    request["messages"][0]["content"][0]["text"] = "changed"
    request["messages"].clear()
    context.append(call(1))
    context.append_result("c1", "done")
    context.request("openai_chat")["messages"][-2]["tool_calls"][0]["function"]["name"] = "changed"
    assert (
        context.request("openai_chat")["messages"][-2]["tool_calls"][0]["function"]["name"]
        == "bash"
    )
    assert context.request("openai_chat")["messages"][0]["content"][0]["text"] == "hi"


# --- usage ---


def test_recording_the_same_response_twice_bills_it_once(url):
    """Y-07, trap 2."""
    context = opened(url, window=None, model="gpt-4o")
    context.append({"role": "user", "content": "hello there " * 400})
    context.request()
    assert len(context.record(response(1, prompt=1_000))) == 2
    assert context.record(response(1, prompt=1_000)) == []
    stats = context.stats()
    assert (stats.billed.calls, stats.billed.input, stats.current) == (1, 1_000, 1_010)
    assert stats.cost is not None and stats.cost > 0
    context.close()


def test_another_model_changes_the_limits_at_once():
    """Y-84: 150,000 tokens in a window of 200,000, then one of 64,000."""
    context = opened(window=200_000, config={"offload_tokens": 500_000})
    context.append({"role": "user", "content": "go"})
    for n in range(15):
        context.append(call(n))
        context.append_result(f"c{n}", f"{n} " + LONG * 600)
    assert context.stats().current > 100_000
    context.update(window=64_000)
    checked(context)
    assert context.stats().current < 64_000


# --- forks ---


def test_a_fork_goes_its_own_way(url):
    """Y-81, trap 8."""
    context = opened(url, window=60_000)
    context.append({"role": "user", "content": "shared"})
    twin = context.fork("twin")
    twin.append({"role": "user", "content": "mine"})
    context.append({"role": "user", "content": "yours"})
    assert [m["content"] for m in twin.request("openai_chat")["messages"]] == ["shared", "mine"]
    assert [m["content"] for m in context.request("openai_chat")["messages"]] == ["shared", "yours"]
    assert twin.view.title.startswith("Fork of")
    with pytest.raises(Conflict):
        context.fork("twin")
    twin.close()
    context.close()


def test_a_fork_has_what_was_set_just_before_it(url):
    """Y-81"""
    with opened(url, window=60_000) as context:
        context.append({"role": "user", "content": "shared"})
        context.update(title="Alpha", system="You are careful.")
        for id, at in (("twin", None), ("early", 1)):
            with context.fork(id, at=at) as twin:
                assert twin.view.title == twin.stats().title == "Fork of Alpha"
                assert bool(twin.view.system) is (at is None)
        assert context.stats().title == "Alpha"


# --- bad input ---


@pytest.mark.parametrize(
    "message",
    [
        {"role": "robot", "content": "hi"},
        {"content": "hi"},
        "hi",
        None,
        7,
        {"role": "user", "content": 3},
        {"role": "user", "content": [{"no": "type"}]},
        {"role": "tool", "content": "x"},
    ],
)
def test_a_message_without_a_form_is_refused_and_nothing_is_written(url, message):
    """M-02."""
    context = opened(url)
    context.append({"role": "user", "content": "before"})
    with pytest.raises(Invalid) as refused:
        context.append(message)
    assert refused.value.hint
    assert [event.kind for event in context.log.events()] == ["meta", "message"]
    context.append({"role": "user", "content": "after"})
    assert len(checked(context)["messages"]) == 2
    context.close()


def test_odd_text_is_carried_exactly(url):
    context = opened(url)
    texts = ["\x00 NUL", "\u2028 \u2029 \x85", "\ufeff", "🧵" * 10, "e\u0301 é", "\r\n\r", " "]
    for text in texts:
        context.append({"role": "user", "content": text})
    assert [m["content"] for m in context.request("openai_chat")["messages"]] == texts
    context.close()


def test_a_lone_surrogate_is_shown_replaced_and_kept_exactly(url):
    context = opened(url)
    context.append({"role": "user", "content": "bad \ud800 text"})
    assert checked(context)["messages"][0]["content"] == "bad \ufffd text"
    assert str(context.unfold("#2")) == "bad \ud800 text"
    context.close()


def test_a_lone_surrogate_anywhere_in_a_message_does_no_harm(url):
    context = opened(url)
    context.append({"role": "user", "content": "go"})
    context.append(call(1, name="na\udfffme", arguments='{"a": "\ud800"}'))
    context.append_result("c1", "out \ud800 put", name="na\udfffme")
    context.append(
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "http://x/\ud800"}}],
        }
    )
    checked(context)
    assert str(context.unfold("#4")) == "out \ud800 put"
    context.close()


def test_deep_json_is_refused_without_harm():
    """X-52."""
    context = opened()
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Invalid):
        context.append({"role": "user", "content": [{"type": "custom", "value": deep}]})
    context.append({"role": "user", "content": "fine"})
    checked(context)


@pytest.mark.parametrize(
    "id",
    ["../../x", "", "a/b", "a\x00b", "x" * 65, ".hidden", "CON", "aux.txt", "Nul.tar.gz", "a b"],
)
def test_a_conversation_id_that_is_no_plain_name_is_refused(id):
    """M-24, X-50."""
    with pytest.raises(Invalid):
        refold.open(id, store="memory:")


def test_a_closed_context_says_so():
    context = opened()
    context.close()
    context.close()
    with pytest.raises(Invalid, match="closed"):
        context.append({"role": "user", "content": "late"})


# --- many hands ---


def test_threads_share_a_context_without_losing_anything(url):
    """Y-112."""
    context = opened(url, window=500_000)

    def write(name: int) -> None:
        for n in range(50):
            context.append({"role": "user", "content": f"{name}-{n}"})

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [m["content"] for m in context.request("openai_chat")["messages"]]
    assert sorted(texts) == sorted(f"{name}-{n}" for name in range(4) for n in range(50))
    for name in range(4):
        mine = [text for text in texts if text.startswith(f"{name}-")]
        assert mine == [f"{name}-{n}" for n in range(50)]
    context.close()


def test_two_contexts_on_one_conversation_see_each_others_messages(tmp_path):
    """M-17, P5: renumbered, never lost or doubled."""
    url = f"sqlite:{tmp_path}/refold.db"
    one, two = opened(url), opened(url)
    for n in range(20):
        one.append({"role": "user", "content": f"one {n}"})
        two.append({"role": "user", "content": f"two {n}"})
    expected = [f"{who} {n}" for n in range(20) for who in ("one", "two")]
    assert [m["content"] for m in one.request("openai_chat")["messages"]] == expected
    assert [m["content"] for m in two.request("openai_chat")["messages"]] == expected
    one.close()
    two.close()


def test_an_edit_by_another_writer_makes_the_plan_be_drawn_up_again(tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    one = opened(url, config={"auto": False}, window=60_000)
    one.append({"role": "user", "content": "go"})
    work(one, 30)
    two = opened(url, config={"auto": False}, window=60_000)
    two.compact()
    receipt = one.compact()
    assert (
        receipt.tokens_before < 20_000
        or not receipt.batch
        or receipt.tokens_after <= receipt.tokens_before
    )
    assert dialects.dialect("openai_chat").check(one.request("openai_chat")) == []
    one.close()
    two.close()


def test_a_model_that_is_in_no_table_is_spoken_to_in_its_providers_format():
    context = opened(model="claude-of-tomorrow", window=None, system="Be brief.")
    context.append({"role": "user", "content": "hi"})
    request = context.request()
    assert "system" in request and dialects.dialect("anthropic").check(request) == []


def test_what_was_set_last_is_written_at_the_end(tmp_path):
    """M-22: title, tags and metadata, and emptying them, survive a close without a message."""
    store = f"sqlite:{tmp_path}/r.db"
    with refold.open("c", store=store) as context:
        context.update(title="A", tags=["x"], metadata={"ticket": 7})
        context.append({"role": "user", "content": "hi"})
    with refold.open("c", store=store) as context:
        assert (context.view.title, context.view.metadata) == ("A", {"ticket": 7})
        context.update(title="B", tags=[])
    with refold.open("c", store=store) as context:
        assert (context.view.title, context.view.tags) == ("B", ())


def test_a_window_of_nothing_is_refused():
    """G-01"""
    with pytest.raises(Invalid):
        refold.open("c", store="memory:", window=0)


def test_a_conversation_that_was_deleted_meanwhile_can_be_closed(tmp_path):
    """M-23"""
    context = refold.open("c", store=f"sqlite:{tmp_path}/r.db")
    context.append({"role": "user", "content": "hi"})
    context._open.store.delete("c")
    context.close()
    with pytest.raises((Invalid, NotFound)):
        context.append({"role": "user", "content": "more"})


def test_whether_a_message_fits_is_told_to_the_token():
    """G-01: 100 in all and 60 used: a message of 40 fits, one of 41 does not."""
    context = opened_in_characters(window=2_000, config={"reserve_tokens": 0})
    context.append({"role": "user", "content": "a" * 1_000})
    left = context.budget.input_max - context.stats().current
    frame = context.count({"role": "user", "content": "b"}) - 1
    assert context.count({"role": "user", "content": "b" * (left - frame)}) == left
    context.append({"role": "user", "content": "b" * (left - frame)})
    assert context.stats().current == context.budget.input_max and context.request()


def test_closing_cleans_up_by_the_configuration(tmp_path):
    """T-19: at the end of a session, within the bounds; what is new stays until the next time."""
    given = {
        "store": f"sqlite:{tmp_path}/refold.db",
        "config": {"offload_tokens": 50, "artifacts_count": 0},
    }
    with refold.open("work", **given) as context:
        id = ran(context, long("first"))
        forget_page(context)
    with refold.open("work", **given) as context:
        assert context.unfold(id).content
        context._open.log.clock = lambda: time.time_ns() // 1_000_000 + 3_600_000
    with (
        refold.open("work", **given) as context,
        pytest.raises(NotFound, match="was cleaned up on"),
    ):
        context.unfold(id)


def test_an_update_before_the_first_append_keeps_the_model_that_was_opened_with():
    with refold.open("c", store="memory:", model="claude-sonnet-5-5") as context:
        window = context.budget.window
        context.update(title="a title")
        assert context.budget.window == window
        [event] = context.append({"role": "user", "content": "hi"})
        assert b'"anthropic"' in event.body


def test_a_view_shows_a_system_prompt_and_tools_before_they_are_written():
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    with refold.open("c", store="memory:", model="claude-sonnet-5-5") as context:
        context.update(system="You fix tests.", tools=tools)
        before = context.view
        context.append({"role": "user", "content": "hi"})
        after = context.view
        assert before.system == after.system == "You fix tests."
        assert before.tools == after.tools == tools
        assert before.system_tokens == after.system_tokens > 0
        assert before.tools_tokens == after.tools_tokens > 0


def test_a_second_update_before_the_first_message_keeps_model_and_window():
    context = refold.open("fresh", store="memory:", model="gpt-4o", window=9_000)
    context.update(title="later")
    assert (context.stats().model, context.budget.window) == ("gpt-4o", 9_000)
    context.append({"role": "user", "content": "hi"})
    assert (context.stats().model, context.budget.window) == ("gpt-4o", 9_000)


@pytest.mark.parametrize("first", ["parent", "fork"])
def test_a_store_stays_open_for_the_forks_of_a_context_that_is_closed(tmp_path, first):
    context = refold.open("c", store=f"sqlite:{tmp_path}/a.db")
    context.append({"role": "user", "content": "hi"})
    fork = context.fork("f")
    closed, open_ = (context, fork) if first == "parent" else (fork, context)
    closed.close()
    open_.append({"role": "user", "content": "still here"})
    store = open_._open.store
    open_.close()
    with pytest.raises(refold.Invalid):
        store.conversations()


@pytest.mark.parametrize("times", [1, 3])
def test_an_undo_takes_back_the_newest_compaction_even_one_that_came_meanwhile(times: int):
    """Another process compacts between the look at the log and the write, once or several times."""
    store = refold.open_store("memory:")
    agent = refold.open("work", store=store, model="claude-sonnet-4-5", window=24_000)
    for number in range(30):
        agent.append({"role": "user", "content": f"question {number} " + "word " * 80})
        agent.append({"role": "assistant", "content": f"answer {number} " + "word " * 80})
    older = agent.compact().batch
    shell = refold.open("work", store=store)
    write, newer = store.append, list[str]()

    def slowly(*given: Any, **more: Any) -> None:
        store.append = write  # type: ignore[method-assign]
        agent.append({"role": "user", "content": "more " * 900})
        agent.append({"role": "assistant", "content": "more " * 900})
        newer.append(agent.compact("hide", preset="lastTwo").batch)
        if len(newer) < times:
            store.append = slowly  # type: ignore[method-assign]
        write(*given, **more)

    store.append = slowly  # type: ignore[method-assign]
    undone = shell.undo()
    assert older and all(newer) and len(newer) == times
    assert undone.batch == newer[-1]
