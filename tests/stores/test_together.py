"""Appends that share a transaction: each is what it is alone, and a failure of the whole leaves
nothing behind."""

from __future__ import annotations

import pytest

from refold.errors import Conflict, RefoldError
from refold.stores import open_orgs, open_store, together
from refold.stores.contract.kit import sealed

NOTES = [b'{"kind":"n","data":%d}' % number for number in range(6)]


def stores(tmp_path):
    return open_orgs(f"sqlite:{tmp_path}/orgs")("acme"), open_store(f"files:{tmp_path}/tree")


def test_what_is_appended_together_is_what_is_appended_alone(tmp_path):
    for store in stores(tmp_path):
        logs = {id: sealed(None, NOTES, kind="note") for id in ("a", "b")}
        for first, last in ((0, 1), (1, 3), (3, 6)):
            with together(store):
                for id, events in logs.items():
                    store.append(id, events[first:last], expect=first)
        assert {id: store.read(id) for id in logs} == logs
        store.close()


def test_an_append_that_is_refused_leaves_the_others(tmp_path):
    for store in stores(tmp_path):
        events = sealed(None, NOTES, kind="note")
        with together(store):
            store.append("a", events[:3], expect=0)
            with pytest.raises(Conflict):
                store.append("a", sealed(None, NOTES[:2], kind="note"), expect=0)
            store.append("a", events[:3], expect=0)  # sent again
            store.append("a", events[3:], expect=3)
        assert store.read("a") == events
        store.close()


@pytest.mark.parametrize("error", [OSError("pulled"), RuntimeError("ours"), Conflict("moved")])
def test_a_block_that_fails_leaves_nothing_and_the_store_goes_on(tmp_path, error):
    store, _ = stores(tmp_path)
    events = sealed(None, NOTES, kind="note")
    store.append("a", events[:2], expect=0)
    with pytest.raises((RefoldError, RuntimeError)), together(store):
        store.append("a", events[2:4], expect=2)
        store.append("b", events, expect=0)
        raise error
    assert store.conversation("a").head == 2
    assert [one.id for one in store.conversations()] == ["a"]
    store.append("a", events[2:], expect=2)
    assert store.read("a") == events
    store.close()
