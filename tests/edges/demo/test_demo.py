"""The demo keeps what it promises, in this run, with this source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import refold.edges.demo
from refold.edges.demo.comparison import ASKED, FULL, SHOWN, SUMMARY, WINDOW, Summarized
from refold.edges.demo.session import DECISION, PORT, REQUEST, played_session
from refold.errors import OUTCOMES
from refold.replay.needs import tokens_of_all
from refold.replay.run import OURS, faults_of
from refold.tokens.models import model_info
from tests.edges.cli.rooms import run

LINES_MAX = 400


@pytest.fixture(scope="module")
def played() -> dict[str, Any]:
    done = run("demo", "--details", "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_request_of_refold_is_valid_and_fits(played: dict[str, Any]) -> None:
    ours = next(one for one in played["outcomes"] if one["policy"] == OURS)
    assert ours["faulty"] == 0 and len(played["receipts"]) >= 3
    assert max(turn["tokens"] for turn in ours["turns"]) <= played["window"] == WINDOW
    assert played["tokens"] > 5 * WINDOW


def test_every_answer_is_at_hand_and_the_fair_rivals_have_fewer(played: dict[str, Any]) -> None:
    found = {
        name: sum(one["places"][name] != "gone" for one in played["answers"]) for name in ASKED
    }
    assert found.pop(OURS) == len(played["answers"]) == 6
    assert all(0 < count < 6 for count in found.values())
    assert {one["policy"] for one in played["outcomes"]} > {*SHOWN}


def test_undo_and_unfold_are_proven(played: dict[str, Any]) -> None:
    assert played["undone"] and played["unfolded"]


def test_the_calls_for_summaries_are_billed(played: dict[str, Any]) -> None:
    """A rival that writes summaries pays for them beside the requests it sends."""
    side = next(one for one in played["outcomes"] if one["policy"] == "summaries by a model")
    prices = model_info(played["model"]).prices
    assert prices is not None and prices.cache_read is not None and prices.cache_write is not None
    answers = played_session().messages
    written = side["sent"] - side["cached"]
    requests = (side["cached"] * prices.cache_read + written * prices.cache_write) / 1_000_000
    assert played["summaries"] > 1 and side["dollars"] > requests
    assert side["faulty"] == 0 and answers


def test_the_table_comes_first_then_the_questions_and_nothing_else() -> None:
    lines = run("demo", "--window", "16000").stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    table, asked = (next(at for at, line in enumerate(lines) if line.startswith(word))
                    for word in ("everything", "asked at the end"))  # fmt: skip
    assert table < asked and lines[-1].endswith("refold replay --all")


def test_a_window_that_is_too_small_is_an_error() -> None:
    done = run("demo", "--window", "1000")
    assert done.exit_code == OUTCOMES["invalid"][1] and "too small for the demo" in done.stderr


def test_the_session_is_the_same_each_time_and_does_not_hold_its_own_source() -> None:
    first, again = played_session(), played_session()
    assert first.messages == again.messages
    results = [one["content"] for one in first.messages if one["role"] == "tool"]
    assert not any(words in text for text in results for words in (REQUEST, str(PORT), DECISION))


@pytest.mark.parametrize("budget", [6_000, 12_000, 24_000])
def test_the_summarizing_rival_is_a_fair_one(budget: int) -> None:
    """Its pages are valid, fit, and keep the system prompt and the latest request."""
    side, request = Summarized(), ""
    side.start(budget)
    for message in played_session().messages:
        if message["role"] == "assistant":
            page = side.prompt()
            assert tokens_of_all(page) <= budget and not faults_of(page, budget, request)
            assert page[0]["role"] == "system"
        if message["role"] == "user":
            request = message["content"]
        side.observe(message)
    assert side.summary[0]["content"].startswith(SUMMARY) and 0.5 < FULL < 1


def test_the_demo_is_short_and_its_model_is_not_about_to_go(played: dict[str, Any]) -> None:
    folder = Path(refold.edges.demo.__file__).parent
    lines = sum(len(path.read_text().splitlines()) for path in folder.glob("*.py"))
    assert lines <= LINES_MAX and not model_info(played["model"]).retires
