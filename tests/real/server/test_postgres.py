"""The team server in front of PostgreSQL: what it keeps, finds and tells is what a store promises,
and killed servers lose nothing."""

from __future__ import annotations

import json
import os
import signal
import time

import httpx
import pytest

import refold
from refold.settings import logins
from refold.stores import contract, open_store
from refold.stores.contract.kit import sealed
from tests.real.postgres.cluster import Server, own_folder
from tests.real.server.process import running
from tests.real.server.test_kills import Writer, check_all_there, wait_for_more
from tests.stores.test_remote import NOT_VERIFIED
from tests.waiting import until

LOGS = [clause for clause in contract.logs.CLAUSES if clause.__name__ != NOT_VERIFIED]


@pytest.fixture(scope="module")
def database():
    with own_folder() as folder:
        server = Server.made(folder)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def on_postgres(database, tmp_path_factory):
    with running(tmp_path_factory.mktemp("team"), store=database.url) as team:
        yield team


class Place:
    def __init__(self, team) -> None:
        self.url = team.place()

    def open(self):
        return open_store(self.url)


@pytest.mark.parametrize("clause", LOGS, ids=contract.name)
def test_logs_on_postgres_behind_a_server_keep_the_contract(clause, on_postgres):
    clause(lambda: Place(on_postgres))


def test_search_works_through_the_server_and_finds_nothing_of_others(on_postgres):
    place = on_postgres.place("finding")
    with refold.open("c", store=place, window=8_000) as context:
        context.append({"role": "user", "content": "The deploy fails with exit code 137"})
    secret = logins.token_for(place, os.environ)
    assert secret
    path = "orgs/finding/context/search"
    hits = on_postgres.get(path, secret, params={"q": "exit code"}).json()["hits"]
    assert [hit["conversation"] for hit in hits] == ["c"]
    other = on_postgres.place("other")
    foreign = logins.token_for(other, os.environ)
    assert foreign
    path = "orgs/other/context/search"
    answer = on_postgres.get(path, foreign, params={"q": "exit code"})
    assert answer.json()["hits"] == []


def test_the_feed_hears_of_what_another_server_wrote(on_postgres):
    place = on_postgres.place("feed")
    secret = logins.token_for(place, os.environ)
    assert secret
    path = "orgs/feed/context/feed"
    cursor = on_postgres.get(path, secret, params={"wait": 0}).json()["cursor"]
    open_store(place).append("c", sealed(None, [b"{}"], kind="note"), expect=0)
    began = time.monotonic()
    answer = on_postgres.get(path, secret, params={"after": cursor, "wait": 25}).json()
    assert answer["rescan"] or answer["changes"]
    assert time.monotonic() - began < 20.0, "it was told, and not only waited for"


def test_killed_servers_on_postgres_lose_and_double_nothing(database, tmp_path):
    with running(tmp_path, store=database.url) as team:
        place = team.place()
        writers = [Writer(place, number) for number in range(6)]
        for writer in writers:
            writer.start()
        for _ in range(2):
            wait_for_more(writers, 20)
            team.kill()
            team.start()
        wait_for_more(writers, 20)
        for writer in writers:
            writer.end()
        assert check_all_there(place, writers) > 50


def test_a_database_that_is_stopped_is_told_soon_and_the_log_says_why(tmp_path):
    with own_folder() as folder:
        database = Server.made(folder)
        with running(tmp_path, store=database.url, workers=1) as team:
            _, secret = team.token("acme")
            database.stop()
            # Calls share a probe for a moment, so the first may still get the one before the stop.
            until(lambda: httpx.get(f"{team.url}/ready", timeout=10).status_code == 503, 4.0)
            for _ in range(3):
                answer = httpx.get(f"{team.url}/ready", timeout=10)
                assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
                assert answer.elapsed.total_seconds() < 4.0
            time.sleep(6.0)
            answer = team.get("orgs/acme/context/conversations", secret, timeout=10)
            assert answer.status_code == 503 and answer.elapsed.total_seconds() < 3.0
            lines = map(json.loads, (tmp_path / "log").read_text().splitlines()[1:])
            reasons = [one["reason"] for one in lines if one["event"] == "store"]
            assert any("refused" in one and "127.0.0.1" in one for one in reasons), reasons
            database.start()
            team.wait()
            assert team.get("orgs/acme/context/conversations", secret).status_code == 200
        database.stop()


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_killed_while_the_database_is_away_come_back(tmp_path, workers):
    with own_folder() as folder:
        database = Server.made(folder)
        with running(tmp_path, store=database.url, workers=2) as team:
            _, secret = team.token("acme")
            team.wait_for("acme", secret)
            database.stop()
            killed = {*team.workers()[:workers]}
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            until(lambda: len({*team.workers()} - killed) == 2)
            for _ in range(6):
                answer = team.get("orgs/acme/context/conversations", secret)
                assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
                assert httpx.get(f"{team.url}/ready", timeout=10).status_code == 503
                assert httpx.get(f"{team.url}/health", timeout=10).status_code == 200
            assert team.process.poll() is None
            database.start()
            team.wait()
            team.wait_for("acme", secret)
        assert team.process.poll() == 0, "it was asked to stop"
        database.stop()


def test_a_database_that_refuses_writes_is_not_ready(database, tmp_path):
    def set_read_only(value: str) -> None:
        database.psql(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        database.psql("SELECT pg_reload_conf()")

    with running(tmp_path, store=database.url, workers=1) as team:
        set_read_only("on")
        try:
            until(lambda: not team.is_ready())
            answer = httpx.get(f"{team.url}/ready", timeout=10)
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
        finally:
            set_read_only("off")
        team.wait()
