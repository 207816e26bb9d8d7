"""The newest matches, however they are looked for."""

from __future__ import annotations

import random

import pytest

from refold.core.model import Message, Text
from refold.log.draft import Draft
from refold.log.log import Log
from tests.search.talks import full_text, memory, talk


def test_the_newest_come_first_when_that_is_asked_over_all_conversations():
    store = memory()
    talk(store, "old", ["login one", "login two"], at_ms=1_600_000_000_000)
    talk(store, "new", ["login three", "nothing", "login four"], at_ms=1_700_000_000_000)
    talk(store, "mid", ["login five"], at_ms=1_650_000_000_000)
    hits = full_text(store).search("login", newest=True, limit=4)
    assert [(hit.conversation, hit.seq) for hit in hits] == [
        ("new", 3),
        ("new", 1),
        ("mid", 1),
        ("old", 2),
    ]
    assert full_text(store).search("login nothing", newest=True) == []


@pytest.mark.parametrize("many", [1, 3, 80])
def test_the_newest_are_the_same_however_they_are_looked_for(many):
    """Walking the lanes, one look at the highest ids, and sorting by time are shortcuts to one
    answer."""
    chance, store = random.Random(many), memory()
    said = []
    times = iter(range(10**9))
    logs = [Log(store, f"c{number}", clock=lambda: next(times)) for number in range(many)]
    for _ in range(400):
        log = chance.choice(logs) if chance.random() < 0.5 else logs[0]
        text = " ".join(
            chance.choices(
                ["walrus", "carpenter", "oyster", "sand", "sea"], [1, 2, 20, 50, 50], k=4
            )
        )
        log.append([Draft(body=Message(role="user", blocks=(Text(text),)), by="test")])
        said.append((text, log.conversation, log.state.head))
    for word in ("walrus", "carpenter", "oyster", "walrus carpenter"):
        for limit in (1, 10, 60):
            hits = full_text(store).search(word, newest=True, limit=limit)
            holding = [
                one[1:] for one in reversed(said) if set(word.split()) <= set(one[0].split())
            ]
            assert [(hit.conversation, hit.seq) for hit in hits] == holding[:limit]


def test_the_newest_of_very_many_conversations_are_in_order():
    store = memory()
    for number in range(80):
        talk(
            store,
            f"c{number:02}",
            ["rare walrus" if number % 40 == 7 else "common"],
            at_ms=1_600_000_000_000 + number,
        )
    hits = full_text(store).search("walrus", newest=True, limit=5)
    assert [hit.conversation for hit in hits] == ["c47", "c07"]
