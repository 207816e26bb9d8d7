"""Rows G-10 and M-79: the last messages stay, by their number, their size or their age."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.config import Config
from refold.core.laws import broken
from refold.core.model import Body, Pin, Span, Summarize
from refold.errors import Invalid
from refold.strategies.hide import is_notice
from refold.strategies.ladder import climb
from refold.strategies.window import HOUR_MS, window
from tests.strategies.talks import (
    alternating,
    brief_of,
    climbed,
    log_of,
    pages,
    resized,
    said,
    state_of,
    used,
)
from tests.toolruns import clock_ms


def left(log: list, **options: object) -> list[int]:
    slots = climbed(log, window, **options).state.view().slots
    return [slot.seq for slot in slots if not is_notice(slot)]


def aged(parts: Sequence[Body], hours: Sequence[float], **options: Any) -> list[int]:
    """What the window leaves of messages that came so many hours ago."""
    log = resized(
        log_of(parts), {at: 120 for at, part in enumerate(parts, 1) if isinstance(part, Summarize)}
    )
    brief = replace(
        brief_of(log, **options),
        ages=lambda seqs: {seq: int(hours[seq - 1] * HOUR_MS) for seq in seqs},
    )
    slots = climb(state_of(log), brief, [("window", window)]).state.view().slots
    return [slot.seq for slot in slots if not is_notice(slot)]


def test_the_window_reaches_back_to_the_call_of_its_first_result() -> None:
    parts = [said("system", "be brief"), *alternating(6), *used("a", "out" * 50), *alternating(3)]
    log = log_of(parts)
    assert left(log, keep=4) == [1, 2, 8, 9, 10, 11, 12]  # G-10: the fourth last is the result #9
    assert left(log, keep=3) == [1, 2, 10, 11, 12]
    assert not broken(climbed(log, window, keep=4).state.view())


@pytest.mark.parametrize(
    ("keep", "expected"), [(1, [1, 11]), (5, [1, 7, 8, 9, 10, 11]), (11, list(range(1, 12)))]
)
def test_as_many_messages_stay_as_are_asked_for(keep: int, expected: list[int]) -> None:
    assert left(log_of(alternating(11)), keep=keep) == expected


def test_the_default_is_the_configured_number() -> None:
    assert len(left(log_of(alternating(41)))) == 1 + 10
    assert len(left(log_of(alternating(41)), config=Config(keep_recent=4))) == 1 + 4


def test_by_tokens_the_newest_stay() -> None:
    log = log_of(alternating(21))  # messages of 104 tokens
    assert left(log, max_tokens=350) == [1, 19, 20, 21]
    assert left(log, max_tokens=1) == [1, 21], "the newest unit always stays"


def test_pins_stay_and_the_notice_counts_the_hidden() -> None:
    log = log_of([*alternating(21), Pin(seq=5)])
    done = climbed(log, window, keep=3)
    assert left(log, keep=3) == [1, 5, 19, 20, 21]
    assert "[16 earlier messages are hidden: #2-4, #6-18.]" in pages(done)


def test_a_window_that_slides_on_has_one_notice() -> None:
    first = climbed(log_of(alternating(41)), window, keep=20)
    second = climbed(log_of(alternating(41)), window, keep=4, state=first.state)
    assert [text for text in pages(second) if "hidden" in text] == [
        "[36 earlier messages are hidden: #2-37.]"
    ]


# --- by age ---

TASK_OLD = [72.0, 48.0, 25.0, 2.0, 0.5]  # the task itself, and the four messages of the row


def test_what_is_older_than_a_day_goes() -> None:
    """M-79: 48 h, 25 h, 2 h, 0.5 h; at most 24, keep 0: the last two."""
    assert aged(alternating(5), TASK_OLD, max_age_hours=24, keep=0) == [1, 4, 5]
    assert aged(alternating(5), TASK_OLD, by="age", keep=0) == [1, 4, 5], "the default is a day"
    assert aged(alternating(5), TASK_OLD, max_age_hours=25, keep=0) == [1, 3, 4, 5], (
        "as old as it may be stays"
    )
    assert aged(alternating(5), TASK_OLD, max_age_hours=0.5, keep=0) == [1, 5]


def test_the_recent_stay_however_old_they_are() -> None:
    """M-79: keep 2 of three old."""
    assert aged(alternating(4), [99, 50, 49, 48], max_age_hours=24, keep=2) == [1, 3, 4]
    assert aged(alternating(4), [99, 50, 49, 48], max_age_hours=24, keep=0) == [1, 3], (
        "#3 is the latest request"
    )
    assert aged(alternating(4), [99, 50, 49, 48], max_age_hours=24) == [1, 2, 3, 4], (
        "by default ten stay"
    )


def test_of_age_and_size_the_narrower_bound_holds() -> None:
    assert aged(alternating(5), TASK_OLD, max_age_hours=24, max_tokens=110, keep=0) == [1, 5]
    assert aged(alternating(5), TASK_OLD, max_age_hours=24, max_tokens=10_000, keep=0) == [1, 4, 5]


def test_a_call_is_as_young_as_its_result_and_a_summary_as_its_newest_message() -> None:
    parts = [*alternating(3), *used("a", "out " * 100), said("user", "next " * 100)]
    assert aged(parts, [99, 98, 97, 25, 23, 1], max_age_hours=24, keep=0) == [1, 4, 5, 6]
    summary = Summarize(batch="b1", span=Span(2, 4), text="what was done " * 30)
    assert aged(
        [*alternating(7), summary], [99, 98, 97, 23, 2, 1, 1, 0], max_age_hours=24, keep=0
    ) == [1, 2, 5, 6, 7]
    assert aged(
        [*alternating(7), summary], [99, 98, 97, 96, 2, 1, 1, 0], max_age_hours=24, keep=0
    ) == [1, 5, 6, 7]


def test_ages_come_from_the_log_and_are_read_only_if_they_count() -> None:
    """M-79, through a conversation that is held open."""
    context = refold.open("aged", store="memory:")
    now_ms = clock_ms()
    for number, hours in enumerate(TASK_OLD):
        message = {"role": "assistant" if number % 2 else "user", "content": f"talk {number} " * 90}
        context.append(message, at=now_ms - int(hours * HOUR_MS))
    context.compact("window", max_age_hours=24, keep=0)
    assert [slot.seq for slot in context.view.slots if not slot.standin] == [1, 4, 5]
    assert context.log.why(3)[-1].reason == "older than 24 hours"

    def unread(seqs: Sequence[int]) -> dict[int, int]:
        raise AssertionError(f"nobody asked how old {seqs} are")

    window(replace(brief_of(log_of(alternating(20)), keep=3), ages=unread))


@pytest.mark.parametrize(
    "wrong", [{"max_age_hours": -1}, {"max_age_hours": "a day"}, {"by": "ages"}, {"by": "tokens"}]
)
def test_a_bound_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        window(brief_of(log_of(alternating(5)), **wrong))


@given(st.integers(0, 12), st.sampled_from(["keep", "keep_recent"]))
def test_what_a_call_keeps_is_what_stays(count: int, name: str) -> None:
    """M-75, M-79: keeping none means none, and a call says more than the configuration."""
    context = refold.open("x", store="memory:")
    for number in range(10):
        role = "assistant" if number % 2 else "user"
        context.append({"role": role, "content": f"{number} " + "words " * 40})
    context.compact("window", **{name: count})
    seqs = [slot.seq for slot in context.view.slots if not is_notice(slot)]
    newest = set(range(10 - count + 1, 11)) if count < 10 else set(range(1, 11))
    assert set(seqs) == newest | {1, 9}, "the first and the latest request stay besides"


def test_no_window_takes_what_the_agent_is_in_the_middle_of() -> None:
    log = log_of([*alternating(3), *used("a", "words " * 40)])
    assert left(log, keep=0)[-2:] == [4, 5]


@pytest.mark.parametrize(
    ("strategy", "settings", "missing"),
    [
        ("relevance", {"task": "x"}, "relevance needs a size"),
        ("relevance", {"max_tokens": 9}, "relevance needs a task"),
        ("window", {"by": "tokens"}, "a window by tokens needs a size"),
    ],
)
@pytest.mark.parametrize("words", [0, 5, 5_000])
def test_a_strategy_that_is_not_told_enough_is_refused_whatever_the_page_has(
    strategy: str, settings: dict[str, Any], missing: str, words: int
) -> None:
    """M-80."""
    context = refold.open("x", store="memory:")
    if words:
        context.append({"role": "assistant", "content": "word " * words})
    for call in (context.plan, context.compact):
        with pytest.raises(Invalid, match=missing):
            call(strategy, **settings)
