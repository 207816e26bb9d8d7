"""Rows that concern the whole engine: when it compacts by itself, what it tells, what it keeps
of what was set."""

from __future__ import annotations

import json

import pytest

import refold
from refold.conversations.verifier import verify
from refold.core.laws import broken
from refold.errors import Invalid, NotFound
from refold.stores import open_store
from refold.strategies import registry
from tests.scripted import GOOD, Scripted, heard_by

REPLY = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}}],
}


def opened(**given) -> refold.Context:
    return refold.open("rows", store="memory:", **{"window": 20_000, "counter": len, **given})


def talked(context: refold.Context, turns: int, size: int = 200) -> None:
    for n in range(turns):
        context.append({"role": "user", "content": f"question {n} " + "q" * size})
        context.append({"role": "assistant", "content": f"answer {n} " + "a" * size})


def names(notices) -> list[str]:
    return [notice.name for notice in notices]


# --- the ladder ---


def test_a_size_that_was_asked_for_is_met_by_the_last_rung_too():
    """C-32, G-14: the last rung is spared behind a summary only, and not where the caller named
    a size."""
    context = opened(window=200_000)
    talked(context, 40)
    assert context.plan("dedup", "hide", target=6_000).reached
    assert context.compact(target=3_000).reached


@pytest.fixture
def failing():
    def bad(brief):
        raise RuntimeError("no idea")

    registry.register("bad", bad)
    yield "bad"
    registry._registered.pop("bad")


def test_a_strategy_that_raises_is_left_out_and_said(failing):
    """C-36"""
    context = opened(config={"ladder": (failing, "gist", "hide")})
    heard = heard_by(context)
    talked(context, 60)
    context.request("openai_chat")
    failed = [notice for notice in heard if notice.name == "compaction-failed"]
    assert [(notice.strategy, notice.reason) for notice in failed] == [
        (failing, "failed: RuntimeError: no idea")
    ]
    assert "compaction-complete" in names(heard)


def test_every_rung_says_what_it_did_and_how_long_it_took():
    """C-37: the sums are the difference of the pages."""
    context = opened(window=200_000)
    talked(context, 40)
    receipt = context.compact("dedup", "gist", target=8_000)
    assert sum(s.tokens_before - s.tokens_after for s in receipt.steps) == receipt.saved_tokens
    assert all(step.cpu_ms >= 0 for step in receipt.steps)


def test_what_is_given_with_the_call_counts_more_than_the_configuration():
    context = opened(window=200_000, config={"strategy": {"hide": {"preset": "quarter"}}})
    talked(context, 40)
    configured = context.plan("hide", target=0)
    asked = context.plan("hide", target=0, preset="lastTwo")
    assert asked.tokens_after < configured.tokens_after or asked.items != configured.items


def test_a_limit_that_could_not_be_met_is_not_called_met():
    """M-76: the newest stay whatever the limit, and the plan and the receipt say so."""
    context = opened(window=200_000)
    talked(context, 20, size=80)
    plan = context.plan("relevance", max_tokens=200, keep_recent=5, task="x")
    receipt = context.compact("relevance", max_tokens=200, keep_recent=5, task="x")
    assert plan.target == receipt.target == 200
    assert not plan.reached and not receipt.reached


@pytest.mark.parametrize("strategy", ["window", "summarize"])
def test_a_receipt_says_how_many_messages_left_the_page(strategy):
    """M-81, Y-40: of 45 messages k are hidden and 45 - k stay."""
    context = opened(window=200_000)
    talked(context, 22)
    context.append({"role": "user", "content": "and now?"})
    receipt = context.compact(strategy, keep=10, target=0)
    stay = sum(not slot.standin for slot in context.view.slots)
    assert receipt.messages_hidden == 45 - stay > 0
    context.undo()
    assert len(context.view.slots) == 45


# --- by itself ---


def test_the_usual_is_not_done_twice_with_nothing_new():
    """Y-42: the second call at once asks nobody and loses nothing; after a new message it is
    done again."""
    writer = Scripted(GOOD)
    context = opened(window=200_000, writer=writer)
    talked(context, 40)
    assert context.compact().batch
    asked, page = len(writer.requests), context.view
    second = context.compact()
    assert (second.batch, second.reason) == ("", "compacted-recently")
    assert (len(writer.requests), context.view) == (asked, page)
    talked(context, 20)
    assert context.compact().batch


def test_a_strategy_acts_by_itself_at_a_trigger_of_its_own():
    """Y-31: far below the budget's own trigger, only that strategy, and not again at every turn."""
    clear = {"trigger_uses": 10, "keep": 3}
    context = opened(
        window=200_000, config={"ladder": ("clear", "hide"), "strategy": {"clear": clear}}
    )
    heard = heard_by(context)
    context.append({"role": "user", "content": "go"})
    for n in range(14):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result(f"c{n}", f"output {n} " + "x" * 2_000)
        context.request("openai_chat")
    begun = [notice for notice in heard if notice.name == "auto-compacting"]
    assert [notice.strategy for notice in begun] == ["clear"]  # Y-23
    assert names(heard).count("compaction-complete") == 1


def test_a_fixed_part_over_the_budget_is_said_once_and_nothing_is_compacted():
    """X-12"""
    context = opened(window=32_768, system="S" * 28_996)
    heard = heard_by(context)
    for n in range(12):
        context.append({"role": "user", "content": f"short {n}"})
        context.request("openai_chat")
        context.append({"role": "assistant", "content": "yes"})
    assert names(heard).count("budget-unreachable") == 1
    assert "compaction-complete" not in names(heard)


@pytest.mark.parametrize("ladder", [("clear",), ("dedup",)])
def test_a_ladder_that_frees_nothing_is_not_run_at_every_turn(ladder):
    """X-16, X-17: what is cut in its place goes down to the target."""
    context = opened(config={"ladder": ladder})
    heard = heard_by(context)
    for n in range(80):
        context.append({"role": "user", "content": f"{n} " + "word " * 100})
        context.request("openai_chat")
        context.append({"role": "assistant", "content": "ok"})
    assert names(heard).count("compaction-complete") <= 12
    assert broken(context.view) == []


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": 0, "completion_tokens": 0}, {}, {"prompt_tokens": -5}]
)
def test_a_provider_that_reports_nothing_does_not_empty_the_page(usage):
    """Y-08, Y-09: current falls back to the full estimate."""
    context = opened(counter=None)
    for n in range(20):
        context.append({"role": "user", "content": f"{n} " + "word " * 1_000})
        context.request("openai_chat")
        assert context.view.tokens <= context.budget.window
        context.record({**REPLY, "id": f"r{n}", "model": "local", "usage": usage})
    assert context.stats().current >= context.view.tokens * 0.5


def test_what_the_caller_adds_to_the_page_is_not_taken_for_growth():
    """Y-09: 12,000 reported for a page of a few tokens, then 7,000 more: about 19,000."""
    context = opened(window=200_000)
    context.append({"role": "user", "content": "hello"})
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


def test_a_refusal_without_numbers_keeps_about_a_quarter():
    """C-81"""
    context = opened(window=40_000)
    talked(context, 40)
    for n in range(40):
        context.append({"role": "user", "content": f"handler_{n} in src/mod_{n}.py gives code_{n}"})
    before = context.stats().current
    assert context.recover(Exception("context_length_exceeded"))
    assert 0.15 * before < context.stats().current <= 0.26 * before


# --- what was set ---


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


def test_a_restore_brings_the_model_and_its_limits_back():
    """G-30, C-67"""
    context = refold.open("c", store="memory:", model="gpt-4")
    context.append({"role": "user", "content": "hi"})
    before, window = context.request(), context.budget.window
    point = context.checkpoint()
    context.update(model="gemini-1.5-pro")
    context.append({"role": "user", "content": "more"})
    assert context.budget.window != window
    context.restore(point)
    assert (context.budget.window, context.stats().model) == (window, "gpt-4")
    assert context.request() == before


def test_clear_takes_all_but_system_and_pins_and_undo_brings_it_back():
    """M-23"""
    context = opened(system="Be brief.", window=200_000)
    context.append({"role": "system", "content": "and kind"})
    talked(context, 5)
    pinned = context.view.slots[3].seq
    context.pin(pinned)
    before = context.view.slots
    context.clear()
    assert [slot.seq for slot in context.view.slots] == [before[0].seq, pinned]
    assert (
        sum(event.kind == "edit" for event in context.log.events()) == 2
    )  # before the pin and behind it
    assert broken(context.view) == []
    context.append({"role": "user", "content": "a new beginning"})
    assert [m["content"] for m in context.request("openai_chat")["messages"]][
        -1
    ] == "a new beginning"
    context.undo()
    assert context.view.slots[:-1] == before


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


def test_a_pin_on_what_a_restore_switched_off_does_not_hold():
    """Found by a story: a restore is undone, a message behind its point is pinned, and the
    restore is redone."""
    context = opened()
    talked(context, 2)
    point = context.checkpoint()
    context.append({"role": "user", "content": "later"})
    seq = context.view.slots[-1].seq
    context.restore(point)
    context.undo()
    context.pin(seq)
    context.undo()
    assert broken(context.view) == []


def test_the_decision_says_what_the_next_request_would_do():
    """Y-22"""
    context = opened()
    talked(context, 5)
    assert (context.stats().due, context.stats().due_reason) == ("none", "")
    talked(context, 40)
    full = context.stats()
    assert (full.due, full.level) == ("compact", "critical")
    still = opened(config={"auto": False})
    talked(still, 45)
    assert (still.stats().due, still.stats().level) == ("none", "critical")
    assert still.stats().due_reason == "automatic compaction is off"


def test_whether_a_message_fits_is_told_to_the_token():
    """G-01: 100 in all and 60 used: a message of 40 fits, one of 41 does not."""
    context = opened(window=2_000, config={"reserve_tokens": 0})
    context.append({"role": "user", "content": "a" * 1_000})
    left = context.budget.input_max - context.stats().current
    frame = context.count({"role": "user", "content": "b"}) - 1
    assert context.fits({"role": "user", "content": "b" * (left - frame)})
    assert not context.fits({"role": "user", "content": "b" * (left - frame + 1)})


def test_something_that_lies_between_events_is_found(tmp_path):
    """M-15: each event can be read by itself, and yet the log is not as it was written."""
    store = f"files:{tmp_path}/s"
    with refold.open("c", store=store) as context:
        talked(context, 5)
    (log,) = (path for path in (tmp_path / "s").rglob("*.jsonl") if path.stat().st_size)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], b"x" * 100_000 + b"\n", *lines[4:]]))
    assert verify(open_store(store)).problems


def test_a_ready_rule_prunes_before_the_trigger():
    """M-82: above 150,000 down to 100,000, the last 20 stay, once."""
    rule = {"trigger_tokens": 150_000, "max_tokens": 100_000, "keep_recent": 20}
    context = opened(
        window=200_000, config={"ladder": ("importance",), "strategy": {"importance": rule}}
    )
    heard = heard_by(context)
    talked(context, 125, size=600)
    context.append({"role": "user", "content": "go"})
    assert 150_000 < context.stats().current < context.budget.compact_at
    context.request("openai_chat")
    context.append({"role": "assistant", "content": "ok"})
    context.request("openai_chat")
    assert context.stats().current <= 100_000
    assert names(heard).count("compaction-complete") == 1


def test_a_finished_to_do_is_not_shown_as_open_by_an_older_line():
    """Y-51: the lines of an earlier list are told without their states; the ledger has the
    newest."""
    context = opened(window=200_000)
    context.append({"role": "user", "content": "go"})

    def listed(n: int, state: str) -> None:
        todos = [{"content": "Ship the beta_build of src/app.py", "status": state, "id": "1"}]
        function = {"name": "TodoWrite", "arguments": json.dumps({"todos": todos})}
        call = {"id": f"t{n}", "type": "function", "function": function}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result(f"t{n}", "ok")

    listed(1, "in_progress")
    talked(context, 10)
    listed(2, "completed")
    talked(context, 20)
    context.compact(target=4_000)
    page = str(context.request("openai_chat"))
    assert "beta_build" in page and "in_progress" not in page
