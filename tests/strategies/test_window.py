"""Row G-10, and the part of M-79 that goes by tokens: the last messages stay."""

from __future__ import annotations

import pytest

from refold.config import Config
from refold.core.laws import broken
from refold.core.model import Pin
from refold.strategies.hide import is_notice
from refold.strategies.window import window
from tests.strategies.talks import alternating, climbed, log_of, pages, said, used


def left(log: list, **options: object) -> list[int]:
    slots = climbed(log, window, **options).state.view().slots
    return [slot.seq for slot in slots if not is_notice(slot)]


def test_the_window_reaches_back_to_the_call_of_its_first_result() -> None:
    parts = [said("system", "be brief"), *alternating(6), *used("a", "out" * 50), *alternating(3)]
    log = log_of(parts)
    assert left(log, keep=4) == [1, 2, 8, 9, 10, 11, 12]  # G-10: the fourth last is the result #9
    assert left(log, keep=3) == [1, 2, 10, 11, 12]
    assert not broken(climbed(log, window, keep=4).state.view())


@pytest.mark.parametrize(("keep", "expected"), [(1, [1, 11]), (5, [1, 7, 8, 9, 10, 11]), (11, list(range(1, 12)))])
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
    assert "[16 earlier messages are hidden; unfold #2-4, #6-18 to read them.]" in pages(done)


def test_a_window_that_slides_on_has_one_notice() -> None:
    first = climbed(log_of(alternating(41)), window, keep=20)
    second = climbed(log_of(alternating(41)), window, keep=4, state=first.state)
    assert [text for text in pages(second) if "hidden" in text] == [
        "[36 earlier messages are hidden; unfold #2-37 to read them.]"
    ]
