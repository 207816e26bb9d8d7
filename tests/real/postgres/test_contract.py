"""The store in PostgreSQL keeps every clause of the contract: directly, and behind pgbouncer in
transaction mode."""

from __future__ import annotations

import re

import pytest

from refold.search.searcher import Searcher
from refold.stores import Store, contract, open_store
from refold.stores.contract import random_steps
from refold.stores.postgres import schema
from refold.stores.postgres.store import PostgresStore
from tests.real.postgres.cluster import Bouncer, Server
from tests.real.postgres.conftest import fresh_org
from tests.search.talks import talk


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


# Thousands of small steps, which are no others behind a pooler.
LONG = ("a_long_line_of_forks_reads_like_one_log",)


@pytest.mark.parametrize(
    "clause", [one for one in contract.CLAUSES if contract.name(one) not in LONG], ids=contract.name
)
def test_the_store_keeps_the_contract_behind_a_pooler(
    clause: contract.Clause, bouncer: Bouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_steps, "EXAMPLES", 10)
    clause(lambda: PostgresPlace(bouncer.url))


PARTED = [*contract.logs.CLAUSES, *contract.forks_and_erasure.CLAUSES, *contract.logs.CONTENTS]


def test_tables_that_are_placed_by_org_and_conversation_keep_the_contract(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions stand for what a distributed engine does: rows are placed by the first columns of
    their keys, and every key must have them."""
    server.new_database("parted")
    monkeypatch.setattr(schema, "TABLES", parted(schema.TABLES))
    url = server.url.replace("/work", "/parted")
    for clause in PARTED:
        if contract.name(clause) not in LONG:
            clause(lambda: PostgresPlace(url))
    spread = f"SELECT count(DISTINCT tableoid) FROM {schema.NAME}.events"
    assert server.psql(spread, "parted") == "4"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_the_encoding_of_the_database_does_not_matter(encoding: str, server: Server) -> None:
    name = f"in_{encoding.lower()}"
    server.new_database(name, f"ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'")
    place = PostgresPlace(server.url.replace("/work", f"/{name}"))
    for clause in contract.logs.CLAUSES:
        clause(lambda: PostgresPlace(server.url.replace("/work", f"/{name}")))
    store = place.open()
    talk(store, "a", ["ein Walroß schläft", "海象は眠る", "el niño 🦭 duerme"])
    for query, seq in (("walroß", 1), ("海象", 2), ("眠", 2), ("nino", 3)):
        assert [hit.seq for hit in Searcher(store, embedder=False).search(query)] == [seq]
    store.close()


def parted(tables: str) -> str:
    """The same tables, each cut into four by the hash of what its rows are placed by."""
    made: list[str] = []
    for name, columns in re.findall(r"CREATE TABLE (\S+)\((.*?)\n\)", tables, re.DOTALL):
        key = "org, conversation" if "conversation text" in columns else "org, digest"
        made.append(f"CREATE TABLE {name}({columns}\n) PARTITION BY HASH ({key})")
        made += [
            f"CREATE TABLE {name}_{n} PARTITION OF {name} FOR VALUES WITH (MODULUS 4, REMAINDER {n})"
            for n in range(4)
        ]
    return ";\n".join([*made, *re.findall(r"CREATE INDEX [^;]*", tables)])
