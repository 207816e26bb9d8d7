"""What `refold proxy report` adds up, and what it leaves out."""

from __future__ import annotations

from refold.core.model import Usage
from refold.edges.proxy.report import added, sums
from refold.edges.proxy.savings import NOTE, Account, CallLine
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
