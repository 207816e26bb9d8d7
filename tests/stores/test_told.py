"""A store that tells how far it was read gives what the store behind it gives, and only that."""

from __future__ import annotations

import pytest

import refold
from refold.errors import Denied
from refold.stores import is_read_only, open_store, with_progress


def test_every_event_counts_once_however_often_it_is_read() -> None:
    store = open_store("memory:")
    for id in ("a", "b"):
        context = refold.Context(store, id)
        for number in range(5):
            context.append({"role": "user", "content": f"{number}"})
    heads = {id: store.conversation(id).head for id in ("a", "b")}
    told: list[tuple[str, int]] = []
    watched = with_progress(store, lambda id, done: told.append((id, done)))
    assert watched.read("a", limit=2) == store.read("a", limit=2)
    watched.read("a", after=1, limit=3)
    watched.read("a", limit=100)
    watched.read("a", limit=100)
    assert told[-1] == ("a", heads["a"])
    watched.read("b")
    assert told[-1] == ("b", sum(heads.values()))
    assert [done for _, done in told] == sorted({done for _, done in told})
    assert is_read_only(watched)
    with pytest.raises(Denied):
        watched.delete("a")
