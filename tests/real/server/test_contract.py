"""The whole contract of a store, over HTTP, answered by two processes that share a database."""

from __future__ import annotations

import pytest

from refold.stores import contract, open_store
from tests.stores.test_remote import NOT_VERIFIED

CLAUSES = [clause for clause in contract.CLAUSES if clause.__name__ != NOT_VERIFIED]


class RemotePlace:
    """An organization of its own."""

    def __init__(self, team) -> None:
        self.url = team.place()

    def open(self):
        return open_store(self.url)


@pytest.mark.parametrize("clause", CLAUSES, ids=contract.name)
def test_two_servers_keep_the_contract(clause, team):
    clause(lambda: RemotePlace(team))
