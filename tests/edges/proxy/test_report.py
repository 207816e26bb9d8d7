"""What `refold proxy --report` adds up, and what it leaves out."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.compaction.limits import settings_of
from refold.config import Config
from refold.core.model import Usage
from refold.edges.cli.screen import Screen
from refold.edges.commands.proxy import Reported, spent
from refold.edges.proxy.savings import NOTE, Account, CallLine, Sum, added, sums
from refold.engine.context import Context
from refold.log.log import now_ms
from refold.replay.recorded import measured, recorded
from refold.replay.verdict import verdict_of, windows_for
from refold.settings.sources import KEEPER
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.chat.rooms import Terminal
from tests.edges.proxy.kit import Running, answer, loop, user, with_proxy


def test_calls_are_added_up_by_conversation_and_a_fork_counts_only_its_own() -> None:
    async def work(running: Running) -> list[int]:
        shared = loop(6, chars=40)
        await running.messages(shared)
        for name in ("left", "right"):
            await running.messages([*shared, answer(name), user("go on"), answer("x"), user("y")])
        return sorted(one.calls for one in sums(running.book.store))

    assert with_proxy(work) == [1, 2]


def test_a_note_of_somebody_else_is_no_call() -> None:
    async def work(running: Running) -> int:
        await running.messages(loop(2))
        [held] = running.book._held.values()
        held.context.note(NOTE, {"input": "many"})
        return sum(one.calls for one in sums(running.book.store))

    assert with_proxy(work) == 1


def test_money_is_unknown_where_no_price_is() -> None:
    total = added("all", [CallLine(input=5), CallLine(input=6, cost=0.5, saved_cost=0.25)])
    assert (total.input, total.cost, total.saved_cost) == (11, 0.5, 0.25)
    assert added("all", []).cost is None


def test_what_was_saved_is_the_difference_of_the_two_ways() -> None:
    account = Account()
    usage = Usage(model="claude-opus-5-5", input=1_000, output=10, cache_write=1_000)
    line = account.folded(usage, 0.25)
    assert (line.input, line.sent, line.saved, line.folded) == (4_000, 1_000, 3_000, True)
    assert line.saved_cost is not None and line.saved_cost > 0
    whole = Account().folded(usage, 1.0)
    assert (whole.saved, whole.saved_cost, whole.folded) == (0, 0.0, False)


# --- money ---

MODELS = ("claude-opus-5-5", "gpt-5.5", "gemini-3-pro")


@st.composite
def usages(draw: st.DrawFn, *, caches: bool) -> Usage:
    size = draw(st.integers(1, 500_000))
    read = draw(st.integers(0, size)) if caches else 0
    written = draw(st.integers(0, size - read)) if caches else 0
    model = draw(st.sampled_from(MODELS))
    return Usage(model=model, input=size, output=9, cache_read=read, cache_write=written)


def lines(account: Account, calls: list[tuple[Usage, float]], *, folds: bool) -> list[CallLine]:
    made = []
    for usage, share in calls:
        made.append(account.folded(usage, share) if folds else account.observed(usage))
    return made


CALLS = st.lists(st.tuples(usages(caches=True), st.floats(0.05, 1.0)), min_size=1, max_size=8)


@given(CALLS, st.booleans())
def test_what_saves_no_token_saves_no_money(calls: list[tuple[Usage, float]], folds: bool) -> None:
    for line in lines(Account(), calls, folds=folds):
        assert line.saved or line.saved_cost in (0.0, None)


@given(st.lists(st.tuples(usages(caches=False), st.floats(0.05, 1.0)), min_size=1), st.booleans())
def test_without_a_cache_fewer_tokens_never_cost_more(
    calls: list[tuple[Usage, float]], folds: bool
) -> None:
    for line in lines(Account(), calls, folds=folds):
        assert line.saved_cost is None or line.saved_cost >= 0
        assert (line.saved_cost or 0) > 0 or not line.saved or line.saved_cost is None


@given(CALLS, st.integers(0, 8))
def test_a_new_process_goes_on_where_the_last_one_was(
    calls: list[tuple[Usage, float]], cut: int
) -> None:
    account, other = Account(), Account()
    first = lines(account, calls[:cut], folds=True)
    if first:
        other.resume(first[-1], time.time())
        assert lines(account, calls[cut:], folds=True) == lines(other, calls[cut:], folds=True)


def test_a_call_that_was_cached_before_we_came_saves_its_part_only() -> None:
    usage = Usage(model=MODELS[0], input=10_000, output=10, cache_read=9_000, cache_write=1_000)
    line = Account().folded(usage, 0.5)
    assert line.saved == 10_000
    assert line.saved_cost is not None and line.cost is not None
    assert 0 < line.saved_cost < line.cost * 1.1


def test_a_conversation_is_called_by_what_the_user_said_and_not_by_a_reminder() -> None:
    async def work(running: Running) -> list[str]:
        text = "<system-reminder>\n# Environment\n</system-reminder>\nFix the login."
        await running.messages([user(text), answer("How?"), user("Well.")])
        return [one.title for one in sums(running.book.store)]

    assert with_proxy(work) == ["Fix the login."]


# --- what `refold run` says at its end ---

MODEL = "claude-sonnet-4-5"


def kept_calls(store: Store, calls: int) -> float:
    """A conversation behind the proxy whose every call reads a file; what it cost."""
    paid, size = 0.0, 5_000
    with Context(
        store, "kept", model=MODEL, config=Config(auto=False, offload_tokens=10**9)
    ) as context:
        context.update(tags=[KEEPER], system="You help with code. " * 900)
        context.append({"role": "user", "content": "Look at src/file_1.py, then at all others."})
        for at in range(calls):
            block = {
                "type": "tool_use",
                "id": f"c{at}",
                "name": "read",
                "input": {"path": f"src/f_{at}.py"},
            }
            context.append({"role": "assistant", "content": [block]})
            usage = Usage(model=MODEL, input=size, cache_read=max(0, size - 2_000), output=40)
            context.record(usage=usage)
            line = Account().observed(usage)
            paid += line.cost or 0.0
            context.note(NOTE, msgspec.to_builtins(line), by="proxy")
            text = f"def handler_{at}():  # the login form\n" + "    pass\n" * 800
            result = {"type": "tool_result", "tool_use_id": f"c{at}", "content": text}
            context.append({"role": "user", "content": [result]})
            size += 2_000
    return paid


def test_a_run_ends_with_what_it_cost_and_what_folding_would_have_saved() -> None:
    store = open_store("memory:")
    paid = kept_calls(store, 60)
    ended = spent(store, Config(), 0, 60_000)
    assert ended is not None and not ended.folded
    assert (ended.calls, ended.cost) == (60, pytest.approx(paid))
    one = recorded(store, "kept", Config())
    assert ended.compactions and ended.saved is not None and 0.1 * paid < ended.saved < paid
    figures = measured(one, windows_for([one.peak]), settings_of(MODEL))
    kept = {each.window: each.kept for each in verdict_of([figures], "").options}
    assert ended.kept == kept[60_000]
    chosen = spent(store, Config(), 0, None)
    assert chosen is not None and chosen.window is not None and chosen.saved is not None
    assert chosen.kept == kept[chosen.window] and chosen.saved > 0.1 * paid


def test_calls_of_an_earlier_run_are_not_on_its_bill() -> None:
    store = open_store("memory:")
    kept_calls(store, 3)
    assert spent(store, Config(), now_ms() + 1_000, None) is None
    short = spent(store, Config(), 0, None)
    assert short is not None and short.window is None and short.saved is None


@pytest.mark.parametrize(("older", "folded"), [(0, 0), (1, 0), (30, 2), (0, 2)])
def test_the_report_says_of_what_its_savings_are(older: int, folded: int) -> None:
    one = Sum(conversation="a", calls=2, folded=folded)
    out = Terminal()
    Reported(conversations=(one,), total=one, older=older).show(Screen(out=out, no_color=True))
    shown = " ".join(out.getvalue().split())
    assert ("--fold would have saved." in shown) == (folded == 0)
    assert (f"{older} older conversation" in shown) == (older > 0)
