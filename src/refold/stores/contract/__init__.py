"""The contract that every store keeps, as a list of clauses that anybody can run against a store of
their own.

A clause is a function whose name is a sentence; it takes a `Make`, which gives a fresh place each
time, and asserts. No test framework is needed to import this. With pytest:

    @pytest.mark.parametrize("clause", contract.CLAUSES, ids=contract.name)
    def test_my_store(clause, tmp_path):
        clause(lambda: MyPlace(tmp_path / secrets.token_hex(4)))
"""

from __future__ import annotations

from refold.stores.contract import concurrency, forks_and_erasure, logs
from refold.stores.contract.kit import Clause, Make, Place

__all__ = ["CLAUSES", "Clause", "Make", "Place", "name"]


def random_steps_leave_what_a_plain_dictionary_would_hold(make: Make) -> None:
    from refold.stores.contract import random_steps

    random_steps.run(make)


CLAUSES: list[Clause] = [
    *logs.CLAUSES,
    *forks_and_erasure.CLAUSES,
    *logs.CONTENTS,
    *concurrency.CLAUSES,
    random_steps_leave_what_a_plain_dictionary_would_hold,
]


def name(clause: Clause) -> str:
    """The clause as a sentence."""
    return clause.__name__
