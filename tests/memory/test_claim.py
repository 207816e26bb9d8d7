"""What sentences claim: spelling does not matter, values do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.memory.claim import claim_of, ends

SAME = [
    ("We use Postgres 16", "we're using postgres 16."),
    ("Remember that the port is 5432", "The port: 5432"),
    ("I prefer tabs!", "i  prefer tabs"),
]
CHANGED = [
    ("The database port is 5432", "the database port is now 6432"),
    ("Anna lives in Berlin", "Anna lives in Munich"),
    ("We use Postgres 16", "We use Postgres 17"),
    ("My favourite colour is blue", "My favourite colour is green"),
    ("Deadline: Friday", "The deadline is Monday"),
    ("Use port 8080 for the API", "Use port 9090 for the API"),
    ("We are based in Berlin", "We are based in Lyon"),
]
APART = [
    ("Bug 42 is fixed", "Bug 43 is fixed"),
    ("We use Postgres 16", "We use Redis 7"),
    ("Anna is a doctor", "Anna is tall"),
    ("The user is happy", "The user is a lawyer"),
    ("Use port 80 for the API", "Use port 81 for the metrics"),
    ("We do not use Redis", "We use Redis"),
    ("The server was on 5432", "The server is on 5432"),
]


@pytest.mark.parametrize("first, second", SAME)
def test_the_same_in_other_spelling_is_the_same(first, second):
    assert claim_of(first).said == claim_of(second).said


@pytest.mark.parametrize("first, second", CHANGED)
def test_another_value_of_the_same_thing_takes_its_place(first, second):
    one, two = claim_of(first), claim_of(second)
    assert one.about == two.about != "" and one.value != two.value
    assert one.is_single and two.is_single


@pytest.mark.parametrize("first, second", APART)
def test_what_can_both_be_true_does_not_end_each_other(first, second):
    one, two = claim_of(first), claim_of(second)
    assert one.said != two.said
    assert one.about != two.about or not one.is_single


def test_a_move_ends_what_had_the_value():
    move = claim_of("We moved from 5432 to 6432")
    assert ends(move, claim_of("Postgres listens on port 5432"))
    assert not ends(move, claim_of("Postgres listens on port 6432"))
    other = claim_of("Anna moved from Berlin to Paris")
    assert ends(other, claim_of("Anna lives in Berlin"))
    assert not ends(other, claim_of("I live in Berlin"))
    assert not ends(other, claim_of("Anna was born in Berlin"))


@given(st.text(max_size=300))
def test_any_text_claims_something_and_always_the_same(text):
    assert claim_of(text) == claim_of(text)


def test_what_has_no_words_says_only_itself():
    assert len({claim_of(text).said for text in ("👍", "👎", ":", "…", "the")}) == 5


def test_what_moves_away_from_an_amount_ends_it_with_its_unit():
    move = claim_of("We changed the rent from 1,020 euros to 1,080 euros")
    assert ends(move, claim_of("The rent is 1,020 euros a month"))
    assert not ends(move, claim_of("The rent is 940 euros a month"))
    assert not ends(move, claim_of("The deposit is 1,020 euros"))
