"""Vectors of memories in somebody else's store: found, ranked, made again and removed like our
own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import ClassVar

import pytest

import refold
from refold import register
from refold.memory import vector_stores
from refold.memory.semantic import SemanticMemory
from refold.stores import open_store


class Shelf:
    """A vector store in a dictionary, which remembers what it was asked."""

    opened: ClassVar[list[Shelf]] = []

    def __init__(self, folder: str = "") -> None:
        self.folder, self.cleared, self.closed = folder, 0, False
        self.vectors: dict[int, dict[str, list[float]]] = {}
        Shelf.opened.append(self)

    def add(self, group: int, vectors: Mapping[str, Sequence[float]]) -> None:
        self.vectors.setdefault(group, {}).update({id: list(v) for id, v in vectors.items()})

    def nearest(
        self, group: int, vector: Sequence[float], limit: int
    ) -> Iterable[tuple[str, float]]:
        def cosine(other: Sequence[float]) -> float:
            size = sqrt(sum(x * x for x in vector)) * sqrt(sum(x * x for x in other))
            return float(sum(x * y for x, y in zip(vector, other))) / size

        rows = [(id, cosine(v)) for id, v in self.vectors.get(group, {}).items()]
        return sorted(rows, key=lambda row: row[1], reverse=True)[:limit]

    def remove(self, group: int, ids: Sequence[str]) -> None:
        for id in ids:
            self.vectors.get(group, {}).pop(id, None)

    def clear(self) -> None:
        self.cleared += 1
        self.vectors.clear()

    def close(self) -> None:
        self.closed = True


class Angles:
    """An embedder that gives each text the cosine to the query that it is told."""

    name = "angles"
    threshold = 0.7

    def __init__(self, size: int = 2) -> None:
        self.size, self.made = size, 0

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.made += len(texts)
        cosines = [{"first": 0.9, "second": 0.75, "third": 0.2}.get(text, 1.0) for text in texts]
        return [[one, sqrt(1 - one * one)] + [0.0] * (self.size - 2) for one in cosines]


@pytest.fixture
def shelf(monkeypatch):
    monkeypatch.setattr(Shelf, "opened", [])
    monkeypatch.setattr(vector_stores, "_REGISTERED", {})
    register.vector_store("shelf", Shelf)
    return Shelf.opened


def memory_on(url: str, embedder=None, **given) -> SemanticMemory:
    return SemanticMemory(
        open_store(url), embedder=embedder or Angles(), vectors="shelf", owns_store=True, **given
    )


def contents(entries) -> list[str]:
    return [entry.content for entry in entries]


def test_what_is_near_is_found_by_the_store(shelf, tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    with memory_on(url) as memory:
        for text in ("first", "second", "third"):
            memory.store(text)
        assert contents(memory.retrieve("anything at all")) == ["first", "second"]
        assert contents(memory.retrieve("anything at all", 1)) == ["first"]
        assert contents(memory.retrieve("third thing"))[0] in ("first", "third")
        assert "cosine 0.90" in memory.retrieve("anything at all")[0].why
        memory.store("fourth", scope="agent.x")
        assert contents(memory.retrieve("anything at all", scope="agent.x")) == ["fourth"]
    assert len(shelf) == 1 and shelf[0].closed
    assert shelf[0].folder.startswith(str(tmp_path)) and "memory.shelf" in shelf[0].folder
    assert "first" not in str(shelf[0].vectors)


def test_vectors_are_made_once_and_again_for_another_embedder(shelf, tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    for embedder, cleared in ((Angles(), 1), (Angles(size=5), 1)):
        with memory_on(url, embedder) as memory:
            memory.store(f"first {embedder.size}")
            memory.retrieve("anything at all")
            made = embedder.made
            memory.retrieve("anything at all")
            assert embedder.made - made <= 1
        assert shelf[-1].cleared == cleared
    with SemanticMemory(open_store(url), embedder=Angles(size=5)) as own:
        own.retrieve("anything at all")
        assert "embedder-changed" in [name for name, _ in own.said]


def test_what_is_forgotten_leaves_the_store(shelf, tmp_path):
    with memory_on(f"sqlite:{tmp_path}/refold.db") as memory:
        entry = memory.store("first")
        memory.store("second")
        memory.retrieve("anything at all")
        [group] = shelf[0].vectors
        assert len(shelf[0].vectors[group]) == 2
        memory.forget(entry.id)
        assert len(shelf[0].vectors[group]) == 1
        assert contents(memory.retrieve("anything at all")) == ["second"]


def test_a_store_that_fails_leaves_the_words(shelf, tmp_path, monkeypatch):
    def broken(self, group, vector, limit):
        raise KeyError("gone")

    monkeypatch.setattr(Shelf, "nearest", broken)
    with memory_on(f"sqlite:{tmp_path}/refold.db") as memory:
        memory.store("The cat sleeps on the printer")
        assert contents(memory.retrieve("printer")) == ["The cat sleeps on the printer"]
        assert any("shelf failed" in reason for _, reason in memory.said)


def test_names_that_are_not_known_are_refused(shelf):
    for wrong in ("", "chroma", " "):
        with pytest.raises(refold.Invalid):
            register.vector_store(wrong, Shelf)
    with pytest.raises(refold.Invalid):
        register.vector_store("mine", 3)
    with pytest.raises(refold.Invalid, match="pinecone"):
        refold.open_memory(store="memory:", config={"memory_vectors": "pinecone"})
    with pytest.raises(refold.Invalid, match="word2vec"):
        refold.open_memory(store="memory:", config={"memory_embedder": "word2vec"})


def test_without_an_embedder_there_is_nothing_to_keep(shelf):
    with refold.open_memory(
        store="memory:", config={"memory_vectors": "shelf"}, embedder=False
    ) as memory:
        memory.store("first")
        with pytest.raises(refold.Unavailable, match="no embedder is configured") as raised:
            memory.retrieve("first")
        assert "refold[semantic]" in raised.value.hint


def test_without_its_package_chroma_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "chromadb" else found(name)
    )
    with refold.open(
        "talk", store="memory:", embedder=Angles(), config={"memory_vectors": "chroma"}
    ) as context:
        context.memory.store("first")
        with pytest.raises(refold.Unavailable) as raised:
            context.memory.retrieve("anything")
        assert "refold[chroma]" in raised.value.hint
        heard = []
        context.on("memory-failed", heard.append)
        context.append({"role": "user", "content": "hello, what was first?"})
        assert "hello" in str(context.request()) and "chroma" in heard[0].reason
        for n in range(3):
            context.append({"role": "user", "content": f"and what was number {n}?"})
            context.request()
        assert len(heard) == 1  # the same failure at every request


def test_a_setting_names_the_least_score(shelf):
    with refold.open_memory(
        store="memory:", config={"memory_threshold": 0.8}, embedder=Angles()
    ) as memory:
        for text in ("first", "second"):
            memory.store(text)
        assert contents(memory.retrieve("anything at all")) == ["first"]
        assert len(memory.retrieve("anything at all", threshold=0.7)) == 2
