"""The change feed of several servers on one PostgreSQL: each worker hears of what the others wrote
on one connection of its own; without it, it looks; and it comes back."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from refold.edges.server import change_feed
from refold.settings import logins
from refold.stores import open_store
from refold.stores.contract.kit import sealed
from refold.stores.postgres.notifications import NAME
from tests.edges.cli.rooms import run
from tests.real.postgres.cluster import Bouncer, Server
from tests.real.postgres.cluster import running as running_database
from tests.real.server.process import Team, running

WAIT_S = 120.0
WORKERS = 2
LISTENING = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}'"
END_ALL = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{NAME}'"
NOTE = b'{"kind":"n","data":1}'


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with running_database({"fsync": "off"}) as server:
        yield server


def latencies_s(writing: Team, listening: Team, org: str, times: int = 5) -> list[float]:
    """How long after an append at one server a listener at another hears of it."""
    place = writing.place(org)
    secret = logins.token_for(place, os.environ)
    assert secret
    listening.wait_for(org, secret)
    path, found = f"orgs/{org}/context/feed", []
    for number in range(times):
        log = f"log-{number}"
        with _stream(listening, path, secret) as texts:
            assert '"rescan":true' in next(texts)
            began = time.monotonic()
            open_store(place).append(log, sealed(None, [NOTE], kind="note"), expect=0)
            for text in texts:
                if f'"{log}"' in text:
                    break
            found.append(time.monotonic() - began)
    return found


@contextmanager
def _stream(team: Team, path: str, secret: str) -> Iterator[Iterator[str]]:
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
    url = f"{team.url}/api/v1/{path}"
    with httpx.stream("GET", url, headers=headers, timeout=WAIT_S) as answer:
        yield answer.iter_text()


def test_each_worker_hears_on_one_connection_and_a_lost_one_comes_back(database, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        running(tmp_path / "one", store=database.url, workers=WORKERS) as one,
        running(tmp_path / "two", store=database.url, workers=WORKERS) as two,
    ):
        database.wait_until(LISTENING, str(2 * WORKERS))
        # Looking alone would take half of this on average.
        assert statistics.median(latencies_s(one, two, "heard")) < change_feed.HEARD_POLL_S / 2
        assert int(database.psql(END_ALL)) == 2 * WORKERS
        assert max(latencies_s(one, two, "while-lost", times=2)) < WAIT_S
        database.wait_until(LISTENING, str(2 * WORKERS))
        # All orgs that were asked for share the connections of a worker.
        others = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'refold'"
        assert int(database.psql(others)) <= 2 * (16 + WORKERS) + 2


def test_behind_a_pooler_it_looks_or_hears_on_the_direct_way(database, tmp_path):
    bouncer = Bouncer(database.data.parent, database, pool=8)
    for name in ("looks", "hears"):
        (tmp_path / name).mkdir()
    try:
        with (
            running(tmp_path / "looks", store=bouncer.url, workers=1) as looks,
            running(
                tmp_path / "hears", store=bouncer.url, workers=1, options=["--direct", database.url]
            ) as hears,
        ):
            database.wait_until(LISTENING, "1")
            for org, writing, listening in (("a", looks, hears), ("b", hears, looks)):
                assert max(latencies_s(writing, listening, org, 3)) < WAIT_S
            warned = (tmp_path / "looks" / "log").read_text()
            assert '"doing": "hearing"' in warned and "--direct" in warned
    finally:
        bouncer.stop()


def test_a_direct_way_that_leads_elsewhere_is_refused_before_anything_listens(database, tmp_path):
    team = Team(tmp_path, store=database.url)
    database.new_database("elsewhere")
    other = database.url.replace("/work", "/elsewhere")
    for direct, said in ((other, "does not receive"), ("sqlite:here", "not one of PostgreSQL")):
        refused = run("serve", "--check", "--store", team.store, "--direct", direct)
        assert refused.exit_code and said in refused.stderr
    assert run("serve", "--check", "--store", team.store, "--direct", database.url).exit_code == 0
    away = database.url.replace(str(database.port), "1")
    assert run("serve", "--check", "--store", team.store, "--direct", away).exit_code == 0
