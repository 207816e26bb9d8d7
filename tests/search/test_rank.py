"""The order of matches: what neighbours lend, and what it costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from refold.search import rank


def test_a_short_message_borrows_the_words_of_its_neighbours_more_from_those_before():
    found = rank.borrowed({10: 1}, {10}, dict.fromkeys(range(5, 16), 10), set())
    assert found == {10: 1.0, 12: 0.4, 11: 0.4, 9: 0.2, 8: 0.2}


def test_what_follows_a_question_takes_its_words_whole_and_other_neighbours_as_before():
    found = rank.borrowed({10: 1}, {10}, dict.fromkeys(range(5, 16), 10), {10})
    assert found == {10: 1.0, 12: 0.4, 11: rank.ANSWER_SHARE, 9: 0.2, 8: 0.2}
    assert rank.ANSWER_SHARE == 1.0


def test_a_long_message_neither_lends_nor_borrows():
    sizes = {9: 10, 10: 500, 11: 10}
    assert rank.borrowed({10: 1}, {10}, sizes, set()) == {10: 1.0}
    assert rank.borrowed({9: 1}, {9}, sizes, set()) == {9: 1.0, 11: 0.4}


def test_of_too_many_matches_the_best_are_ranked_and_the_newest_of_equal_ones():
    found = [rank.Matches(dict.fromkeys(range(100), 1), 100), rank.Matches({3: 1}, 1)]
    assert rank.seeds(found, 1_000, 3) == {3, 98, 99}


@given(st.lists(st.integers(0, 200), max_size=30))
def test_the_sum_of_context_lengths_is_kept_as_messages_come(sizes):
    kept = 0.0
    for at, size in enumerate(sizes):
        kept += rank.added_context_words(sizes[max(0, at - 2) : at], size)
    words = dict(enumerate(sizes))
    assert abs(kept - sum(rank.context_words(at, words) for at in words)) < 1e-6
