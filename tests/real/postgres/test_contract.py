"""The store in PostgreSQL keeps every clause of the contract: directly, and behind pgbouncer in
transaction mode."""

from __future__ import annotations

import pytest

from refold.stores import Store, contract, open_store
from refold.stores.postgres.store import PostgresStore
from tests.real.postgres.cluster import Bouncer, Server
from tests.real.postgres.conftest import fresh_org


class PostgresPlace:
    """An org of its own."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}?org={fresh_org()}"

    def open(self) -> Store:
        store = open_store(self.url)
        assert isinstance(store, PostgresStore)
        return store


@pytest.mark.parametrize("clause", contract.CLAUSES, ids=contract.name)
def test_the_store_keeps_the_contract(clause: contract.Clause, server: Server) -> None:
    clause(lambda: PostgresPlace(server.url))


@pytest.mark.parametrize("clause", contract.CLAUSES, ids=contract.name)
def test_the_store_keeps_the_contract_behind_a_pooler(
    clause: contract.Clause, bouncer: Bouncer
) -> None:
    clause(lambda: PostgresPlace(bouncer.url))
