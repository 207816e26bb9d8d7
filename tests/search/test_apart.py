"""Entries that are apart: nothing is lent between neighbours, and what grows is read once."""

from __future__ import annotations

import random

import numpy
import pytest

from refold.memory.semantic import SemanticMemory
from refold.search.numbers import PlainNumbers
from refold.search.numpy_numbers import NumpyNumbers
from refold.stores.memory import MemoryStore
from tests.search.talks import Topics

CHANCE = random.Random(3)
ROWS = [[CHANCE.gauss(0, 1) for _ in range(12)] for _ in range(60)]


@pytest.mark.parametrize("parts", [1, 3, 40])
def test_vectors_that_come_in_parts_are_compared_as_if_they_came_at_once(parts):
    answers = []
    for numbers in (NumpyNumbers(), PlainNumbers()):
        rows = numbers.rows(ROWS, 60)
        counts = [2 if n % 2 else 1 for n in range(40)]
        blobs, ids = numbers.blobs(rows, counts), [3 * n for n in range(40)]
        apart = numbers.apart(12)
        for part in range(parts):
            size = 40 // parts + 1
            apart.add(ids[part * size : (part + 1) * size], blobs[part * size : (part + 1) * size])
        asked = numbers.unit_sum(rows, [float(n % 3) for n in range(60)])
        answers.append(apart.nearest(asked, [0, 9, 10, 999], 5))
        assert apart.last == 117
    near, plain = answers
    assert near.cosines.keys() == plain.cosines.keys() >= {0, 9}
    assert near.cosines == pytest.approx(plain.cosines, abs=2e-3)
    assert (near.mean, near.deviation) == pytest.approx((plain.mean, plain.deviation), abs=2e-3)


@pytest.mark.parametrize("numbers", [NumpyNumbers(), PlainNumbers()])
def test_no_vectors_have_no_nearest(numbers):
    assert numbers.apart(12).nearest(numpy.zeros(12), [1, 2], 5) is None


def test_an_entry_takes_no_words_from_the_one_before_it():
    memory = SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)
    memory.store("Where did Anna put the lantern?")
    memory.store("3 years now")
    assert [one.content for one in memory.retrieve("Where did Anna put the lantern?")] == [
        "Where did Anna put the lantern?"
    ]


@pytest.fixture(params=["numpy", "plain"])
def arithmetic(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr("refold.search.vectors.numbers", PlainNumbers)


def test_what_another_memory_stores_is_found_by_its_meaning(arithmetic):
    store = MemoryStore()
    one = SemanticMemory(store, embedder=Topics(), user=MemoryStore)
    other = SemanticMemory(store, embedder=Topics(), user=MemoryStore)
    one.store("we had noodles")
    assert [hit.content for hit in one.retrieve("supper")] == ["we had noodles"]
    other.store("the engine is broken")
    assert [hit.content for hit in one.retrieve("vehicle")] == ["the engine is broken"]
    forgotten = other.store("the engine is loud")
    assert len(one.retrieve("vehicle")) == 2
    other.forget(forgotten.id)
    assert [hit.content for hit in one.retrieve("vehicle")] == ["the engine is broken"]


def test_vectors_of_another_length_are_made_again(arithmetic):
    store = MemoryStore()
    memory = SemanticMemory(store, embedder=Topics(), user=MemoryStore)
    memory.store("the engine is broken")
    assert memory.retrieve("vehicle")
    finder = memory._scopes.finder(memory._scopes.journal())
    short = Topics()
    finder._vectors._vectors.embedder = lambda texts: [[*row, 0.0] for row in short(texts)]
    finder._vectors._vectors.embedder.threshold = Topics.threshold
    assert memory.retrieve("vehicle")
    assert [name for name, _ in memory.said] == ["embedder-changed"]
