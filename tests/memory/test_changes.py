"""Every change of a memory is listed and can be taken back, and what is forgotten stays gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Revert
from refold.memory.journal import switched_off
from refold.memory.semantic import SemanticMemory
from refold.stores import open_store
from refold.stores.in_memory import MemoryStore


@pytest.fixture
def memory() -> SemanticMemory:
    return SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)


def said(memory: SemanticMemory) -> set[str]:
    return {entry.content for entry in memory.list()}


def test_the_log_has_every_change_the_newest_first(memory):
    entry = memory.store("The port is 1")
    memory.update(entry.id, "The port is 2")
    other = memory.store("Anna leads the team", trust="import")
    memory.reject(other.id)
    whats = [(one.seq, one.what) for one in memory.log()]
    assert whats == [(4, "rejected"), (3, "stored"), (2, "changed"), (1, "stored")]
    assert [one.seq for one in memory.log(limit=2)] == [4, 3]
    assert memory.log("agent.nobody") == []


def test_a_store_that_is_taken_back_was_never_said(memory):
    memory.store("The port is 1")
    memory.store("The port is 2")
    change = memory.revert(2)
    assert (change.content, change.what) == ("The port is 2", "stored")
    assert said(memory) == {"The port is 1"} and memory.retrieve("port")[0].is_current
    assert memory.log()[1].is_off
    memory.revert(3)
    assert said(memory) == {"The port is 2"}


def test_an_update_that_is_taken_back_leaves_what_was_said_before(memory):
    entry = memory.store("Tea at noon")
    memory.update(entry.id, "Tea at one")
    memory.revert(2)
    assert said(memory) == {"Tea at noon"}
    assert memory.update(entry.id, "Tea at two").content == "Tea at two"


def test_what_was_accepted_waits_again(memory):
    entry = memory.store("Deploy on Fridays", trust="tool")
    memory.accept(entry.id)
    assert memory.inbox() == []
    memory.revert(2)
    assert [one.id for one in memory.inbox()] == [entry.id]


@pytest.mark.parametrize("seq", [0, -1, 2, 10**9])
def test_a_change_that_is_not_there_is_not_found(memory, seq):
    memory.store("The port is 1")
    with pytest.raises(refold.NotFound, match=r"no change .* memory of the project"):
        memory.revert(seq)


def test_what_was_forgotten_or_taken_back_cannot_be_taken_back(memory):
    entry = memory.store("The port is 1")
    memory.store("Anna leads the team")
    memory.revert(2)
    with pytest.raises(refold.Conflict):
        memory.revert(2)
    memory.forget(entry.id)
    for change in memory.log():
        if change.what in ("forgotten", "erased"):
            with pytest.raises(refold.Invalid, match="cannot be undone"):
                memory.revert(change.seq)


@pytest.mark.parametrize("name", ["sqlite:{}/refold.db", "files:{}/tree"])
def test_forgetting_erases_what_was_taken_back_as_well(tmp_path, name):
    """G-50."""
    store = open_store(name.format(tmp_path))
    with SemanticMemory(store, embedder=False, owns_store=True, user=MemoryStore) as memory:
        entry = memory.store("The colour is Zinnober")
        memory.update(entry.id, "The colour is Quarzgrau")
        alone = memory.store("Whispered: Ultramarin")
        memory.revert(2)
        memory.revert(3)
        memory.forget(entry.id)
        memory.forget(alone.id)
    held = b"".join(path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file())
    for word in (b"Zinnober", b"Quarzgrau", b"Ultramarin"):
        assert word not in held


def test_another_memory_sees_what_was_taken_back():
    store = MemoryStore()
    one = SemanticMemory(store, embedder=False, user=MemoryStore)
    other = SemanticMemory(store, embedder=False, user=MemoryStore)
    one.store("The port is 1")
    assert said(other) == {"The port is 1"}
    one.revert(1)
    assert said(other) == set() and other.retrieve("port") == []


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), max_size=12))
def test_a_memory_that_is_opened_again_says_the_same(targets):
    store = MemoryStore()
    memory = SemanticMemory(store, embedder=False, user=MemoryStore)
    for number in range(4):
        memory.store(f"The port of host {number % 2} is {number}")
    for target in targets:
        head = memory.log()[0].seq
        seq = 1 + target % head
        if not next(one for one in memory.log() if one.seq == seq).is_off:
            memory.revert(seq)
    again = SemanticMemory(store, embedder=False, user=MemoryStore)
    assert memory.list(ended=True) == again.list(ended=True)
    assert memory.log() == again.log()


def test_a_revert_of_a_revert_does_nothing_to_the_first():
    reverts = [(5, Revert(seq=1)), (6, Revert(seq=5)), (7, Revert(seq=6))]
    assert switched_off(reverts[:1]) == {1}
    assert switched_off(reverts[:2]) == {5}
    assert switched_off(reverts) == {1, 6}


@given(st.integers(1, 4), st.integers(0, 3), st.integers(1, 60), st.booleans())
def test_what_was_forgotten_is_one_change_for_an_entry(gone, updates, limit, source):
    memory = SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)
    memory.store("The port is 1")
    ids = [
        memory.store(f"Person{n} has a key", tags=["x"], source=("talk", n + 1)).id
        for n in range(gone)
    ]
    for update in range(updates):
        memory.update(ids[0], f"Person0 has key {update}")
    memory.forget(tag="x", source=source)
    log = memory.log(limit=1_000)
    assert sorted(one.entry for one in log if one.what == "forgotten") == sorted(ids)
    assert [one.what for one in log if one.what != "forgotten"] == ["erased"] * (gone + updates) + [
        "stored"
    ]
    assert memory.log(limit=limit) == log[:limit]
