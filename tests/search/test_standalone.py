"""Standalone entries: neighbours lend nothing, and a growing index is read once."""

from __future__ import annotations

import random

import numpy
import pytest

from refold.memory.semantic import SemanticMemory
from refold.search.vector_arithmetic import Numbers
from refold.stores.in_memory import MemoryStore
from tests.search.talks import Topics

CHANCE = random.Random(3)
ROWS = [[CHANCE.gauss(0, 1) for _ in range(12)] for _ in range(60)]
COUNTS = [2 if n % 2 else 1 for n in range(40)]


@pytest.mark.parametrize("parts", [1, 3, 40])
def test_vectors_that_come_in_parts_are_compared_as_if_they_came_at_once(parts):
    numbers = Numbers()
    rows = numbers.rows(ROWS, 60)
    stored = list(zip([3 * n for n in range(40)], numbers.blobs(rows, COUNTS)))
    pieces = numbers.standalone_pieces(12)
    size = 40 // parts + 1
    for part in range(parts):
        pieces.add(stored[part * size : (part + 1) * size])
    assert pieces.last_id == 117
    query = numbers.unit_sum(rows, [float(n % 3) for n in range(60)])
    near = pieces.nearest(query, [0, 9, 10, 999], 5)

    units = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
    cosines, at = {}, 0
    for (id, _), count in zip(stored, COUNTS):
        cosines[id] = max(float(row @ query) for row in units[at : at + count])
        at += count
    nearest = sorted(cosines, key=cosines.__getitem__)[-5:]
    assert near.cosines.keys() == {0, 9, *nearest}
    assert near.cosines == pytest.approx({id: cosines[id] for id in near.cosines}, abs=2e-3)
    values = list(cosines.values())
    assert near.mean == pytest.approx(numpy.mean(values), abs=2e-3)
    assert near.deviation == pytest.approx(numpy.std(values), abs=2e-3)


def test_no_vectors_have_no_nearest():
    assert Numbers().standalone_pieces(12).nearest(numpy.zeros(12), [1, 2], 5) is None


def test_an_entry_takes_no_words_from_the_one_before_it():
    memory = SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)
    memory.store("Where did Anna put the lantern?")
    memory.store("3 years now")
    assert [one.content for one in memory.retrieve("Where did Anna put the lantern?")] == [
        "Where did Anna put the lantern?"
    ]


def test_what_another_memory_stores_is_found_by_its_meaning():
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


def test_vectors_of_another_length_are_made_again(monkeypatch):
    memory = SemanticMemory(MemoryStore(), embedder=Topics(), user=MemoryStore)
    memory.store("the engine is broken")
    assert memory.retrieve("vehicle")
    monkeypatch.setattr(Topics, "WORDS", (*Topics.WORDS, ("walrus",)))
    assert memory.retrieve("vehicle")
    assert [name for name, _ in memory.said] == ["embedder-changed"]
