"""An embedder over HTTP: what is sent, what comes back, and what is refused."""

from __future__ import annotations

import pytest

from refold.edges.endpoints.embedder import endpoint
from refold.errors import Denied, Invalid, Unavailable
from refold.search.searcher import Searcher
from tests.search.talks import memory, talk
from tests.servers import Play, serving


def answer(*vectors: list[float]) -> dict:
    rows = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "data": rows[::-1]}


def test_texts_go_out_and_vectors_come_back_in_order():
    with serving(Play(answer([1.0, 0.0], [0.0, 1.0]))) as server:
        assert endpoint(server.url, "small")(["a", ""]) == [[1.0, 0.0], [0.0, 1.0]]
        path, _, body = server.seen[0]
        assert path == "/embeddings" and body["model"] == "small" and body["input"] == ["a", " "]


@pytest.mark.parametrize(
    "body", [{}, {"data": []}, {"data": [1]}, {"data": [{"embedding": "x"}]}, b"<html>", [1]]
)
def test_an_answer_without_vectors_is_unavailable(body):
    with serving(Play(body)) as server, pytest.raises(Unavailable):
        endpoint(server.url, "small", tries=1)(["a"])


def test_a_refusal_leaves_the_full_text(monkeypatch):
    store = memory()
    talk(store, "a", ["the engine is broken"])
    with serving(Play({"error": "no"}, 401)) as server:
        searcher = Searcher(store, embedder=endpoint(server.url, "small", tries=1))
        assert searcher.search("engine")[0].seq == 1
    assert searcher.said[0][0] == "embedder-failed"


def test_keys_come_from_the_environment_and_are_not_sent_in_the_clear(monkeypatch):
    monkeypatch.delenv("EMBEDDING_KEY", raising=False)
    with pytest.raises(Denied):
        endpoint("https://example.invalid/v1", "small", key_env="EMBEDDING_KEY")(["a"])
    monkeypatch.setenv("EMBEDDING_KEY", "secret-value")
    with pytest.raises(Denied):
        endpoint("http://example.invalid/v1", "small", key_env="EMBEDDING_KEY")(["a"])
    assert "secret" not in repr(
        endpoint("http://example.invalid/v1", "small", key_env="EMBEDDING_KEY")
    )


def test_what_is_no_address_is_refused():
    for url in ("ftp://x", "x", "http://user:pass@x/v1"):
        with pytest.raises(Invalid):
            endpoint(url, "small")
