"""What is true now: what changed ends what was there, what is denied ends, what can both be true stays,
and what code cannot decide stands side by side, marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.memory.claim import ATTRIBUTES
from refold.memory.semantic import SemanticMemory
from refold.stores import open_store

START_MS, HOUR_MS = 1_700_000_000_000, 3_600_000

ENDS = [
    ("The database port is 5432", "The database now listens on port 6432"),
    ("Port: 5432", "Port: 6432"),
    ("The API runs on port 8080", "The API runs on port 9090"),
    ("The API port is 8080", "API port changed to 9090"),
    ("The API port was changed to 8080", "The API port was changed to 9090"),
    ("Anna is the team lead", "Bob is the team lead now"),
    ("Anna is the team lead", "Bob is the new team lead"),
    ("The team lead is Anna", "The team lead is Bob"),
    ("Maria owns the billing service", "Tom owns the billing service now"),
    ("We use Python 3.11", "We use Python 3.12"),
    ("We upgraded to Python 3.11", "We upgraded to Python 3.12"),
    ("We're on Node 18", "We're on Node 20"),
    ("Anna lives in Berlin", "Anna moved to Munich"),
    ("Anna lives in Berlin", "Anna has moved from Berlin to Munich"),
    ("I live in Berlin", "I live in Munich now"),
    ("I work at Siemens", "I now work for Bosch"),
    ("I work at Siemens", "I left Siemens"),
    ("I prefer tabs over spaces", "I no longer prefer tabs over spaces"),
    ("I like coffee", "I don't like coffee anymore"),
    ("I like coffee", "I do not like coffee"),
    ("My favourite colour is blue", "My favourite colour is green"),
    ("My favorite color is blue", "My favourite colour is green"),
    ("We use Redis", "We don't use Redis anymore"),
    ("We use Redis", "We no longer use Redis"),
    ("We use Redis", "We stopped using Redis"),
    ("We use Redis for caching", "We replaced Redis with Valkey"),
    ("We use Redis for caching", "We switched from Redis to Valkey"),
    ("We use Redis", "We do not use Redis"),
    ("The office is in Paris", "The office is back in Lyon"),
    ("The port is 5432", "The port is back to 5433"),
    ("The deadline is 2024-05-01", "The deadline is 2024-06-01"),
    ("The deadline is May 1", "The deadline moved to June 1"),
    ("The deadline is May 1", "The deadline has been extended to June 1"),
    ("The release is on Tuesday", "The release is on Wednesday"),
    ("The meeting is at 10:00", "The meeting is at 11:30"),
    ("The meeting was moved to 11:30", "The meeting was moved to 14:00"),
    ("The API key lives in .env", "The API key lives in vault"),
    ("Logs are in /var/log/shop", "Logs are in /srv/log/shop"),
    ("Logs go to /var/log/shop", "Logs go to /srv/log/shop"),
    ("The default branch is master", "The default branch is main"),
    ("The default branch is master", "We renamed the default branch from master to main"),
    ("The server is called Hermes", "The server is called Atlas"),
    ("The timeout is 30 seconds", "The timeout is 60 seconds"),
    ("The timeout is 30 seconds", "timeout = 60 seconds"),
    ("We have 5 servers", "We have 7 servers"),
    ("Our budget is $5,000", "Our budget is $7,500"),
    ("The budget is 5k", "The budget was raised to 7k"),
    ("Feature X is enabled", "Feature X is disabled"),
    ("Dark mode is on", "Dark mode is off"),
    ("Tom's phone number is 123", "Tom's phone number is 456"),
    ("Tom is married", "Tom is not married"),
    ("Tom is 30 years old", "Tom is 31 years old"),
    ("Anna's email is a@x.org", "The email of Anna is b@x.org"),
    ("The DB host is db1.internal", "The DB host is now db2.internal"),
    ("The staging URL is https://a.example", "The staging URL is https://b.example"),
    ("Java 17 is required", "Java 21 is required"),
    ("We deploy on Fridays", "We deploy on Mondays"),
    ("The CI runs on GitHub Actions", "The CI runs on GitLab"),
    ("We host on AWS", "We host on GCP now"),
    ("Bob reports to Anna", "Bob reports to Carla"),
    ("We must use TLS 1.2", "We must use TLS 1.3"),
    ("The build is green", "The build is red"),
]
BOTH = [
    ("We use Redis", "We use Postgres"),
    ("Tom has a dog", "Tom has a cat"),
    ("The red car is fast", "The blue car is slow"),
    ("The staging port is 5432", "The production port is 6432"),
    ("The port of the API is 8080", "The port of the UI is 9090"),
    ("Anna lives in Berlin", "Bob lives in Munich"),
    ("Anna likes tea", "Anna likes cake"),
    ("Anna is our CTO", "Anna is our CEO"),
    ("Server 1 is down", "Server 2 is up"),
    ("We use config.toml", "We use setup.cfg"),
    ("I go to the gym", "I go to school"),
    ("Tom owns a car", "Anna owns a car"),
    ("Anna works at Siemens", "Anna works on the parser"),
    ("Do not use tabs", "Do not use semicolons"),
    ("Never push to main", "Push to the fork"),
    ("Tom left early", "Tom works at Bosch"),
]
RIVALS = [
    ("Anna leads the project", "Bob leads the project"),
    ("Maria is responsible for deployments", "Tom is responsible for deployments"),
    ("I prefer tabs", "I prefer spaces"),
]
SAME = [
    ("The database port is 5432", "the Database port is 5432!"),
    ("The database port is 5432", "Database port: 5432"),
    ("We use Postgres 16", "we're using postgres 16"),
    ("Never push to main", "never push to main."),
    ("The email of Anna is a@x.org", "Anna's email is a@x.org"),
]


def told(*texts: str) -> SemanticMemory:
    """A memory that was told these, one an hour."""
    memory = SemanticMemory(open_store("memory:"), embedder=False)
    for number, text in enumerate(texts):
        memory.store(text, at=START_MS + number * HOUR_MS)
    return memory


def current(memory: SemanticMemory, **given) -> list[str]:
    return sorted(entry.content for entry in memory.list(**given))


@pytest.mark.parametrize(("old", "new"), ENDS)
def test_what_changed_ends_what_was_there(old, new):
    memory = told(old, new)
    assert current(memory) == [new]
    assert current(memory, as_of=START_MS + 1) == [old]
    assert len(memory.list(ended=True)) == 2


@pytest.mark.parametrize(("old", "new"), BOTH)
def test_what_can_both_be_true_stays(old, new):
    memory = told(old, new)
    assert current(memory) == sorted([old, new])
    assert not any(entry.rivals for entry in memory.list())


@pytest.mark.parametrize(("old", "new"), RIVALS)
def test_what_code_cannot_decide_stands_side_by_side_and_is_marked(old, new):
    memory = told(old, new)
    assert current(memory) == sorted([old, new])
    assert all(len(entry.rivals) == 1 for entry in memory.list())


@pytest.mark.parametrize(("first", "second"), SAME)
def test_the_same_in_other_words_is_one_entry(first, second):
    [entry] = told(first, second).list()
    assert entry.count == 2


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("We use Redis", "We no longer use Redis", "We use Redis"), ["We use Redis"]),
        (("We use Redis", "We don't use Redis", "We use Redis again"), ["We use Redis again"]),
        (("I work at Siemens", "I left Siemens", "I work at Bosch"), None),
        (("The port is 1", "The port is 2", "The port is back to 1"), ["The port is back to 1"]),
        (
            ("The API port is 1111", "We moved from 1111 to 2222", "The API port is 3333"),
            ["The API port is 3333"],
        ),
        (
            (
                "The API port is 1111",
                "The API port changed from 1111 to 2222",
                "The API port is 1111",
            ),
            ["The API port is 1111"],
        ),
        (("Tom is not married", "Tom is married"), ["Tom is married"]),
    ],
)
def test_what_comes_back_is_true_again(texts, expected):
    memory = told(*texts)
    if expected is None:
        assert "I work at Bosch" in current(memory) and "I work at Siemens" not in current(memory)
    else:
        assert current(memory) == expected
    assert len(memory.list(ended=True)) == len(texts)


NOUNS = st.sampled_from(sorted(ATTRIBUTES - {"default"}))
OWNERS = st.sampled_from(["", "staging ", "Anna's ", "API "])
VALUES = st.integers(1, 10**6).map(str) | st.sampled_from(["v1.2", "2026-05-01", "blue", "db1.x"])
WAYS = st.sampled_from(
    [
        "The {} is {}",
        "{}: {}",
        "the {} is now {}!",
        "Please note that the {} is {}.",
        "The {} was changed to {}",
        "the {} has been set to {}",
    ]
)


@given(OWNERS, NOUNS, st.lists(st.tuples(WAYS, VALUES), min_size=2, max_size=5))
def test_the_last_value_of_an_attribute_is_the_one_that_is_true(owner, noun, given):
    memory = told(*(way.format(owner + noun, value) for way, value in given))
    [entry] = memory.list()
    assert given[-1][1] in entry.content
    for number, (_, value) in enumerate(given):
        [then] = memory.list(as_of=START_MS + number * HOUR_MS)
        assert value in then.content


@given(
    st.sampled_from(["I", "We", "Tom", "The shop"]),
    st.sampled_from(["use", "like", "need", "support"]),
    st.sampled_from(["Redis", "green tea", "TLS 1.2", "the old queue"]),
    st.lists(st.booleans(), min_size=1, max_size=6),
)
def test_the_last_word_on_something_stands(who, verb, what, given):
    verb = verb if who in ("I", "We") else f"{verb}s"
    no = "don't" if who in ("I", "We") else "doesn't"
    yes, denied = f"{who} {verb} {what}", f"{who} {no} {verb.removesuffix('s')} {what}"
    assert current(told(*(yes if one else denied for one in given))) == [
        yes if given[-1] else denied
    ]
