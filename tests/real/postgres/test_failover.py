"""A primary with a synchronous standby is killed under load and the standby promoted: nothing that
was acknowledged is lost, and the clients go on by themselves."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time

from refold.stores import open_store
from refold.stores.contract.kit import grown, sealed
from tests.real.postgres.client import check_nothing_lost_or_doubled, wait_for_more
from tests.real.postgres.cluster import Server, own_folder, running
from tests.real.postgres.conftest import fresh_org
from tests.real.postgres.test_kills import load

FAILOVERS = int(os.environ.get("REFOLD_FAILOVERS", "3"))
STREAMING = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"


def with_standby(primary: Server, name: str, port: int | None = None) -> Server:
    """A standby that has every commit before it is acknowledged. It may take over a port."""
    standby = primary.copied(primary.data.parent, name)
    standby.port = port or standby.port
    standby.configure({"synchronous_standby_names": "''"})
    standby.start()
    primary.psql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'", "postgres")
    primary.psql("SELECT pg_reload_conf()", "postgres")
    primary.wait_until(STREAMING)
    return standby


def test_a_server_that_takes_no_writes_for_a_while_costs_a_wait() -> None:
    """As in a planned handing over: connections live, writes are refused."""
    with running({"fsync": "off"}) as server:
        store = open_store(f"{server.url}?wait_s=30")
        events = grown(store, "log", 2)
        read_only(server, "on")
        server.wait_until("SHOW default_transaction_read_only", "on")
        release = threading.Timer(1.0, read_only, (server, "off"))
        release.start()
        began = time.monotonic()
        store.append("log", sealed(events[-1], [b"{}"]), expect=2)
        assert time.monotonic() - began > 0.5 and store.conversation("log").head == 3
        release.join()
        store.close()


def read_only(server: Server, value: str) -> None:
    server.psql(f"ALTER SYSTEM SET default_transaction_read_only = {value}", "postgres")
    server.psql("SELECT pg_reload_conf()", "postgres")


def test_a_standby_takes_over_and_nothing_is_lost() -> None:
    with own_folder() as folder:
        primary = Server.made(folder, "server_0", {"fsync": "off"})
        standby = with_standby(primary, "server_1")
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://refold@{hosts}/work?org={fresh_org()}&wait_s=60"
        try:
            with load(url) as clients:
                for n in range(FAILOVERS):
                    time.sleep(random.uniform(0.1, 0.5))
                    began = time.monotonic()
                    primary.kill()
                    standby.promote()
                    wait_for_more(clients, 5)
                    waited_s = time.monotonic() - began
                    print(f"failover {n + 1}: writing again {waited_s:.2f} s after the kill")
                    shutil.rmtree(primary.data)
                    # The next standby stands where the old primary stood.
                    old_port, primary = primary.port, standby
                    standby = with_standby(primary, f"server_{n + 2}", old_port)
                    wait_for_more(clients, 3)
            store = open_store(url)
            assert check_nothing_lost_or_doubled(store, clients) > 10 * FAILOVERS
            store.close()
        finally:
            primary.kill()
            standby.kill()
