"""The second wall: row-level security keeps a connection to the rows of its org, whatever is
asked; and orgs that share connections never see each other through them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.search.searcher import Searcher
from refold.stores import open_orgs, open_store, passes_walls
from refold.stores.contract.kit import grown, sealed
from refold.stores.postgres import schema, statements
from refold.stores.postgres.store import PostgresStore
from tests.real.postgres.cluster import Bouncer, Server
from tests.real.postgres.conftest import fresh_org
from tests.real.postgres.test_store import new_database
from tests.search.talks import talk

TABLES = re.findall(rf"CREATE TABLE {schema.NAME}\.(\w+)", schema.TABLES)


@pytest.fixture(params=["direct", "behind a pooler"])
def opened(request, server: Server, bouncer: Bouncer) -> Iterator[Callable[[str], PostgresStore]]:
    """Opens orgs that share two connections."""
    url = (server if request.param == "direct" else bouncer).url
    yield open_orgs(f"{url}?connections_max=2")


def filled(store: PostgresStore) -> PostgresStore:
    """A store with a row in every table."""
    talk(store, "talk", ["the walrus sleeps", "a seal wakes"])
    Searcher(store, embedder=False).search("walrus")
    author = {"org": store.org, "conversation": "talk", "author": b"ann", "entries": 1}
    store.connections.run(lambda link: link.ask(statements.COUNT_AUTHOR, author))
    events = grown(store, "log", 3)
    store.fork("log", 2, "fork")
    store.put([store.org.encode()])
    store.rewrite("log", events[:2], after=0, seen=store.salvage("log"))
    store.keep_bookmark("log", b"mark")
    return store


def count(store: PostgresStore, table: str) -> int:
    """As many rows as the database shows to a statement that names no org."""
    asked = f"SELECT count(*) FROM {schema.NAME}.{table}"
    return int(store.connections.run(lambda link: link.execute(asked).fetchone()[0]))


def test_a_statement_that_forgot_its_org_sees_the_rows_of_its_own(opened, server: Server) -> None:
    here, there = filled(opened(fresh_org())), filled(opened(fresh_org()))
    for table in TABLES:
        for store in (here, there, here):
            own = f"SELECT count(*) FROM {schema.NAME}.{table} WHERE org = '{store.org}'"
            kept = int(server.psql(own))
            assert kept, f"{table} has no row: the test would show nothing"
            if table not in schema._SEEN_BY_ALL:
                assert count(store, table) == kept
    for store in (here, there):
        store.close()


def test_a_statement_about_another_org_changes_nothing(opened, server: Server) -> None:
    here, there = filled(opened(fresh_org())), filled(opened(fresh_org()))
    for table in TABLES:
        own = f"SELECT count(*) FROM {schema.NAME}.{table} WHERE org = '{here.org}'"
        before = server.psql(own)
        gone = f"DELETE FROM {schema.NAME}.{table}"
        there.connections.run(lambda link, gone=gone: link.execute(gone))
        assert server.psql(own) == before
        moved = f"UPDATE {schema.NAME}.{table} SET org = %(org)s"
        values = {"org": there.org}
        assert here.connections.run(
            lambda link, moved=moved, values=values: _refused(link, moved, values)
        ) in ("refused", 0)
        assert server.psql(own) == before
    for store in (here, there):
        store.close()


def _refused(link, statement: str, values: dict[str, str]) -> str | int:
    try:
        with link.transaction():
            return int(link.execute(statement, values).rowcount)
    except psycopg.errors.InsufficientPrivilege:
        return "refused"


def test_whoever_says_no_org_sees_nothing(server: Server) -> None:
    filled(open_store(f"{server.url}?org={fresh_org()}")).close()
    with psycopg.connect(server.url) as plain:
        for table in set(TABLES) - set(schema._SEEN_BY_ALL):
            assert plain.execute(f"SELECT count(*) FROM {schema.NAME}.{table}").fetchone() == (0,)


ORGS = ["a", "b", "c", "d"]


@given(turns=st.lists(st.sampled_from(ORGS), min_size=1, max_size=30))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_orgs_that_take_turns_on_few_connections_keep_their_own(opened, turns: list[str]) -> None:
    prefix = fresh_org()
    stores = {org: opened(f"{prefix}-{org}") for org in ORGS}
    expected: dict[str, list[bytes]] = {org: [] for org in ORGS}
    logs: dict[str, list] = {org: [] for org in ORGS}
    for number, org in enumerate(turns):
        body = f"{org}-{number}".encode()
        last = logs[org][-1] if logs[org] else None
        events = sealed(last, [body])
        stores[org].append("log", events, expect=len(logs[org]))
        logs[org] += events
        expected[org].append(body)
        for other in set(turns[: number + 1]):
            assert [event.body for event in stores[other].read("log")] == expected[other]
    for store in stores.values():
        store.close()


def test_all_orgs_together_take_no_more_connections_than_the_place_allows(server: Server) -> None:
    name = new_database(server)
    opener = open_orgs(f"{name}?connections_max=9", processes=3)
    stores = [opener(f"org-{number}") for number in range(12)]
    threads = [threading.Thread(target=grown, args=(store, "log", 10)) for store in stores]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads):
        database = name.rpartition("/")[2]
        seen.append(int(server.psql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'")))  # fmt: skip
    assert all(store.conversation("log").head == 10 for store in stores)
    assert max(seen) <= 3
    for number, store in enumerate(stores):
        store.close()
        if number < len(stores) - 1:
            assert stores[-1].conversation("log").head == 10


def test_a_search_still_uses_its_index(server: Server) -> None:
    store = open_store(f"{server.url}?org={fresh_org()}")
    talk(store, "talk", [f"number {n} of the walrus" for n in range(300)])
    Searcher(store, embedder=False).search("walrus")
    values = dict.fromkeys(re.findall(r"%\((\w+)\)s", statements.POSTINGS))
    values |= {"org": store.org, "sought": "'walrus'", "counted": ["'walrus'"], "lanes": [0, 1]}
    values |= {"without_own": False, "most": 10}

    def explained(link) -> str:
        link.execute("SET LOCAL enable_seqscan = off")
        rows = link.execute(f"EXPLAIN {statements.POSTINGS}", values)
        return "\n".join(row[0] for row in rows)

    assert "search_terms" in store.connections.run(explained)
    store.close()


def test_a_database_of_the_first_version_gets_its_wall(server: Server) -> None:
    url = new_database(server)
    with psycopg.connect(url) as plain:
        plain.execute("CREATE SCHEMA refold_1")
        plain.execute(schema.TABLES.replace(schema.NAME, "refold_1"))
    here, there = (filled(open_store(f"{url}?org={name}")) for name in ("one", "two"))
    assert count(here, "conversations") == count(there, "conversations") == 3
    for store in (here, there):
        store.close()


def test_a_role_that_passes_the_wall_is_known(server: Server) -> None:
    for url, passes in ((server.url, False), (server.admin_url, True)):
        store = open_store(f"{url}?org={fresh_org()}")
        grown(store, "log", 1)
        assert passes_walls(store) is passes
        store.close()
    assert not passes_walls(open_store("memory:"))
