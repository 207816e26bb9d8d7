"""The contract that every store keeps, as a list of clauses that anybody can run against a store of
their own.

A clause is a function whose name is a sentence; it takes a `Make`, which gives a fresh place each
time, and asserts. No test framework is needed to import this. With pytest:

    @pytest.mark.parametrize("clause", contract.CLAUSES, ids=contract.name)
    def test_my_store(clause, tmp_path):
        clause(lambda: MyPlace(tmp_path / secrets.token_hex(4)))
"""

from __future__ import annotations

from refold.stores.contract import crowd, families, kit
from refold.stores.contract import logs as contents
from refold.stores.contract.kit import Clause, Make, Place

__all__ = ["CLAUSES", "Clause", "Make", "Place", "name"]

CLAUSES: list[Clause] = [
    *contents.CLAUSES,
    *families.CLAUSES,
    *contents.CONTENTS_CLAUSES,
    *crowd.CLAUSES,
    *kit.CLAUSES,
]


def name(clause: Clause) -> str:
    """The clause as a sentence."""
    return clause.__name__
