"""Days and months in queries."""

from __future__ import annotations

from refold.search.words import Date, dates_in, nearness


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
