"""Rows G-12, G-15, G-21, X-26 and M-71 to M-83: what a message is worth, and what goes for want
of it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

import refold
from refold.config import Config
from refold.core.laws import broken
from refold.core.model import Body, Event, Pin, Span
from refold.errors import Invalid
from refold.strategies import importance as module
from refold.strategies.hide import is_notice
from refold.strategies.importance import Score, explain, importance, relevance
from tests.scripted import GOOD, Scripted
from tests.strategies.talks import (
    alternating,
    brief_of,
    climbed,
    log_of,
    pages,
    resized,
    said,
    shown,
    state_of,
    used,
)


def scored(log: list[Event], **options: Any) -> dict[int, Score]:
    return {score.seq: score for score in explain(brief_of(log, **options))}


def left(log: list[Event], strategy: Any = importance, **options: Any) -> list[int]:
    slots = climbed(log, strategy, **options).state.view().slots
    return [slot.seq for slot in slots if not is_notice(slot)]


def talk(*texts: str) -> list[Event]:
    """An opening, a message for each text, and a closing request."""
    return log_of(
        [said("user", "begin"), *(said("assistant", text) for text in texts), said("user", "go on")]
    )


# --- scores ---


@pytest.mark.parametrize(
    "text",
    [
        "You must never do that again",
        "Build the shop front end",
        "We decided to use gateway v2 for payments",
        "The price is 40 Euro, not 45",
    ],
)
def test_what_a_user_said_is_worth_the_usual_threshold_and_narration_is_not(text: str) -> None:
    """G-12: on a long page, wherever it stands on it."""
    filler = [said("assistant", f"Now I look at file{n}.") for n in range(40)]
    for place in (1, 20, 39):
        parts = [said("user", "begin"), *filler]
        parts.insert(place, said("user", text))
        scores = scored(log_of([*parts, said("user", "go on")]), task="go on")
        assert scores[place + 1].score >= module.THRESHOLD
        assert scores[3 if place == 1 else 2].score < module.THRESHOLD


def test_scores_lie_between_0_and_1_and_name_their_factors() -> None:
    for score in explain(
        brief_of(talk("error in a.py", "we decided", "plan: a.py"), task="a.py")
    ):  # M-83
        assert 0 <= score.score <= 1
        assert set(score.factors) == set(module.WEIGHTS)


def test_recency_goes_by_position() -> None:
    log = log_of([said("assistant", f"number {i}") for i in range(100)])
    found = [score.score for score in explain(brief_of(log))]  # M-73
    assert all(earlier < later for earlier, later in pairwise(found))


def test_a_failed_tool_scores_below_the_same_that_worked() -> None:
    log = log_of(
        [said("user", "go"), *used("a", "same"), *used("b", "same", error=True), *used("c", "x")]
    )
    found = scored(log, weights={"recency": 0, "novelty": 0})  # M-71
    assert found[5].score < found[3].score


@pytest.mark.parametrize("between", [0, 1, 30])
@pytest.mark.parametrize("failed_last", [True, False])
@pytest.mark.parametrize("text", ["same", "Traceback in a.py: error, see b.py", "we decided: done"])
def test_a_failure_scores_below_the_same_words_of_a_success_wherever_it_stands(
    text: str, failed_last: bool, between: int
) -> None:
    """M-71: also when it comes later, however far, with the weights as they are."""
    parts = [said("user", "go"), *used("a", text, error=not failed_last)]
    for number in range(between):
        parts += used(f"n{number}", f"number {number} of c.py")
    log = log_of([*parts, *used("b", text, error=failed_last)])
    first, last = (scored(log)[seq].score for seq in (3, len(log)))
    assert (last < first) if failed_last else (first < last)


def test_of_two_failures_in_the_same_words_the_later_is_news() -> None:
    log = log_of([said("user", "go"), *used("a", "no", error=True), *used("b", "no", error=True)])
    assert [scored(log)[seq].factors["novelty"] for seq in (3, 5)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        ("", "anything", 0.0),
        ("   ", "anything", 0.0),
        ("the", "the and the", 0.0),
        ("is", "this", 0.0),
        ("fix auth,", "auth fixed", 1.0),
        ("login", "loginError", 1.0),
        ("login", "elsewhere", 0.0),
    ],
)
def test_keywords_are_whole_words_of_the_task(task: str, text: str, expected: float) -> None:
    assert scored(talk(text, "zzz"), task=task)[2].factors["keywords"] == expected  # M-72


def test_a_stop_word_in_the_task_has_no_effect() -> None:
    log = talk("the login", "login", "the")
    assert [s.factors for s in explain(brief_of(log, task="fix the login"))] == [
        s.factors for s in explain(brief_of(log, task="fix login"))
    ]


def test_rare_words_of_the_task_count_more() -> None:
    found = scored(talk("error", "error", "parser", "error"), task="parser error")
    assert found[4].factors["keywords"] > found[2].factors["keywords"] > 0


def test_what_later_messages_use_is_worth_more() -> None:
    log = talk("see src/auth.py", "see src/other.py", "now auth.py again")  # G-15, X-26
    found = scored(log, weights={"recency": 0})
    assert found[2].score > found[3].score
    log = talk("kept as art-0012ab", "kept as art-99ffee", "unfold art-0012ab")
    assert scored(log)[2].factors["references"] > scored(log)[3].factors["references"]


@pytest.mark.parametrize(
    ("factor", "more", "less"),
    [
        ("marks", "we decided to use sqlite", "plan: use sqlite"),
        ("marks", "plan: use sqlite", "an error came up"),
        ("marks", "an error came up", "fine"),
        ("novelty", "said once", "begin"),
    ],
)
def test_factors_tell_messages_apart(factor: str, more: str, less: str) -> None:
    found = scored(talk(more, less, "begin"))
    assert found[2].factors[factor] > found[3].factors[factor]


def test_only_a_user_can_stress_something() -> None:
    log = log_of([said("user", "NEVER do that"), said("assistant", "never"), said("user", "fine")])
    assert [score.factors["emphasis"] for score in explain(brief_of(log))] == [1.0, 0.0, 0.0]


# --- the choice ---


def test_below_the_threshold_goes() -> None:
    texts = [
        "we decided",
        "so",
        "the plan",
        "an error",
        "ok",
    ]  # worth 1, 0, 0.8, 0.6, 0 by their marks alone
    log = talk(*(text.ljust(400, ".") for text in texts))
    only = {"weights": {**dict.fromkeys(module.WEIGHTS, 0.0), "marks": 1.0}}
    assert left(log, preset="threshold", keep_recent=0, **only) == [1, 2, 4, 5, 7]  # G-12
    assert left(log, threshold=0.9, keep_recent=0, **only) == [1, 2, 7]
    assert left(log, threshold=0.9, keep_recent=2, **only) == [1, 2, 6, 7]


def scores_of_the_row() -> tuple[list[Event], dict[str, Any]]:
    """Messages that are worth 1.0, 0.6, 0.8 and 0 by their marks alone: of these 0.7 keeps the
    first and the third."""
    texts = ["we decided", "an error", "the plan", "so"]
    only = {"weights": {**dict.fromkeys(module.WEIGHTS, 0.0), "marks": 1.0}}
    return talk(*(text.ljust(800, ".") for text in texts)), {
        "threshold": 0.7,
        "keep_recent": 0,
        **only,
    }


def test_the_rest_goes_into_the_summary_if_that_is_asked_for() -> None:
    """G-12: .9 .5 .7 .2: keep 1 and 3; 2 and 4 in the summary."""
    log, settings = scores_of_the_row()
    done = climbed(log, importance, rest="summarize", **settings)
    slots = done.state.view().slots
    assert [slot.seq for slot in slots if not slot.standin] == [1, 2, 4, 6]
    assert [ask.span for ask in done.asks] == [Span(3, 3), Span(5, 5)], (
        "a writer is asked as by `summarize`"
    )
    assert [bool(slot.summary.counted) for slot in slots if slot.standin] == [True, True]
    assert [proposal.edit.reason for proposal in done.proposals] == [
        "least important (0.60)",
        "least important (0.00)",
    ]
    assert left(log, rest="hide", **settings) == [1, 2, 4, 6]
    with pytest.raises(Invalid, match="burn"):
        importance(brief_of(log, rest="burn", **settings))


def test_a_writer_puts_the_rest_in_words() -> None:
    """G-12."""
    writer = Scripted(GOOD)
    context = refold.open("rest", store="memory:", window=100_000, writer=writer)
    for number in range(24):
        context.append(
            {"role": "assistant" if number % 2 else "user", "content": f"so it is {number} " * 60}
        )
    context.compact("importance", threshold=1.0, keep_recent=2, rest="summarize", target=0)
    assert writer.requests and any(
        "[Summary of" in text for slot in context.view.slots for text in shown(slot)
    )


@pytest.mark.parametrize("threshold", [-0.1, 1.01, 40])
def test_a_threshold_that_no_score_can_meet_is_refused(threshold: float) -> None:
    """G-12, G-21."""
    with pytest.raises(Invalid, match="threshold"):
        importance(brief_of(talk("a", "b"), threshold=threshold))


def test_a_score_at_the_threshold_stays() -> None:
    """G-12: at least, not more than. A sum of floats may lie a hair below."""
    log = talk(*("x" * 800 for _ in range(2)), "y" * 800)
    value = scored(log)[4].score
    assert 4 in left(log, threshold=value, keep_recent=0)
    assert 4 not in left(log, threshold=value + 0.001, keep_recent=0)


def test_a_plan_says_the_scores_of_what_would_go() -> None:
    """M-83: one by one where they are few, else from the lowest to the highest."""
    log, settings = scores_of_the_row()
    assert [item.edit.reason for item in climbed(log, importance, **settings).proposals] == [
        "least important (0.60)",
        "least important (0.00)",
    ]
    reasons = [
        item.edit.reason
        for item in climbed(log_of(alternating(7)), importance, keep_recent=0).proposals
    ]
    assert re.fullmatch(r"least important \(#2 0\.\d\d, .*#5 0\.\d\d, #6 0\.\d\d\)", reasons[0])
    reasons = [
        item.edit.reason
        for item in climbed(log_of(alternating(21)), importance, keep_recent=0).proposals
    ]
    assert len(re.findall(r"#\d+ 0\.\d\d", reasons[0])) == 19
    reasons = [
        item.edit.reason
        for item in climbed(log_of(alternating(260)), importance, keep_recent=0).proposals
    ]
    assert re.fullmatch(r"least important \(0\.\d\d to 0\.\d\d\)", reasons[0])


def test_the_recent_and_the_best_older_fit_in_order() -> None:
    texts = [f"message {i} ".ljust(384, ".") for i in range(20)]
    log = log_of([said("assistant", text) for text in texts])  # M-74: 100 tokens each
    done = climbed(log, importance, max_tokens=500, keep_recent=2, target=1)
    seqs = [slot.seq for slot in done.state.view().slots if not is_notice(slot)]
    assert done.state.view().slot_tokens <= 500
    assert seqs[-2:] == [19, 20] and seqs == sorted(seqs) and len(seqs) == 4


def test_keeping_none_means_none() -> None:
    log = log_of([said("assistant", f"{i} ".ljust(400, ".")) for i in range(8)])
    assert left(log, keep_recent=0, max_tokens=0) == []  # M-75
    assert left(log, keep_recent=99, max_tokens=10**6) == list(range(1, 9))


def test_recent_ones_that_exceed_the_limit_go_oldest_first_and_are_named() -> None:
    log = log_of([said("assistant", f"{i} ".ljust(384, ".")) for i in range(8)])
    config = Config(
        keep_recent=5
    )  # M-76: a default gives way; tests/compaction/test_kept.py: named
    done = climbed(log, importance, config=config, max_tokens=200)
    assert done.state.view().slot_tokens <= 200
    assert done.state.view().slots[-1].seq == 8
    assert any("hidden: #1-7" in text for text in pages(done))


def test_a_call_and_its_result_go_or_stay_together() -> None:
    parts: list[Body] = [said("user", "begin")]
    for number in range(6):
        parts += used(f"u{number}", "login " * 80 if number % 2 else "other " * 80)
    log = log_of([*parts, said("user", "end")])
    for target in range(100, 1_000, 100):
        done = climbed(log, importance, target=target, keep_recent=0, task="login")  # M-77
        seqs = {slot.seq for slot in done.state.view().slots if not is_notice(slot)}
        assert all((call in seqs) == (call + 1 in seqs) for call in range(2, 14, 2))
        assert not broken(done.state.view())


def test_value_per_token_beats_value() -> None:
    texts = [
        "login error decided " + "x" * 3_900,
        *(f"login error plan {i} ".ljust(380, "y") for i in range(5)),
    ]
    done = climbed(
        talk(*texts), importance, max_tokens=1_000, keep_recent=0, task="login error"
    )  # M-78
    assert [slot.seq for slot in done.state.view().slots if not is_notice(slot)] == [
        1,
        3,
        4,
        5,
        6,
        7,
        8,
    ]


def test_relevance_needs_a_task_and_a_size() -> None:
    log = talk("a", "b")  # M-80
    with pytest.raises(Invalid, match="task"):
        relevance(brief_of(log, max_tokens=5))
    with pytest.raises(Invalid, match="size"):
        relevance(brief_of(log, task="login"))
    with pytest.raises(Invalid, match="weights"):
        importance(brief_of(log, weights={"mood": 1.0}))


def test_relevance_keeps_what_the_task_speaks_of() -> None:
    texts = ["the parser " * 40, "the login " * 40, "the parser " * 41, "the parser " * 42]
    assert 3 in left(talk(*texts), relevance, max_tokens=250, keep_recent=0, task="fix login")


def test_pruning_says_how_many_and_leaves_the_log() -> None:
    log = log_of(alternating(45))
    done = climbed(log, importance, max_tokens=1_500, keep_recent=5)  # M-81
    hidden = 45 - len([slot for slot in done.state.view().slots if not is_notice(slot)])
    assert any(f"{hidden} earlier messages are hidden" in text for text in pages(done))
    assert len(state_of(log).view().slots) == 45


def test_proactive_pruning_waits_for_its_trigger() -> None:
    rule = {"trigger_tokens": 150_000, "max_tokens": 100_000, "keep_recent": 20}  # M-82
    log = log_of(alternating(151))
    above = resized(log, dict.fromkeys(range(1, 152), 1_000))
    done = climbed(above, importance, window=500_000, **rule)
    assert len(done.proposals) >= 1 and done.state.view().tokens <= 100_000
    assert not climbed(above[:149], importance, window=500_000, **rule).proposals


def test_explain_marks_what_would_go_and_changes_nothing() -> None:
    log = log_of([*alternating(21), Pin(seq=5)])
    brief = brief_of(log, 1_000, keep_recent=2)  # M-83
    going = {score.seq for score in explain(brief) if score.goes}
    done = climbed(log, importance, target=1_000, keep_recent=2)
    assert going == set(range(1, 22)) - {
        slot.seq for slot in done.state.view().slots if not is_notice(slot)
    }
    assert going and 5 not in going and 1 not in going and 21 not in going
