"""The Context as an agent loop holds it: real stores, both dialects, the strict validators on
every request."""

from __future__ import annotations

import hashlib
import json
import threading

import pytest

import refold
from refold import dialects
from refold.core.model import Text, ToolResult
from refold.errors import Conflict, Invalid, NotFound, OverBudget

LONG = "a line of output that is long enough to count for something\n"


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db"


def opened(url="memory:", id="work", **given):
    given.setdefault("window", 24_000)
    return refold.open(id, store=url, **given)


def call(n: int, name: str = "bash", arguments: str = '{"command":"ls"}') -> dict:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}],
    }


def checked(context, dialect="openai_chat") -> dict:
    request = context.request(dialect)
    assert dialects.dialect(dialect).check(request) == []
    return request


def worked(context, turns: int, size: int = 40) -> None:
    for n in range(turns):
        context.append(call(n))
        context.append_result(f"c{n}", f"turn {n}\n" + LONG * size)
        checked(context)


def response(n: int, text: str = "ok", prompt: int = 100) -> dict:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {
        "id": f"r{n}",
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [choice],
        "usage": usage,
    }


def page_of(context) -> str:
    return hashlib.sha256(json.dumps(context.request("openai_chat")).encode()).hexdigest()


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
    worked(context, 40)
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
    worked(context, 40)
    before = page_of(context)
    again = opened(url)
    assert page_of(again) == before
    context.close()
    again.close()


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


# --- large results ---


def test_a_large_result_is_kept_whole_and_shown_as_a_stub(url):
    """M-60, T-21: at most 2,000 characters, the pair intact, any line in reach."""
    context = opened(url)
    context.append({"role": "user", "content": "go"})
    context.append(call(1))
    output = "\n".join(f"line {n}" for n in range(1, 200_001))
    context.append_result("c1", output)
    shown = checked(context)["messages"][-1]
    assert len(shown["content"]) <= 2_000
    assert shown["tool_call_id"] == "c1"
    [artifact] = [one.artifact for one in context.artifacts.list()]
    assert artifact.id in shown["content"]
    assert "200,000 lines" in shown["content"]
    assert context.unfold(artifact.id).content == output.encode()
    assert str(context.unfold(f"artifact://{artifact.id}", lines=(100, 200))) == "\n".join(
        f"line {n}" for n in range(100, 201)
    )
    assert artifact.origin.tool == "bash"
    assert artifact.size_bytes == len(output)
    context.close()


def test_the_same_large_result_twice_is_kept_once(tmp_path):
    """M-21."""
    context = opened(f"sqlite:{tmp_path}/refold.db")
    context.append({"role": "user", "content": "go"})
    for n in range(2):
        context.append(call(n))
        context.append_result(f"c{n}", LONG * 10_000)
    assert len({one.artifact.digest for one in context.artifacts.list()}) == 1
    assert len(list((tmp_path / "artifacts").iterdir())) == 1
    context.close()


def test_bytes_and_plain_data_are_results_too():
    """T-05, M-05."""
    context = opened()
    context.append({"role": "user", "content": "go"})
    outputs = {"c1": b"\x00\xff\xfe", "c2": {"b": 1, "a": [True, None]}, "c3": None, "c4": {3, 1}}
    for n, output in enumerate(outputs.values(), 1):
        context.append(call(n))
        context.append_result(f"c{n}", output)
    checked(context)
    assert context.unfold(context.artifacts.list()[0].id).content == b"\x00\xff\xfe"
    with pytest.raises(Invalid):
        context.append_result("c9", object())


# --- usage ---


def test_recording_the_same_response_twice_bills_it_once(url):
    """Y-07, trap 2."""
    context = opened(url, window=None, model="gpt-4o")
    context.append({"role": "user", "content": "hi"})
    context.request()
    assert len(context.record(response(1, prompt=1_000))) == 2
    assert context.record(response(1, prompt=1_000)) == []
    stats = context.stats()
    assert (stats.billed.calls, stats.billed.input, stats.current) == (1, 1_000, 1_010)
    assert stats.cost is not None and stats.cost > 0
    context.close()


def test_the_size_of_the_next_request_is_known_before_it_is_sent():
    """Y-09."""
    context = opened(window=128_000, config={"offload_tokens": 100_000})
    context.append({"role": "user", "content": "go"})
    context.request()
    context.record(response(1, prompt=90_000))
    context.append({"role": "user", "content": "x" * 40_000})
    assert context.stats().current > 95_000


def test_the_parts_of_the_breakdown_sum_to_the_whole():
    """Y-10: system, tools, summaries, artifacts (stubs of results that were moved out) and the
    rest."""
    context = opened(
        system="s" * 4_000,
        tools=[{"name": "t", "description": "d", "input_schema": {"type": "object"}}],
    )
    context.append({"role": "user", "content": "go"})
    worked(context, 60)
    without = context.stats().breakdown
    context.append(call(60))
    [*_, stub] = context.append_result("c60", LONG * 2_000)
    stats = context.stats()
    assert without["artifacts"] == 0 and stats.breakdown["artifacts"] == stub.tokens
    assert sum(stats.breakdown.values()) == stats.current
    assert all(part > 0 for part in stats.breakdown.values())


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


# --- notices ---


def test_the_warning_comes_once_and_again_after_a_compaction():
    """Y-23, Y-24: order warning, auto-compacting, compaction-complete."""
    context, heard = opened(), []
    context.on("*", lambda notice: heard.append(notice.name))
    context.append({"role": "user", "content": "go"})
    worked(context, 60)
    assert heard[: heard.index("compaction-complete") + 1].count("context-warning") == 1
    order = [
        name
        for name in heard
        if name in ("context-warning", "auto-compacting", "compaction-complete")
    ]
    assert order[:3] == ["context-warning", "auto-compacting", "compaction-complete"]
    assert heard.count("context-warning") <= heard.count("compaction-complete") + 1


def test_a_listener_that_raises_stops_nobody():
    """Y-25."""
    context, heard = opened(), []
    context.on("context-warning", lambda notice: 1 / 0)
    off = context.on("context-warning", heard.append)
    failed = []
    context.on("listener-failed", failed.append)
    context.append({"role": "user", "content": "go"})
    worked(context, 40)
    assert len(heard) >= 1
    assert "ZeroDivisionError" in failed[0].reason
    off()
    heard.clear()
    worked(context, 30)
    assert heard == []


def test_a_listener_may_use_the_context():
    """Listeners are called with no lock held, from any thread."""
    context, sizes = opened(), []

    def listen(notice):
        thread = threading.Thread(target=lambda: sizes.append(context.stats().current))
        thread.start()
        thread.join(timeout=10)

    context.on("context-warning", listen)
    context.append({"role": "user", "content": "go"})
    worked(context, 40)
    assert sizes


def test_a_fixed_part_over_the_trigger_is_said_once_and_never_compacted_in_a_loop():
    """X-12: window 32,768, fixed part about 29,000."""
    context, heard = (
        opened(window=32_768, system="word " * 29_000, counter=lambda text: len(text.split())),
        [],
    )
    context.on("*", lambda notice: heard.append(notice.name))
    context.append({"role": "user", "content": "go"})
    for _ in range(3):
        context.request()
    assert heard.count("budget-unreachable") == 1
    assert "compaction-complete" not in heard


def test_a_page_that_cannot_fit_is_refused_with_the_numbers():
    context = opened(window=10_000, system="word " * 20_000, counter=lambda text: len(text.split()))
    context.append({"role": "user", "content": "go"})
    with pytest.raises(OverBudget, match="10,000"):
        context.request()


def test_one_message_larger_than_the_window_is_cut_and_nothing_is_tried_again():
    """X-16, C-83: the request fits, the note leads back to all of it."""
    context, heard = opened(window=12_800), []
    context.on("auto-compacting", heard.append)
    context.append({"role": "user", "content": "please read " + "data " * 60_000 + "and answer"})
    request = checked(context)
    assert "unfold #1" in request["messages"][0]["content"]
    assert context.stats().current <= context.budget.input_max
    checked(context)
    assert len(heard) == 1
    assert str(context.unfold("#1")).endswith("and answer")


def test_automatic_compaction_can_be_switched_off():
    """Y-22, Y-123."""
    context, heard = opened(window=8_000, config={"auto": False}), []
    context.on("*", lambda notice: heard.append(notice.name))
    context.append({"role": "user", "content": "go"})
    for n in range(8):
        context.append(call(n))
        context.append_result(f"c{n}", LONG * 60)
    context.request()
    assert "context-warning" in heard
    assert "compaction-complete" not in heard


# --- undo ---


def test_undo_gives_the_page_back_and_undoing_again_redoes(url):
    """G-32, M-81, X-30."""
    context = opened(url, config={"auto": False}, window=60_000)
    context.append({"role": "user", "content": "go"})
    worked(context, 30)
    before = page_of(context)
    receipt = context.compact()
    assert receipt.batch and receipt.saved_tokens > 0 and receipt.items
    after = page_of(context)
    assert after != before
    assert context.undo()
    assert page_of(context) == before
    assert context.undo()
    assert page_of(context) == after
    context.revert(receipt.batch)
    assert page_of(context) == before
    context.close()


def test_a_compaction_is_undone_even_after_later_turns():
    context = opened(config={"auto": False}, window=60_000)
    context.append({"role": "user", "content": "go"})
    worked(context, 30)
    kept = [slot.message for slot in context.view.slots]
    receipt = context.compact()
    context.append({"role": "user", "content": "and then?"})
    context.revert(receipt.batch)
    assert [slot.message for slot in context.view.slots][: len(kept)] == kept
    assert len(context.view.slots) == len(kept) + 1


def test_nothing_to_undo_is_an_answer():
    assert opened().undo() is False
    with pytest.raises(NotFound):
        opened().revert("nope")


def test_after_an_undo_automatic_compaction_sleeps_and_says_so():
    context, heard = opened(window=60_000), []
    context.on("compaction-skipped", lambda notice: heard.append(notice.reason))
    context.append({"role": "user", "content": "go"})
    n = 0
    while not context.view.undoable:
        context.append(call(n))
        context.append_result(f"c{n}", LONG * 50)
        checked(context)
        n += 1
    context.undo()
    checked(context)
    assert heard == ["asleep after an undo"]
    assert context.stats().summaries == 0


def test_restore_goes_back_to_a_checkpoint_and_keeps_the_bill(url):
    """G-30, C-67: messages and edits after it are off, billed totals stay, and it can be undone."""
    context = opened(url, window=60_000)
    context.append({"role": "user", "content": "first"})
    context.request()
    context.record(response(1))
    before = page_of(context)
    context.checkpoint("start")
    context.append({"role": "user", "content": "second"})
    context.request()
    context.record(response(2))
    later = page_of(context)
    context.restore("start")
    assert page_of(context) == before
    assert context.stats().billed.calls == 2
    context.undo()
    assert page_of(context) == later
    with pytest.raises(NotFound, match="nope"):
        context.restore("nope")
    with pytest.raises(Invalid):
        context.restore(10_000)
    context.close()


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


# --- pins and handles ---


def test_a_pinned_message_survives_every_compaction_verbatim():
    """C-52, X-31."""
    context = opened()
    context.append({"role": "user", "content": "go"})
    [rule] = context.append(
        {"role": "user", "content": "RULE: never touch secrets.py  (exactly this)"}
    )
    context.pin(rule.seq)
    context.append({"role": "user", "content": "now work"})
    worked(context, 60)
    texts = [m["content"] for m in checked(context)["messages"]]
    assert "RULE: never touch secrets.py  (exactly this)" in texts
    context.unpin(rule.seq)
    worked(context, 40)
    with pytest.raises(NotFound):
        context.pin(9_999)


def test_pinning_a_result_pins_its_call_as_well():
    """M-77."""
    context = opened(config={"auto": False})
    context.append({"role": "user", "content": "go"})
    context.append(call(1))
    [result] = context.append_result("c1", "the needle")
    context.append({"role": "user", "content": "more"})
    context.pin(result.seq)
    assert len(context.view.pins) == 2


def test_every_handle_on_the_page_leads_back_to_the_originals():
    """X-22, T-22."""
    context = opened()
    context.append({"role": "user", "content": "go"})
    worked(context, 60)
    [summary] = [slot for slot in context.view.slots if slot.standin][:1]
    whole = context.unfold(str(summary.span))
    assert whole.messages
    assert "turn 3\n" in whole.text
    assert (
        context.unfold(str(summary.span), level="paragraph").text == summary.message.blocks[0].text
    )
    assert len(context.unfold(str(summary.span), level="line").text) < 300
    result = next(m for m in whole.messages if isinstance(m.blocks[0], ToolResult))
    assert isinstance(result.blocks[0].content[0], Text)
    for bad, error in (("#99999", NotFound), ("art-nope", NotFound), ("what?", Invalid)):
        with pytest.raises(error):
            context.unfold(bad)


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
    assert len(context.log.events()) == 1
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
    assert str(context.unfold("#1")) == "bad \ud800 text"
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
    assert str(context.unfold("#3")) == "out \ud800 put"
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


@pytest.mark.parametrize("id", ["../../x", "", "a/b", "a\x00b", "x" * 65, ".hidden", "CON", "a b"])
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
    worked(one, 30)
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
