"""The verdict: the recorded bill scales every row, and what was really sent costs what was billed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from refold.core.model import Usage
from refold.replay.needs import tokens_of
from refold.replay.run import ALL, OURS, Replayed, replay, replay_windows
from refold.replay.scale import Scale, Sent, billed, scale_of, with_front
from refold.replay.session import SUMMARY, USAGE
from refold.replay.verdict import (
    KEPT_MIN,
    SAVED_MIN,
    STEPS,
    Bill,
    Measured,
    verdict_of,
    windows_for,
)
from refold.tokens.models import amount, cost, model_info
from tests.replay.test_replay import turns

MODEL = "claude-sonnet-4-5"


def billed_turns(count: int, front: int, ratio: float, expired: int = 0) -> list[dict[str, Any]]:
    """A session whose provider counts `ratio` tokens per token of ours, and `front` tokens that the
    file does not have; at every `expired`-th call the cache is gone."""
    size = before = calls = 0
    for message in (said := turns(count)):
        if message["role"] == "assistant":
            calls += 1
            read = 0 if expired and calls % expired == 0 else before
            total = front + round(ratio * size)
            message[USAGE] = Usage(
                model=MODEL, input=total, output=40, cache_read=read, cache_write=total - read
            )
            before = total
        size += tokens_of(message)
    return said


def price(messages: list[dict[str, Any]]) -> float:
    costs = [cost(model_info(MODEL), one[USAGE]) for one in messages if USAGE in one]
    return sum(one for one in costs if one is not None)


def usage_of(messages: list[dict[str, Any]]) -> list[Usage]:
    return [one[USAGE] for one in messages if USAGE in one]


FRONTS, RATIOS = st.integers(0, 40_000), st.floats(0.8, 1.8)


@settings(max_examples=15, deadline=None)
@given(st.integers(5, 40), FRONTS, RATIOS, st.integers(0, 6))
def test_what_was_sent_costs_what_was_billed(
    count: int, front: int, ratio: float, expired: int
) -> None:
    said = billed_turns(count, front, ratio, expired)
    [played] = replay_windows(said, (1_000_000,), MODEL)
    for name in (ALL, OURS):  # nothing is folded in this window
        outcome = played.outcome(name)
        assert outcome.dollars == pytest.approx(price(said), abs=1e-9)
        assert [turn.tokens for turn in outcome.turns] == [one.input for one in usage_of(said)]
        assert outcome.cached == sum(one.cache_read for one in usage_of(said))
    assert played.receipts == [] and played.messages == len(said)


@given(st.integers(5, 40), FRONTS, RATIOS)
def test_front_and_ratio_are_read_from_the_reports(count: int, front: int, ratio: float) -> None:
    said = billed_turns(count, front, ratio)
    scale = scale_of(said)
    assert scale.calls == count - 1 and scale.peak == max(one.input for one in usage_of(said))
    assert scale.ratio == pytest.approx(ratio, rel=0.02)
    assert scale.real(scale.front) == pytest.approx(front, abs=60)
    whole = sum(map(tokens_of, with_front(said, scale)))
    assert whole == pytest.approx(scale.front + sum(map(tokens_of, said)), abs=30)


def test_a_session_without_reports_has_our_own_count() -> None:
    assert scale_of(turns(9)) == Scale() and with_front(turns(9), Scale()) == turns(9)


def test_the_agents_own_summary_is_where_its_prompts_are_counted_from() -> None:
    """The reports after a compaction are small, and belong to small prompts."""
    said, summary = billed_turns(30, 500, 1.2), {"role": "user", "content": "short", SUMMARY: True}
    size, halves = 0, [said[:30], said[30:]]
    for message in halves[1]:
        if USAGE in message:
            total = 500 + round(1.2 * (size + tokens_of(summary)))
            message[USAGE] = Usage(model=MODEL, input=total, output=40)
        size += tokens_of(message)
    scale = scale_of([*halves[0], summary, *halves[1]])
    assert scale.ratio == pytest.approx(1.2, rel=0.02)


SIZES = st.tuples(st.integers(1, 50_000), st.integers(0, 50_000))
REPORTS = st.tuples(st.integers(0, 90_000), st.floats(0, 1), st.floats(0, 1))


@given(st.lists(st.tuples(SIZES, SIZES, REPORTS), max_size=12), RATIOS)
def test_any_prompt_is_billed_as_a_provider_can(
    calls: list[tuple[Any, Any, Any]], ratio: float
) -> None:
    mine = [Sent(size, min(size, same)) for (size, same), _, _ in calls]
    theirs = [Sent(size, min(size, same)) for _, (size, same), _ in calls]
    reports = [
        Usage(input=size, cache_read=int(size * read), cache_write=int(size * (1 - read) * written))
        for _, _, (size, read, written) in calls
    ]
    for usage in billed(mine, theirs, reports, Scale(ratio=ratio)):
        assert usage.input > 0 and usage.cache_read >= 0 and usage.cache_write >= 0
        assert usage.cache_read + usage.cache_write <= usage.input
    assert all(
        usage == report or not report.input
        for usage, report in zip(billed(theirs, theirs, reports, Scale(ratio=ratio)), reports)
    )


# --- windows and recommendation ---


def measured(said: list[dict[str, Any]], windows: tuple[int, ...], own: int) -> Measured:
    replays = {one.window: one for one in replay_windows(said, (*windows, own), MODEL)}
    reports = usage_of(said)
    bill = Bill(
        calls=len(reports),
        input=sum(one.input for one in reports),
        cached=sum(one.cache_read for one in reports),
        output=sum(one.output for one in reports),
        cost=price(said) + 1.0,  # a call that is not in the session
    )
    peak = max(one.input for one in reports)
    return Measured(bill=bill, peak=peak, own=replays[own], tried=[replays[one] for one in windows])


@pytest.fixture(scope="module")
def long() -> Measured:
    return measured(billed_turns(200, 3_000, 1.3), (2_000, 12_000, 20_000, 40_000), 200_000)


def test_several_windows_are_the_same_in_one_pass_and_one_by_one() -> None:
    said = billed_turns(60, 1_000, 1.1)
    together = replay_windows(said, (4_000, 8_000), MODEL)
    for one in together:
        [alone] = replay_windows(said, (one.window,), MODEL)
        assert alone.outcome(OURS).turns == one.outcome(OURS).turns
        assert alone.receipts == one.receipts
        ours = replay(said, one.window, MODEL).outcome(OURS)
        assert (ours.dollars, ours.kept) == (one.outcome(OURS).dollars, one.outcome(OURS).kept)


def test_a_verdict_recommends_the_cheapest_window_that_keeps_enough(long: Measured) -> None:
    verdict = verdict_of([long], "claude")
    assert len(verdict.sentences) <= 4 and verdict.bill == long.bill
    good = [
        one
        for one in verdict.options
        if one.saved >= SAVED_MIN and (one.kept is None or one.kept >= KEPT_MIN) and one.compactions
    ]
    assert verdict.recommended == max(good, key=lambda one: one.saved).window
    assert f"refold run --fold --window {verdict.recommended} claude" in verdict.sentences[-1]
    assert verdict.own.compactions == 0 and verdict.own.cost == pytest.approx(long.bill.cost)
    assert "nothing would have been folded" in verdict.sentences[1]
    assert verdict.sentences[0].startswith(f"You paid {amount(long.bill.cost)} for 199 calls: ")


@pytest.mark.parametrize("moved", [0, 40, 4_000])
def test_large_results_that_leave_the_prompt_count_without_a_compaction(moved: int) -> None:
    one = measured(billed_turns(12, 300, 1.0), (), 200_000)
    ours = one.own.outcome(OURS)
    dollars = (ours.dollars or 0.0) - moved * one.bill.cost / 10_000
    outcomes = [
        replace(each, dollars=dollars) if each.policy == OURS else each for each in one.own.outcomes
    ]
    one = replace(one, own=replace(one.own, outcomes=outcomes))
    verdict = verdict_of([one], "codex")
    assert verdict.own.compactions == 0 and verdict.own.changes == (moved >= 50)
    assert verdict.own.saved == pytest.approx(moved / 10_000, abs=1e-6)
    saved = f"moving large results out would have saved {amount(moved * one.bill.cost / 10_000)}"
    assert (saved in verdict.sentences[1]) == verdict.own.changes
    assert ("nothing would have been folded" in verdict.sentences[1]) != verdict.own.changes


def test_a_window_that_the_front_fills_changes_nothing(long: Measured) -> None:
    small = verdict_of([long], "").options[0]
    assert small.too_small == 1 and small.cost == long.bill.cost and not small.compactions


def test_sessions_together_are_the_sum_of_each(long: Measured) -> None:
    other = measured(billed_turns(120, 500, 1.0), (2_000, 12_000, 20_000, 40_000), 100_000)
    both = verdict_of([long, other], "")
    each = [verdict_of([one], "") for one in (long, other)]
    assert both.own.window is None and both.sessions == 2
    for at, option in enumerate(both.options):
        parts = [one.options[at] for one in each]
        assert option.cost == pytest.approx(sum(part.cost or 0.0 for part in parts))
        assert option.compactions == sum(part.compactions for part in parts)
        assert option.tokens == sum(part.tokens for part in parts)


def test_short_sessions_are_not_worth_it() -> None:
    short = measured(billed_turns(12, 300, 1.0), (), 200_000)
    verdict = verdict_of([short], "codex")
    assert verdict.recommended is None and verdict.options == ()
    assert "Not worth it: your sessions are short" in verdict.sentences[-1]


def test_a_session_without_usage_says_once_that_it_is_estimated() -> None:
    played = replay_windows(turns(60), (4_000, 200_000), MODEL)
    bill = Bill(calls=59, input=1, cached=0, output=0, cost=played[0].sent.dollars, estimated=True)
    one = Measured(bill=bill, peak=9_000, own=played[1], tried=played[:1])
    assert sum("estimated" in each for each in verdict_of([one], "").sentences) == 1


@given(st.lists(st.integers(1, 2_000_000), max_size=5))
def test_only_windows_below_the_largest_prompt_are_tried(peaks: list[int]) -> None:
    assert windows_for(peaks) == tuple(one for one in STEPS if one <= 0.95 * max([0, *peaks]))


def test_sizes_are_the_providers(long: Measured) -> None:
    folded: Replayed = long.tried[2]
    assert max(turn.tokens for turn in folded.outcome(OURS).turns) <= 20_000 * 1.02
    assert all(one.tokens_before <= 20_000 * 1.02 for one in folded.receipts)
