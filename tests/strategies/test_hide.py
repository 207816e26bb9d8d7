"""Rows C-40 to C-54 and X-25: which messages truncation hides, and what it says about them."""

from __future__ import annotations

import pytest

from refold.core.laws import broken
from refold.core.model import Pin, Span, Summarize
from refold.errors import Invalid
from refold.strategies.hide import fraction_count, hide, is_notice, preset_for, truncation_range
from refold.strategies.ladder import Climb
from refold.strategies.protected_messages import protected
from tests.strategies.talks import (
    alternating,
    brief_of,
    climbed,
    log_of,
    pages,
    said,
    state_of,
    used,
)

EMPTY = (2, 1)


def roles(n: int) -> list[str]:
    return ["user" if i % 2 == 0 else "assistant" for i in range(n)]


def indices(climb: Climb, n: int) -> list[int]:
    """Which of the n first messages are hidden, by index in the conversation."""
    left = {slot.seq for slot in climb.state.view().slots if not slot.standin}
    return [i for i in range(n) if i + 1 not in left]


@pytest.mark.parametrize(
    ("row", "n", "preset", "previous", "expected"),
    [
        ("C-41", 11, "half", None, (2, 5)),
        ("C-41", 11, "quarter", None, (2, 7)),
        ("C-41", 11, "none", None, (2, 9)),
        ("C-41", 11, "lastTwo", None, (2, 7)),
        ("C-41", 12, "none", None, (2, 11)),
        ("C-41", 12, "lastTwo", None, (2, 9)),
        ("C-41", 14, "half", None, (2, 7)),
        ("C-41", 20, "half", None, (2, 9)),
        ("C-42", 21, "half", None, (2, 9)),
        ("C-42", 21, "half", 9, (2, 13)),
        ("C-42", 41, "quarter", None, (2, 29)),
        ("C-42", 41, "quarter", 29, (2, 37)),
        ("C-42", 11, "half", 5, (2, 7)),
        ("C-42", 11, "quarter", 5, (2, 7)),
        ("C-42", 11, "lastTwo", 5, (2, 7)),
        ("C-42", 11, "none", 5, (2, 9)),
        ("C-44", 3, "half", None, EMPTY),
        ("C-44", 2, "half", None, EMPTY),
        ("C-44", 1, "half", None, EMPTY),
        ("C-44", 0, "half", None, EMPTY),
        ("C-44", 0, "none", None, EMPTY),
        ("C-44", 6, "half", 40, (2, 5)),
        ("C-44", 5, "none", 40, (2, 3)),
        ("C-54", 11, "half", 7, (2, 7)),
    ],
)
def test_truncation_range_gives_the_range_of_the_row(
    row: str, n: int, preset: str, previous: int | None, expected: tuple[int, int]
) -> None:
    assert truncation_range(n, preset, previous, roles(n)) == expected


@pytest.mark.parametrize("n", [14, 20])
def test_the_last_removed_is_an_assistant_message(n: int) -> None:
    _, end = truncation_range(n, "half", None, roles(n))  # C-43
    assert roles(n)[end] == "assistant" and roles(n)[end + 1] == "user"


@pytest.mark.parametrize("n", range(60))
@pytest.mark.parametrize("preset", ["none", "lastTwo", "half", "quarter"])
def test_every_range_starts_at_two_and_stays_inside(n: int, preset: str) -> None:
    first, last = truncation_range(n, preset, None, roles(n))  # C-40
    assert first == 2 and 1 <= last <= max(1, n - 1)


@pytest.mark.parametrize(
    ("total", "expected"), [(80_000, "quarter"), (70_000, "half"), (74_000, "half")]
)
def test_auto_keeps_a_quarter_only_above_twice_the_limit(total: int, expected: str) -> None:
    assert preset_for(total, 37_000) == expected  # C-45


@pytest.mark.parametrize(
    ("n", "preset", "expected"),
    [
        (11, "half", range(2, 6)),
        (11, "quarter", range(2, 8)),
        (11, "none", range(2, 10)),
        (11, "lastTwo", range(2, 8)),
        (12, "lastTwo", range(2, 10)),
        (12, "none", [2, 3, 4, 5, 6, 7, 8, 9, 11]),  # 10 is the latest request, which the law keeps
        (14, "half", range(2, 8)),
        (3, "half", []),
        (12, "condense", range(2, 10)),  # C-53: it ends with the assistant's words, a summary
        (11, "condense", range(2, 10)),  # C-53: it does not
    ],
)
def test_a_preset_hides_its_range_of_the_page(n: int, preset: str, expected: list[int]) -> None:
    done = climbed(log_of(alternating(n)), hide, preset=preset)  # C-41, C-44
    assert indices(done, n) == list(expected)
    assert sum(map(is_notice, done.state.view().slots)) == (1 if expected else 0)


def test_the_rendered_page_is_the_first_pair_the_notice_and_the_rest() -> None:
    log = log_of(alternating(11))
    done = climbed(log, hide, preset="half")  # C-46
    assert [text.split()[0] for text in pages(done)] == [
        "m0",
        "m1",
        "[4",
        "m6",
        "m7",
        "m8",
        "m9",
        "m10",
    ]
    assert state_of(log).view() == state_of(log_of(alternating(11))).view()


def test_truncating_again_goes_on_behind_the_earlier_range_with_one_notice() -> None:
    log = log_of(alternating(41))
    first = climbed(log, hide, preset="quarter")
    second = climbed(log, hide, preset="quarter", state=first.state)  # C-42, C-49
    third = climbed(log, hide, preset="lastTwo", state=second.state)
    assert indices(first, 41) == list(range(2, 30))
    assert indices(second, 41) == list(range(2, 38))
    assert indices(third, 41) == list(range(2, 38))
    notices = [text for text in pages(third) if "hidden" in text]
    assert notices == ["[36 earlier messages are hidden: #3-38.]"]
    assert pages(third)[1].startswith("m1")


def test_a_range_without_progress_proposes_nothing() -> None:
    log = log_of(alternating(11))
    first = climbed(log, hide, preset="quarter")
    again = climbed(log, hide, preset="half", state=first.state)  # C-54
    assert not again.proposals


def test_a_tool_pair_is_never_cut_by_a_preset() -> None:
    parts = [said("user", "go"), said("assistant", "on it")]
    for i in range(9):
        parts += used(f"t{i}", "output " * 50)
    log = log_of(parts)
    for preset in ("none", "lastTwo", "half", "quarter", "auto", "condense"):
        done = climbed(log, hide, preset=preset)
        assert done.proposals and not broken(done.state.view())
        assert done.state.view().slots[-1].seq == len(parts)


def test_the_roo_fraction_hides_an_even_number_after_the_first() -> None:
    assert [fraction_count(10, f) for f in (0, 0.5, 1.0)] == [0, 4, 10]
    log = log_of(alternating(11))
    assert indices(climbed(log, hide, fraction=0.5), 11) == [1, 2, 3, 4]
    assert not climbed(log, hide, fraction=0.0, preset="half", target=10**6).proposals
    everything = climbed(log, hide, fraction=1.0)
    assert indices(everything, 11) == list(range(1, 10)), "the latest request stays"


def test_by_tokens_the_big_message_in_the_middle_goes() -> None:
    parts = [
        *alternating(10, 40),
        said("user", "big " * 25_000),
        said("assistant", "seen"),
        *alternating(4, 40),
    ]
    log = log_of(parts)
    done = climbed(log, hide, target=1_000, window=128_000)  # C-51
    assert done.state.view().tokens <= 1_000
    assert 10 in indices(done, len(parts))
    half = climbed(log, hide, target=1_000, window=128_000, preset="half")
    assert half.state.view().tokens > 1_000


def test_by_tokens_only_as_much_goes_as_must() -> None:
    log = log_of(alternating(41))
    before = state_of(log).view().tokens
    done = climbed(log, hide, target=before - 500)
    assert done.state.view().tokens <= before - 500
    assert len(indices(done, 41)) <= 6


def test_a_pinned_message_stays_with_its_pair() -> None:
    parts = [said("user", "go"), said("assistant", "yes")]
    for i in range(6):
        parts += used(f"t{i}", "output " * 50)
    log = log_of([*parts, Pin(seq=6), said("user", "next")])
    done = climbed(log, hide)  # C-52
    left = {slot.seq for slot in done.state.view().slots if not slot.standin}
    assert {5, 6} <= left
    assert sum(map(is_notice, done.state.view().slots)) == 1
    again = climbed(log, hide, state=done.state)
    assert not again.proposals


def test_the_notice_says_how_many_and_the_handle() -> None:
    done = climbed(log_of(alternating(4, 4_000)), hide, preset="none")
    assert "[1 earlier message is hidden: #4.]" in pages(done)
    done = climbed(log_of(alternating(11)), hide, preset="half")
    assert "[4 earlier messages are hidden: #3-6.]" in pages(done)


def test_a_notice_larger_than_what_it_hides_is_not_worth_it() -> None:
    log = log_of(alternating(5, 4))
    assert not climbed(log, hide).proposals


def test_summaries_go_after_messages() -> None:
    parts = alternating(12)
    summary = Summarize(batch="b1", span=Span(3, 4), text="what was done " * 30)
    log = log_of([*parts, summary])
    done = climbed(log, hide, target=state_of(log).view().tokens - 300)
    assert any("what was done" in text for text in pages(done))
    all_of_it = climbed(log, hide)
    assert "[8 earlier messages are hidden: #3-10.]" in pages(all_of_it)


def test_the_edits_touch_nothing_protected() -> None:
    log = log_of([*alternating(11), Pin(seq=5)])
    view = state_of(log).view()
    for edit in hide(brief_of(log)):
        assert not protected(view) & set(range(edit.span.first, edit.span.last + 1))


@pytest.mark.parametrize(("fraction", "hidden"), [(0.0, 0), (0, 0), (0.1, 0), (0.5, 4), (1.0, 9)])
def test_a_fraction_is_of_the_messages_after_the_first_and_0_is_none(
    fraction: float, hidden: int
) -> None:
    """X-25: 0 hides nothing, although the target is not met. At 1.0 only the latest request is
    kept, by law."""
    log = log_of(alternating(11))
    assert len(indices(climbed(log, hide, target=0, fraction=fraction), 11)) == hidden


def test_unknown_settings_say_what_is_known() -> None:
    log = log_of(alternating(11))
    with pytest.raises(Invalid, match="third"):
        hide(brief_of(log, preset="third"))
    with pytest.raises(Invalid, match="fraction"):
        hide(brief_of(log, fraction=2))
