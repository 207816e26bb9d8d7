"""Whatever is killed under load (clients, the server's processes, the server), every acknowledged
event is there once, and the clients that live go on by themselves."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from refold.stores import open_store
from tests.real.postgres.client import Client, check_nothing_lost_or_doubled, wait_for_more
from tests.real.postgres.cluster import Bouncer, Server, running
from tests.real.postgres.conftest import fresh_org

KILLS = int(os.environ.get("REFOLD_KILLS", "12"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # What is killed are processes: what they wrote is with the kernel, and stays.
    with running({"fsync": "off"}) as one:
        yield one


@contextlib.contextmanager
def load(url: str, count: int = 3) -> Iterator[list[Client]]:
    """Clients that write until the block ends."""
    clients = [Client(url, f"client-{n}") for n in range(count)]
    try:
        wait_for_more(clients, 3)
        yield clients
    finally:
        for client in clients:
            client.kill()


def kill_a_backend(server: Server) -> None:
    """kill -9 of one of its processes makes PostgreSQL end them all and recover."""
    for pid in random.sample(found := server.backends(), min(1, len(found))):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def terminate_backends(server: Server) -> None:
    server.answer(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'work' "
        "AND pid <> pg_backend_pid()"
    )


def kill_the_server(server: Server) -> None:
    server.kill()
    server.start()


def stop_the_server(server: Server) -> None:
    server.stop()
    server.start()


@pytest.mark.parametrize(
    "act", [kill_a_backend, terminate_backends, kill_the_server, stop_the_server]
)
def test_nothing_is_lost_or_doubled_when_the_server_is(
    act: Callable[[Server], None], server: Server
) -> None:
    url = f"{server.url}?org={fresh_org()}&wait_s=60"
    with load(url) as clients:
        for _ in range(KILLS // 3):
            time.sleep(random.uniform(0, 0.3))
            act(server)
            wait_for_more(clients, 3)
    store = open_store(url)
    assert check_nothing_lost_or_doubled(store, clients) > 3 * KILLS
    store.close()


def test_nothing_is_lost_or_doubled_when_clients_are_killed(server: Server) -> None:
    url = f"{server.url}?org={fresh_org()}"
    with load(url) as clients:
        for _ in range(KILLS):
            time.sleep(random.uniform(0, 0.2))
            random.choice(clients).restart()
        wait_for_more(clients, 3)
    store = open_store(url)
    assert check_nothing_lost_or_doubled(store, clients) > KILLS
    store.close()


def test_nothing_is_lost_or_doubled_behind_a_pooler(server: Server) -> None:
    bouncer = Bouncer(server.data.parent, server)
    try:
        url = f"{bouncer.url}?org={fresh_org()}&wait_s=60"
        with load(url) as clients:
            for _ in range(KILLS // 4):
                time.sleep(random.uniform(0, 0.3))
                kill_a_backend(server)
                wait_for_more(clients, 3)
        store = open_store(url)
        assert check_nothing_lost_or_doubled(store, clients) > KILLS
        store.close()
    finally:
        bouncer.stop()
