"""1,029 hostile inputs at every door: no exception but refold's own, no hang, no loss. `make soak`
tries many more, with other seeds."""

from __future__ import annotations

import random

import pytest
from bench.hostile import INPUTS, cases, run, run_all
from bench.hostile_doors import DOORS
from bench.hostile_values import KINDS, TEXTS


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a hostile input made known by name is forgotten after it."""
    from refold.artifacts import stub
    from refold.strategies import registry
    from refold.tokens import counter, models

    for place in (registry, stub, counter, models):
        monkeypatch.setattr(place, "_registered", dict(place._registered))


def findings(count: int, seed: int) -> list[str]:
    found = [outcome.finding for _, outcome in run_all(count, seed) if outcome.finding]
    return [f"{one.what}: {one.case}: {one.details}" for one in found]


def test_hostile_inputs_raise_nothing_else_hang_nothing_and_lose_nothing():
    assert findings(INPUTS, seed=0) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
def test_other_hostile_inputs_do_not_either(seed):
    assert findings(3 * INPUTS, seed) == []


def test_every_door_and_every_kind_of_value_is_tried():
    tried = list(cases())
    assert len(tried) == INPUTS
    assert {case.door for case in tried} == {*DOORS}
    assert {case.kind for case in tried} == {*KINDS}
    assert [*cases(50)] == tried[:50]


def test_a_fault_is_found(monkeypatch):
    """A door that raises something else, or a value that is lost, is counted."""

    def broken(context, folder, value, chance: random.Random) -> object:
        if value in TEXTS.values():
            raise KeyError("x")
        context._open.append = lambda drafts: []
        return None

    monkeypatch.setattr("bench.hostile.DOORS", {"broken": broken})
    [table] = run(60)
    assert [row[-1] for row in table.rows] == ["NO", "yes", "NO"]
