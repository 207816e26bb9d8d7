"""Memories whose vectors are kept by the real Chroma: found, kept, made again and removed, with nothing
sent anywhere."""

from __future__ import annotations

import socket
from math import cos, pi, sin
from pathlib import Path

import pytest

import refold
from refold.memory.chroma import Chroma

TURN = {"red": 0.0, "pink": 0.08, "orange": 0.2, "green": 0.66, "blue": 1.0}


class Colours:
    """An embedder that knows colours by their place on a half circle."""

    name, threshold = "colours", 0.8

    def __init__(self, size: int = 2) -> None:
        self.size = size

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        known = [TURN[word] for word in text.lower().split() if word in TURN]
        angle = pi * (known[0] if known else 0.5)
        return [cos(angle), sin(angle)] + [0.0] * (self.size - 2)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refused(self, address, *args):
        raise AssertionError(f"something connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", refused)


def opened(url: str, size: int = 2) -> refold.SemanticMemory:
    return refold.open_memory(
        store=url, embedder=Colours(size), config={"memory_vectors": "chroma"}
    )


def contents(entries) -> list[str]:
    return [entry.content for entry in entries]


@pytest.mark.parametrize("url", ["sqlite:{}/refold.db", "files:{}/tree", "memory:"])
def test_memories_are_found_by_what_chroma_has(url, tmp_path):
    with opened(url.format(tmp_path)) as memory:
        for colour in ("pink", "blue", "green"):
            memory.store(f"paint {colour}")
        assert contents(memory.retrieve("red")) == ["paint pink"]
        assert "cosine" in memory.retrieve("red")[0].why
        assert contents(memory.retrieve("paint green"))[0] == "paint green"


def test_they_are_there_after_a_restart_and_no_text_is_given_to_chroma(tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    with opened(url) as memory:
        entry = memory.store("paint pink")
        memory.store("paint blue")
        assert contents(memory.retrieve("red")) == ["paint pink"]
    with opened(url) as memory:
        assert contents(memory.retrieve("red")) == ["paint pink"]
        memory.forget(entry.id)
        assert memory.retrieve("red") == []
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert folders
    for path in Path(tmp_path).rglob("*"):
        assert not path.is_file() or b"paint pink" not in path.read_bytes(), path


def test_another_dimension_is_seen_and_all_vectors_are_made_again(tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    for size in (2, 5, 2):
        with opened(url, size) as memory:
            memory.store("paint pink")
            assert contents(memory.retrieve("red")) == ["paint pink"]
            memory.reindex()
            assert contents(memory.retrieve("red")) == ["paint pink"]


def test_many_vectors_go_in_batches_and_groups_lie_apart(tmp_path):
    chroma = Chroma(str(tmp_path / "vectors"))
    chroma.add(1, {str(n): [cos(n), sin(n)] for n in range(3_000)})
    chroma.add(2, {"x": [1.0, 0.0]})
    assert [id for id, _ in chroma.nearest(2, [1.0, 0.0], 5)] == ["x"]
    [(first, cosine), *_] = chroma.nearest(1, [1.0, 0.0], 5)
    assert first == "0" and cosine == pytest.approx(1.0, abs=1e-3)
    chroma.remove(1, ["0", "unknown"])
    assert "0" not in [id for id, _ in chroma.nearest(1, [1.0, 0.0], 5)]
    chroma.clear()
    assert list(chroma.nearest(1, [1.0, 0.0], 5)) == []
    chroma.close()


def test_the_settings_block_of_the_design_works_as_it_is(tmp_path):
    block = {
        "semantic_memory": {
            "enabled": True,
            "embedding_model": "text-embedding-ada-002",
            "vector_store": "chroma",
            "similarity_threshold": 0.7,
        }
    }
    with refold.open(
        "talk",
        store=f"sqlite:{tmp_path}/refold.db",
        embedder=Colours(),
        config={"context_management": block},
    ) as context:
        context.memory.store("paint pink")
        context.append({"role": "user", "content": "which red do we have?"})
        assert "paint pink" in str(context.request())
