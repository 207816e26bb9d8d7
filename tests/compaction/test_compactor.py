"""Compactions with a writer: the whole way, what happens while it is asked, and the hooks around
it."""

from __future__ import annotations

import threading
import time
from random import Random

import pytest

from refold.compaction.compactor import Veto
from refold.core.laws import broken
from refold.core.shortened import summary_text
from refold.errors import OverBudget
from refold.writer.asker import Request
from tests.scripted import (
    GOOD,
    Scripted,
    Slow,
    heard_by,
    in_thread,
    opened,
    page,
    summaries,
    talked,
)
from tests.turns import LONG, call, checked, names, opened_in_characters, talk
from tests.waiting import LONG_S, until

# --- the whole way ---


def test_a_summary_by_a_writer_stands_for_all_but_the_last_messages():
    """Y-40, Y-57, X-39: numbers are those of the pages, the summary is background and nobody's
    request."""
    writer = Scripted()
    context = opened(writer, system="be brief")
    talked(context)
    before = context.view.tokens
    receipt = context.compact("summarize")
    shown = page(context)
    assert len(writer.requests) == 1
    assert len(shown) == 12  # system, summary, ten messages
    assert "Goal: make the login work." in shown[1]
    assert "not a request" in shown[1]
    assert "Summary of 35 earlier messages" in shown[1]
    assert (receipt.messages_before, receipt.messages_after) == (45, 11)
    assert receipt.tokens_before == before
    assert receipt.tokens_after == context.view.tokens
    assert receipt.summary == shown[1] and receipt.messages_hidden == 35
    assert context.view.request == 47  # the 45th message behind the window and the system prompt


def test_what_a_writer_was_asked_is_not_on_the_page():
    """C-73: neither after its answer nor after it was interrupted."""
    writer = Scripted(KeyboardInterrupt(), GOOD)
    context = opened(writer)
    talked(context)
    before = page(context)
    with pytest.raises(KeyboardInterrupt):
        context.compact("summarize")
    assert page(context) == before
    context.compact("summarize")
    shown = "\n".join(page(context))
    assert shown.count(GOOD) == 1
    instruction = writer.prompt.splitlines()[0]
    assert instruction and instruction not in shown


def test_undo_gives_the_page_back_byte_for_byte():
    """P20"""
    context = opened(Scripted())
    talked(context)
    before = page(context)
    context.compact("summarize")
    assert page(context) != before
    context.undo()
    assert page(context) == before


def test_prose_stands_in_front_of_a_gist_and_the_gist_stays_what_it_was():
    """X-37"""
    plain, worded = opened(), opened(Scripted())
    for context in (plain, worded):
        talked(context, 60)
        context.compact()
    [gist], [both] = summaries(plain), summaries(worded)
    assert both.text == gist.text and both.quotes == gist.quotes
    assert summary_text(both).startswith("[Background on")
    assert both.gist == gist.gist
    assert both.facts == gist.facts


def test_a_gist_with_prose_is_folded_again_like_any_other():
    context = opened(Scripted("#3 user\n" + GOOD), window=12_000)
    for round in range(6):
        talked(context, 30, start=30 * round)
        page(context)
        context.compact()
    assert "(#3 user)" in page(context)[1] or "(#3 user)" in str(page(context))


def test_a_page_that_is_due_is_put_in_words_by_itself():
    writer = Scripted()
    context = opened(writer, window=8_000)
    heard = heard_by(context)
    for n in range(60):
        talked(context, 2, start=2 * n)
        page(context)
    assert writer.requests
    names = [notice.name for notice in heard]
    assert names.index("auto-compacting") < names.index("compaction-complete")
    complete = next(notice for notice in heard if notice.name == "compaction-complete")
    assert complete.details["accepted"] == complete.details["asked"] >= 1


def test_a_number_of_messages_can_be_the_trigger():
    """G-11: the 41st message."""
    writer = Scripted()
    context = opened(writer, config={"ladder": ("summarize",), "messages_cap": 40})
    talked(context, 40)
    assert len(page(context)) == 40
    talked(context, 1, start=40)
    assert len(page(context)) == 11
    assert len(writer.requests) == 1
    assert len(page(context)) == 11


# --- while the writer is asked ---


def test_messages_appended_meanwhile_are_kept():
    """X-35: no lock is held while the writer is asked."""
    writer = Slow()
    context = opened(writer)
    talked(context)
    thread, results = in_thread(context.compact, "summarize")
    assert writer.asked.wait(LONG_S)
    for n in range(3):
        context.append({"role": "user", "content": f"meanwhile {n}"})
    writer.go.set()
    thread.join()
    shown = page(context)
    assert [text for text in shown if text.startswith("meanwhile")] == [
        f"meanwhile {n}" for n in range(3)
    ]
    assert GOOD in shown[0]
    assert results[0].messages_after == 14


def test_a_result_whose_call_would_be_taken_away_makes_the_plan_be_drawn_up_again():
    """X-35: the result that came meanwhile is not orphaned."""
    writer = Slow()
    context = opened(writer, config={"keep_recent": 4})
    talked(context, 30)
    call = {"id": "open", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    talked(context, 6, start=30)
    thread, _ = in_thread(context.compact, "summarize")
    assert writer.asked.wait(LONG_S)
    context.append_result("open", "the late result")
    writer.go.set()
    thread.join()
    assert any("the late result" in text for text in page(context))


def test_a_page_that_another_process_edited_meanwhile_is_planned_again(tmp_path):
    writer = Slow()
    url = f"sqlite:{tmp_path}/refold.db"
    one = opened(writer, store=url)
    talked(one)
    two = opened(store=url)
    thread, results = in_thread(one.compact, "summarize")
    assert writer.asked.wait(LONG_S)
    two.compact("hide", target=3_000)
    writer.go.set()
    thread.join()
    assert len(writer.requests) == 2
    assert results[0].batch
    page(one)
    one.close()
    two.close()


class Watched:
    """A lock that tells who has found it taken and waits for it."""

    def __init__(self):
        self._lock, self.waiting = threading.Lock(), []

    def acquire(self, **given):
        if "timeout" in given:
            self.waiting.append(threading.get_ident())
        return self._lock.acquire(**given)

    def release(self):
        self._lock.release()


def watched(context) -> list[int]:
    """The threads that wait, from now on, for a compaction to end."""
    context._compactor._single._lock = lock = Watched()
    return lock.waiting


def test_three_triggers_at_once_are_one_call():
    """Y-55"""
    writer = Slow()
    context = opened(writer)
    talked(context)
    waiting = watched(context)
    threads = [in_thread(context.compact, "summarize") for _ in range(3)]
    assert writer.asked.wait(LONG_S)
    until(lambda: len(waiting) == 2)
    writer.go.set()
    for thread, _ in threads:
        thread.join()
    assert len(writer.requests) == 1
    receipts = [results[0] for _, results in threads]
    reasons = [receipt.reason for receipt in receipts if not receipt.batch]
    assert reasons == ["another compaction is running"] * 2


def test_requests_at_once_wait_for_one_compaction_and_all_get_its_page():
    """Y-55"""
    writer = Slow()
    context = opened(writer, window=8_000)
    talked(context, 100)
    waiting = watched(context)
    threads = [in_thread(page, context) for _ in range(3)]
    assert writer.asked.wait(LONG_S)
    until(lambda: len(waiting) == 2)
    writer.go.set()
    for thread, _ in threads:
        thread.join()
    assert len(writer.requests) == 1
    assert threads[0][1] == threads[1][1] == threads[2][1]


def test_a_writer_that_hangs_is_waited_for_only_so_long():
    """P19: the draft stands, and no second call starts while the first one hangs."""
    writer = Slow()
    context = opened(writer, config={"writer_wait_s": 2})
    heard = heard_by(context)
    talked(context)
    assert context.compact("summarize").batch
    talked(context)
    assert context.compact("summarize").batch
    [first, second] = [one.reason for one in heard if one.name == "compaction-failed"]
    assert first.startswith("no answer within ") and second == "an earlier call is still running"
    assert GOOD not in str(page(context))
    writer.go.set()


def test_no_patience_means_no_call():
    writer = Scripted()
    context = opened(writer, config={"writer_wait_s": 0})
    talked(context)
    assert context.compact("summarize").batch
    assert writer.requests == []


def test_threads_that_append_compact_and_undo_lose_nothing_and_get_valid_pages():
    """X-35, Y-55: with a writer that is slow and fails now and then."""
    chance, errors = Random(7), []

    def moody(request: Request) -> str:
        time.sleep(0.005)
        if chance.random() < 0.2:
            raise RuntimeError("down")
        return GOOD

    context = opened(moody, window=9_000)

    def work(k: int) -> None:
        own = Random(k)
        try:
            for n in range(50):
                context.append(
                    {"role": "user", "content": f"{k}:{n} " + "some words " * own.randint(1, 60)}
                )
                if own.random() < 0.5:
                    page(context)
                if own.random() < 0.1:
                    context.compact(own.choice(["summarize", "gist", "hide"]))
                if own.random() < 0.05:
                    context.undo()
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    texts = [
        str(context.unfold(event.seq)) for event in context.log.events() if event.kind == "message"
    ]
    assert {text.split()[0] for text in texts} == {f"{k}:{n}" for k in range(4) for n in range(50)}


# --- hooks ---


def test_a_hook_adds_instructions_and_what_it_stores_is_there_afterwards():
    """X-20, X-34: called once, before the writer, with no lock held."""
    writer = Scripted()
    context = opened(writer)
    talked(context)
    order: list[str] = []

    def remember(plan):
        order.append("hook")
        assert plan.proposals
        thread, _ = in_thread(context.append, {"role": "user", "content": "a lasting fact"})
        thread.join(LONG_S)
        assert not thread.is_alive()
        return "Mention the weather."

    writer.answers = [lambda request: order.append("writer") or GOOD]
    context.on("before-compaction", remember)
    context.compact("summarize")
    assert order == ["hook", "writer"]
    assert "Mention the weather." in writer.prompt
    assert "a lasting fact" in page(context)


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_hook_remembers_before_a_compaction_outlives_it(fails):
    """X-34: called once, before the summary; what it stored is there afterwards, also where the
    writer fails, and in the next conversation."""
    writer = Scripted()
    context = opened(writer, embedder=False)
    talked(context)
    order: list[str] = []

    def remember(plan):
        order.append("hook")
        assert plan.proposals and not summaries(context)
        context.memory.store("The login of staging is on port 6432", trust="model", source=2)

    def answer(request):
        order.append("writer")
        if fails:
            raise ValueError("no answer")
        return GOOD

    writer.answers = [answer] * 9
    context.on("before-compaction", remember)
    context.compact("summarize")
    assert order.count("hook") == 1 and order[0] == "hook" and "writer" in order
    [kept] = context.memory.retrieve("port of the staging login")
    assert kept.source == ("work", 2) and kept.trust == "model"
    context.append({"role": "user", "content": "On which port is the login of staging?"})
    assert any("port 6432" in text for text in page(context))


def test_a_hook_may_veto():
    """X-20"""
    writer = Scripted()
    context = opened(writer)
    heard = heard_by(context)
    talked(context)
    context.on("before-compaction", lambda plan: Veto("not during a release"))
    head = context.view.head
    assert context.compact("summarize").reason == "hook: not during a release"
    assert [n.reason for n in heard if n.name == "compaction-skipped"] == [
        "hook: not during a release"
    ]
    assert context.view.head == head
    assert writer.requests == []


def test_a_hook_that_raises_is_reported_and_blocks_nothing():
    """X-20"""
    context = opened(Scripted())
    heard = heard_by(context)
    talked(context)

    def broken(_):
        raise ValueError("oops")

    context.on("before-compaction", broken)
    context.on("compaction-complete", broken)
    assert context.compact("summarize").batch
    failed = [(n.name, n.reason) for n in heard if n.name.endswith("-failed")]
    assert failed == [("hook-failed", "ValueError: oops"), ("listener-failed", "ValueError: oops")]


def test_hooks_are_told_what_was_done_and_not_asked_for_nothing():
    context = opened(Scripted())
    told: list = []
    context.on("before-compaction", told.append)
    context.on("compaction-complete", lambda notice: told.append(notice.receipt))
    talked(context, 5)
    context.compact("summarize")
    assert told == []
    talked(context)
    receipt = context.compact("summarize")
    assert told[1] == receipt


def test_a_hook_may_ask_for_a_page_without_waiting_for_itself():
    context = opened(Scripted(), window=8_000)
    talked(context, 100)
    context.on("before-compaction", lambda plan: str(context.compact().reason))
    started = time.monotonic()
    page(context)
    assert time.monotonic() - started < 30


def test_a_fork_has_the_same_writer():
    writer = Scripted()
    context = opened(writer)
    talked(context)
    twin = context.fork("twin")
    twin.compact("summarize")
    assert len(writer.requests) == 1


def test_the_usual_is_not_done_twice_with_nothing_new():
    """Y-42: the second call at once asks nobody and loses nothing; after a new message it is
    done again."""
    writer = Scripted(GOOD)
    context = opened_in_characters(window=200_000, writer=writer)
    talk(context, 40)
    assert context.compact().batch
    asked, page = len(writer.requests), context.view
    second = context.compact()
    assert not second.batch
    assert second.reason.startswith("compacted recently") and "name a target" in second.reason
    assert (len(writer.requests), context.view) == (asked, page)
    talk(context, 20)
    assert context.compact().batch


def test_a_fixed_part_over_the_budget_is_said_once_and_nothing_is_compacted():
    """X-12"""
    context = opened_in_characters(window=32_768, system="S" * 28_996)
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
    context = opened_in_characters(config={"ladder": ladder})
    heard = heard_by(context)
    for n in range(80):
        context.append({"role": "user", "content": f"{n} " + "word " * 100})
        context.request("openai_chat")
        context.append({"role": "assistant", "content": "ok"})
    assert names(heard).count("compaction-complete") <= 12
    assert broken(context.view) == []


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
    assert heard == ["paused after an undo"]
    assert context.stats().summaries == 0


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
    assert "are cut here: #2 …]" in request["messages"][0]["content"]
    assert context.stats().current <= context.budget.input_max
    checked(context)
    assert len(heard) == 1
    assert str(context.unfold("#2")).endswith("and answer")


def test_automatic_compaction_can_be_switched_off():
    """Y-22, Y-123, C-34: above the trigger, and nothing is added."""
    config = {"auto": False, "reserve_tokens": 100}
    context, heard = opened(window=8_000, config=config), []
    context.on("*", lambda notice: heard.append(notice.name))
    context.append({"role": "user", "content": "go"})
    for n in range(10):
        context.append(call(n))
        context.append_result(f"c{n}", LONG * 60)
    head = context.view.head
    context.request()
    assert context.stats().current >= context.budget.compact_at
    assert context.view.head == head
    assert "context-warning" in heard
    assert "compaction-complete" not in heard
