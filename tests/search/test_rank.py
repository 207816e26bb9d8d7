"""The order of matches: what neighbours lend, what it costs, and how dates and vectors join in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from refold.search import rank
from refold.search.dates import Date, dates_in, nearness


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


def test_a_rare_term_says_more_than_a_common_one():
    assert rank.rarity(1, 1_000) > rank.rarity(100, 1_000) > rank.rarity(1_000, 1_000) > 0


def test_of_too_many_matches_the_best_are_ranked_and_the_newest_of_equal_ones():
    found = [rank.Found(dict.fromkeys(range(100), 1), 100), rank.Found({3: 1}, 1)]
    assert rank.seeds(found, 1_000, 3) == {3, 98, 99}


@given(st.lists(st.integers(0, 200), max_size=30))
def test_the_sum_of_context_lengths_is_kept_as_messages_come(sizes):
    kept = 0.0
    for at, size in enumerate(sizes):
        kept += rank.added_near(sizes[max(0, at - 2) : at], size)
    words = dict(enumerate(sizes))
    assert abs(kept - sum(rank.context_words(at, words) for at in words)) < 1e-6


def test_days_and_months_are_read_in_the_ways_people_write_them():
    assert dates_in("on 7 May 2023") == [Date(5, 7, 2023)]
    assert dates_in("May 7th, 2023, or the 3rd of June") == [Date(5, 7, 2023), Date(6, 3)]
    assert dates_in("in may") == [Date(5)]
    assert dates_in("2023-05-07 and 2024-11") == [Date(5, 7, 2023), Date(11, 0, 2024)]
    assert dates_in("this may march on, version 2023-99") == []


def test_the_day_and_the_days_after_it_are_nearer_than_the_rest_of_the_month():
    may_8_2023 = 1_683_540_000_000
    assert nearness(may_8_2023, [Date(5, 7, 2023)]) == 1.0
    assert nearness(may_8_2023, [Date(5, 20)]) == 0.5
    assert nearness(may_8_2023, [Date(5)]) == 1.0
    assert nearness(may_8_2023, [Date(5, 8, 2022), Date(6)]) == 0.0
