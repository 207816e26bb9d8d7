"""A copy of a fold goes its own way: nothing that grows is shared, also what is packed (T-20)."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core import bookmark
from refold.core.active_events import switches
from refold.core.fold import Fold, folded

GROWING = (list, dict, set, array, bytearray)


def state_of(artifacts: int) -> Fold:
    with refold.open("work", store="memory:") as context:
        context.update(system="You help.", model="gpt-4o")
        context.append({"role": "user", "content": "go"})
        for n in range(artifacts):
            context.artifacts.put(f"text {n}", name=f"{n}.txt")
        context.pin(context.view.slots[0].seq)
        log = list(context.log.events())
        return folded(log, switches(log))


@given(st.integers(0, 5))
def test_a_copy_shares_nothing_that_grows(artifacts: int) -> None:
    state = state_of(artifacts)
    twin = state.copy()
    for name, value in vars(state).items():
        if isinstance(value, GROWING):
            assert getattr(twin, name) is not value, name
            assert getattr(twin, name) == value, name
    twin.artifacts.append(99)
    assert len(state.artifacts) == artifacts


@given(st.lists(st.integers(1, 2**62), unique=True))
def test_a_bookmark_keeps_every_seq(seqs: list[int]) -> None:
    state = state_of(0)
    state.artifacts = array("q", seqs)
    mark = bookmark.read(bookmark.kept(state))
    assert mark is not None and mark.artifacts == seqs
