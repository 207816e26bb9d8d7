"""The random steps of the contract as hypothesis wants them. Importing this imports hypothesis.

Neighbour: `model` has the steps themselves and imports this when its clause runs.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from refold.core import codec
from refold.core.model import Meta
from refold.stores.contract.kit import Make
from refold.stores.contract.model import Pair

EXAMPLES = 40
STEPS = 30
IDS = st.sampled_from(("a", "b", "B", "c.d", "e-1"))
SEQS = st.integers(-1, 8)
TITLES = st.none() | st.text(max_size=5, alphabet=st.characters(exclude_categories=["Cs"]))
BODIES = st.lists(st.binary(max_size=3_000), max_size=4)


def run(make: Make) -> None:
    """Takes random steps on stores of this place, and compares after each."""

    class PlacedMachine(Machine):
        def __init__(self) -> None:
            super().__init__(make)

    run_state_machine_as_test(
        PlacedMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


class Machine(RuleBasedStateMachine):
    """One store and its model, moved by steps that hypothesis chooses."""

    def __init__(self, make: Make) -> None:
        super().__init__()
        self.pair = Pair(make)

    @rule(id=IDS, bodies=BODIES, behind=st.integers(0, 2))
    def append(self, id: str, bodies: list[bytes], behind: int) -> None:
        self.pair.append(id, bodies, "message", behind)

    @rule(id=IDS, titles=st.lists(TITLES, max_size=2))
    def append_meta(self, id: str, titles: list[str | None]) -> None:
        bodies = [codec.encode(Meta(title=title)) for title in titles]
        self.pair.append(id, bodies, "meta", 0)

    @rule(id=IDS, first=st.integers(0, 5), count=st.integers(1, 3))
    def repeat(self, id: str, first: int, count: int) -> None:
        self.pair.repeat(id, first, count)

    @rule(id=IDS, at=SEQS, new=IDS)
    def fork(self, id: str, at: int, new: str) -> None:
        self.pair.fork(id, at, new)

    @rule(id=IDS, seq=SEQS)
    def erase(self, id: str, seq: int) -> None:
        self.pair.erase(id, seq)

    @rule(id=IDS)
    def delete(self, id: str) -> None:
        self.pair.delete(id)

    @rule(id=IDS, mark=st.binary(max_size=50))
    def mark(self, id: str, mark: bytes) -> None:
        self.pair.mark(id, mark)

    @rule(content=st.binary(max_size=20))
    def put(self, content: bytes) -> None:
        self.pair.put(content)

    @rule()
    def reopen(self) -> None:
        self.pair.reopen()

    @invariant()
    def same(self) -> None:
        self.pair.compare()

    def teardown(self) -> None:
        self.pair.store.close()
