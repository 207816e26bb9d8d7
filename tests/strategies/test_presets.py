"""What every strategy promises on every page (X-24, M-77): laws, protected slots, size, order,
an end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.config import Config
from refold.core.fold import fold
from refold.core.laws import broken, calls_of, in_order, results_of
from refold.core.model import Event, Hide, Replace, Slot, Summarize
from refold.core.plan import Proposal
from refold.strategies.brief import Strategy
from refold.strategies.clear import clear
from refold.strategies.fit import fit
from refold.strategies.hide import hide, is_notice
from refold.strategies.importance import importance, relevance
from refold.strategies.ladder import Climb
from refold.strategies.protected_messages import protected
from refold.strategies.shorten_results import keep
from refold.strategies.window import window
from tests.core.logs import sealed
from tests.strategies.talks import (
    anything,
    brief_of,
    by_chance,
    climbed,
    log_of,
    said,
    same_slots,
    state_of,
    talks,
    used,
)

CASES: dict[str, tuple[Strategy, dict[str, Any]]] = {
    "hide": (hide, {}),
    **{
        f"hide {preset}": (hide, {"preset": preset})
        for preset in ("none", "lastTwo", "half", "quarter", "auto", "condense")
    },
    "hide fraction": (hide, {"fraction": 0.5}),
    "clear": (clear, {"keep": 1}),
    "clear inputs": (clear, {"keep": 0, "clear_inputs": True, "thinking": 1}),
    "clear_tool_uses": (clear, {"preset": "clear_tool_uses", "trigger_tokens": 100}),
    "prune": (clear, {"preset": "prune", "protect_tokens": 200, "total_tokens": 0}),
    "keep": (keep, {"min_tokens": 20, "head": 2, "tail": 2, "task": "fix login"}),
    "window": (window, {"keep": 3}),
    "window tokens": (window, {"max_tokens": 300}),
    "importance": (importance, {"keep_recent": 2}),
    "importance threshold": (
        importance,
        {"preset": "threshold", "keep_recent": 0, "task": "fix login"},
    ),
    "importance summarized": (
        importance,
        {"threshold": 0.6, "rest": "summarize", "keep_recent": 0},
    ),
    "relevance summarized": (
        relevance,
        {"max_tokens": 900, "rest": "summarize", "task": "fix login"},
    ),
    "relevance": (relevance, {"max_tokens": 300, "keep_recent": 1, "task": "fix login"}),
    "fit": (fit, {}),
}
FREE = [
    name for name in CASES if name != "fit"
]  # `fit` may cut a request that is larger than a quarter of the window
every_case = pytest.mark.parametrize("case", CASES)
targets = st.sampled_from([0, 50, 200, 1_000])
quick = settings(max_examples=25, deadline=None)


def done(case: str, log: list[Event], target: int, **more: Any) -> Climb:
    strategy, options = CASES[case]
    return climbed(log, strategy, target, **{"window": 8_000, **options, **more})


@every_case
@quick
@given(anything, targets)
def test_no_law_is_broken_that_was_not_broken_before(
    case: str, log: list[Event], target: int
) -> None:
    climb = done(case, log, target)
    assert set(broken(climb.state.view())) <= set(broken(state_of(log).view()))
    assert not any(step.note for step in climb.steps), "nothing had to be refused"


@every_case
@quick
@given(talks(), targets)
def test_pairs_stay_whole_and_in_order(case: str, log: list[Event], target: int) -> None:
    slots = done(case, log, target).state.view().slots
    calls = [id for slot in slots for id in calls_of(slot.message)]
    results = [id for slot in slots for id in results_of(slot.message)]
    assert sorted(calls) == sorted(results)
    assert in_order(slots)


@pytest.mark.parametrize("case", FREE)
@quick
@given(anything, targets)
def test_protected_slots_are_untouched(case: str, log: list[Event], target: int) -> None:
    before, after = state_of(log).view(), done(case, log, target).state.view()
    assert same_slots(before, after, protected(before))


@quick
@given(anything, targets)
def test_fit_never_touches_a_pin_nor_a_request_of_usual_size(log: list[Event], target: int) -> None:
    before, after = state_of(log).view(), done("fit", log, target, window=400_000).state.view()
    assert same_slots(before, after, {*before.pins, before.request})


@every_case
@quick
@given(talks(), targets)
def test_the_page_never_grows(case: str, log: list[Event], target: int) -> None:
    before, climb = state_of(log).view(), done(case, log, target)
    assert climb.state.view().tokens <= before.tokens
    assert bool(climb.proposals) == (climb.state.view().tokens < before.tokens)


@every_case
@quick
@given(talks(), targets)
def test_running_again_and_again_comes_to_rest(case: str, log: list[Event], target: int) -> None:
    """A preset may go on behind its earlier range (C-42), but every run shrinks the page or does
    nothing."""
    climb = done(case, log, target)
    for _ in range(12):
        following = done(case, log, target, state=climb.state)
        if not following.proposals:
            return
        assert following.state.view().tokens < climb.state.view().tokens
        climb = following
    raise AssertionError("there is always one more thing to do")


@pytest.mark.parametrize(
    "case", ["hide", "clear", "clear inputs", "clear_tool_uses", "prune", "keep", "window", "fit"]
)
@quick
@given(talks(), targets)
def test_a_second_run_changes_nothing(case: str, log: list[Event], target: int) -> None:
    first = done(case, log, target)
    assert not done(case, log, target, state=first.state).proposals


@every_case
@quick
@given(anything, targets)
def test_the_same_page_gives_the_same_edits(case: str, log: list[Event], target: int) -> None:
    strategy, options = CASES[case]
    brief = brief_of(log, target, **options)
    assert strategy(brief) == strategy(brief)


@every_case
@quick
@given(talks(), targets)
def test_the_edits_in_the_log_fold_to_the_page_that_was_tried(
    case: str, log: list[Event], target: int
) -> None:
    climb = done(case, log, target)
    bodies = [_body(event) for event in log]
    sizes = [event.tokens for event in log]
    appended = _appended(bodies, sizes, climb.proposals)
    assert [_shown(slot) for slot in fold(appended).slots] == [
        _shown(slot) for slot in climb.state.view().slots
    ]


def _body(event: Event) -> tuple[str, bytes]:
    return event.kind, event.body


def _appended(bodies: list[Any], sizes: list[int], proposals: tuple[Proposal, ...]) -> list[Event]:
    return sealed(
        [*bodies, *(proposal.edit for proposal in proposals)],
        [*sizes, *(proposal.tokens for proposal in proposals)],
    )


def _shown(slot: Slot) -> tuple[int, int, Any]:
    return slot.seq, slot.last, slot.message


@every_case
@quick
@given(talks())
def test_there_is_at_most_one_notice(case: str, log: list[Event]) -> None:
    first = done(case, log, 200)
    second = done(case, log, 50, state=first.state)
    for climb in (first, second):
        assert sum(map(is_notice, climb.state.view().slots)) <= 1


@pytest.mark.parametrize("case", ["hide", "importance"])
@quick
@given(talks(), targets)
def test_the_target_is_met_unless_only_what_stays_is_left(
    case: str, log: list[Event], target: int
) -> None:
    after = done(case, log, target).state.view()
    smallest = done(case, log, 0).state.view().tokens
    assert after.tokens <= max(target, smallest) + 40, "a notice may be what is too much"


@every_case
def test_a_page_of_nothing_stays_as_it_is(case: str) -> None:
    assert not done(case, [], 0).proposals
    assert not done(case, log_of([said("user", "hi")]), 0).proposals


def test_edits_say_why_and_belong_to_the_batch() -> None:
    parts = [said("user", "go")]
    for number in range(20):
        parts += used(f"u{number}", "line of output\n" * 200)
    for case in CASES:
        for proposal in done(case, log_of(parts), 1_000).proposals:
            assert isinstance(proposal.edit, Hide | Replace | Summarize)
            assert proposal.edit.reason and proposal.edit.batch == "b-test"


@pytest.mark.soak
@every_case
def test_ten_thousand_conversations_stay_lawful(case: str) -> None:
    for seed in range(10_000):
        log = by_chance(seed, 1 + seed % 4)
        climb = done(case, log, (0, 50, 200, 1_000)[seed % 4])
        view = climb.state.view()
        assert (
            in_order(view.slots) and not broken(view) and not any(step.note for step in climb.steps)
        ), seed


def test_a_block_can_be_shortened_twice() -> None:
    parts = [
        said("user", "go"),
        *used("a", "line of output\n" * 400),
        *(said("assistant", f"s{i}") for i in range(12)),
    ]
    log = log_of(parts)
    first = climbed(log, keep, config=Config(keep_recent=3))
    second = climbed(log, clear, keep=0, state=first.state)
    assert len(first.proposals) == len(second.proposals) == 1
    assert second.state.view().tokens < first.state.view().tokens
