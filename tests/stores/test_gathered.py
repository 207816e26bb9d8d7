"""Events that go to a store in batches: read as if they were there, written once, never mixed with
those of others."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.model import Event
from refold.errors import Conflict
from refold.stores import gathering, open_store
from refold.stores.contract.kit import sealed
from refold.stores.gathered import BATCH_EVENTS, GatheredStore
from refold.stores.protocol import Overtaken

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "read", "write"]), st.sampled_from("ab"),
              st.integers(0, 12), st.integers(0, 12)),
    max_size=30,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_what_waits_is_read_as_if_it_were_there(steps: list[tuple[str, str, int, int]]) -> None:
    plain, behind = open_store("memory:"), open_store("memory:")
    gathered = GatheredStore(behind)
    logs: dict[str, list[Event]] = {"a": [], "b": []}
    for step, name, first, second in steps:
        log = logs[name]
        if step == "append":
            events = sealed(log[-1] if log else None, [b"{}"] * (1 + first % 3))
            for store in (plain, gathered):
                store.append(name, events, expect=len(log))
            log += events
        elif step == "write":
            gathered.write()
        elif log:
            wanted = plain.read(name, after=first, last=second, limit=3)
            assert gathered.read(name, after=first, last=second, limit=3) == wanted
    gathered.flush()
    for name, log in logs.items():
        assert (behind.read(name) if log else []) == log


def test_a_batch_is_written_when_it_is_full_and_at_the_end() -> None:
    behind = open_store("memory:")
    events = sealed(None, [b"{}"] * (BATCH_EVENTS + 2))
    with gathering(behind) as store:
        for event in events:
            store.append("a", [event], expect=event.seq - 1)
        assert behind.conversation("a").head == BATCH_EVENTS
    assert behind.read("a") == events


def test_an_append_elsewhere_than_at_the_head_is_a_conflict() -> None:
    store = GatheredStore(open_store("memory:"))
    with pytest.raises(Conflict):
        store.append("a", sealed(None, [b"{}"] * 2)[1:], expect=1)


def test_who_was_overtaken_is_told_and_writes_none_of_it() -> None:
    behind = open_store("memory:")
    store = GatheredStore(behind)
    store.append("a", sealed(None, [b"{}"]), expect=0)
    theirs = sealed(None, [b"{}"])
    behind.append("a", theirs, expect=0)
    with pytest.raises(Overtaken):
        store.write()
    with suppress(Overtaken):
        store.flush()
    assert behind.read("a") == theirs
