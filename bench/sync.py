"""What a sync costs: an append near, with a far store that answers or not; a first sync of 10,000
messages to a server on this machine; a sync that finds nothing to do; listening to the server, and
how soon another device has what was said.

The append is measured against the same store without a far one, turn by turn, so that both meet the
same disk. The server runs in a process of its own; its users and tokens live in a folder that goes.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import refold
from bench.tables import Table
from refold.core import codec, ids
from refold.core.model import Event
from refold.stores import open_store, synced_of
from refold.stores.protocol import Store

MESSAGES, APPENDS, IDLE = 10_000, 4_000, 20
SYNC_S_MAX, APPEND_MAX, IDLE_S_MAX, HEARD_S_MAX = 5.0, 1.1, 1.0, 2.0
LISTENED_S, SETTLED_S, HEARD = 62.0, 3.0, 10
BODY = b'{"role":"user","blocks":[{"type":"text","text":"' + b"words " * 80 + b'"}]}'
START_S = 15.0
HEAD = ["what", "times", "goal", ""]


def sealed(count: int, before: Event | None = None) -> list[Event]:
    events: list[Event] = []
    for _ in range(count):
        seq, chain = (before.seq + 1, before.chain) if before else (1, codec.ZERO)
        randomness = secrets.token_bytes(10 + codec.SALT_BYTES)
        before = codec.seal(
            chain,
            seq,
            id=ids.uuid7(1_700_000_000_000 + seq, randomness),
            at_ms=1_700_000_000_000 + seq,
            by="user",
            kind="message",
            body=BODY,
            salt=randomness[10:],
            tokens=100,
        )
        events.append(before)
    return events


def append_us(stores: list[Store], count: int) -> list[float]:
    """The median of one append to each store, in microseconds; the stores take turns."""
    took: list[list[int]] = [[] for _ in stores]
    for event in sealed(count):
        for store, times in zip(stores, took):
            started = time.perf_counter_ns()
            store.append("c", [event], expect=event.seq - 1)
            times.append(time.perf_counter_ns() - started)
    return [statistics.median(times) / 1e3 for times in took]


@contextmanager
def served(root: Path) -> Iterator[str]:
    """The address of an organization on a server of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = f"sqlite:{root}/orgs"
    command = [sys.executable, "-c", "from refold.edges.cli import main; main()"]
    made = subprocess.run(
        [
            *command,
            "token",
            "create",
            "--org",
            "bench",
            "--scope",
            "admin",
            "--store",
            store,
            "--json",
        ],
        capture_output=True,
        check=True,
    )
    secret = json.loads(made.stdout)["secret"]
    server = subprocess.Popen(
        [*command, "serve", "--store", store, "--port", str(port), "--log", "error"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        place = f"http://127.0.0.1:{port}/bench"
        _wait_for(port)
        login = [*command, "login", place]
        subprocess.run(login, input=secret.encode(), capture_output=True, check=True)
        yield place
    finally:
        server.terminate()
        server.wait(START_S)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("the server did not start")


@contextmanager
def _own_folders(root: Path) -> Iterator[None]:
    """Logins and caches in a folder that goes."""
    names = {"XDG_DATA_HOME": f"{root}/data", "XDG_CACHE_HOME": f"{root}/cache"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def synced_s(url: str) -> float:
    """How long a sync takes that ends with both sides the same."""
    store = open_store(url)
    synced = synced_of(store)
    assert synced is not None
    started = time.perf_counter()
    report = synced.sync()
    took = time.perf_counter() - started
    assert report.is_done, report
    store.close()
    return took


def idle_cpu_s(url: str, times: int) -> float:
    """The CPU time of an hour in which a device syncs every minute and finds nothing to do."""
    store = open_store(url)
    synced = synced_of(store)
    assert synced is not None
    synced.sync()
    started = time.process_time()
    for _ in range(times):
        assert synced.sync().is_done
    took = (time.process_time() - started) / times
    store.close()
    return took * 60


def listening_cpu_s(url: str, seconds: float) -> float:
    """The CPU time of an hour in which a device hears nothing from the server."""
    store = open_store(f"{url}&sync_s=3600")
    store.bookmark("talk")  # as an opening does, with which the listening begins
    time.sleep(SETTLED_S)
    started = time.process_time()
    time.sleep(seconds)
    took = time.process_time() - started
    store.close()
    return took * 3_600 / seconds


def heard_s(place: str, root: Path, times: int) -> float:
    """How long after one device spoke another that listens has it, in the median."""
    one, other = (
        open_store(f"hybrid:sqlite:{root}/{name}.db?far={place}&sync_s=3600")
        for name in ("speaks", "listens")
    )
    other.bookmark("heard")
    time.sleep(SETTLED_S)
    took = []
    for event in sealed(times):
        started = time.perf_counter()
        one.append("heard", [event], expect=event.seq - 1)
        while not _has(other, event) and time.perf_counter() - started < START_S:
            time.sleep(0.005)
        took.append(time.perf_counter() - started)
    one.close()
    other.close()
    return statistics.median(took)


def _has(store: Store, event: Event) -> bool:
    heads = {about.id: about.head for about in store.conversations()}
    return heads.get("heard", 0) >= event.seq


def run(messages: int = MESSAGES, appends: int = APPENDS) -> list[Table]:
    with tempfile.TemporaryDirectory() as folder, _own_folders(Path(folder)):
        root = Path(folder)
        with served(root) as place:
            return [_appends(root, place, appends), _syncs(root, place, messages)]


def context_us(contexts: list[refold.Context], count: int) -> list[float]:
    """The same for `Context.append`, which parses, counts, seals and folds as well."""
    took: list[list[int]] = [[] for _ in contexts]
    message = {"role": "user", "content": "words " * 80}
    for _ in range(count):
        for context, times in zip(contexts, took):
            started = time.perf_counter_ns()
            context.append(message)
            times.append(time.perf_counter_ns() - started)
    return [statistics.median(times) / 1e3 for times in took]


def _appends(root: Path, place: str, count: int) -> Table:
    down = place.rpartition(":")[0] + ":9/bench"
    urls = {
        "near alone": f"sqlite:{root}/alone.db",
        "server up": f"hybrid:sqlite:{root}/up.db?far={place}",
        "server down": f"hybrid:sqlite:{root}/down.db?far={down}",
    }
    stores = [open_store(url) for url in urls.values()]
    table = Table(f"An append, over one without a far store: {count:,} in turns", HEAD)
    bare = append_us(stores, count)
    config = refold.Config(auto=False)
    contexts = [refold.open("talk", store=one, window=10**7, config=config) for one in stores]
    whole = context_us(contexts, count)
    for what, took in (("Context.append", whole), ("Store.append", bare)):
        for name, us in list(zip(urls, took))[1:]:
            table.at_most(f"{what}, {name}", us / took[0], APPEND_MAX)
        said = ", ".join(f"{name} {us:.1f}" for name, us in zip(urls, took))
        table.note(f"{what}, medians in microseconds: {said}.")
    for context in contexts:
        context.close()
    for store in stores:
        store.close()
    return table


def _syncs(root: Path, place: str, messages: int) -> Table:
    url = f"hybrid:sqlite:{root}/first.db?far={place}"
    store = open_store(f"sqlite:{root}/first.db")
    store.append("talk", sealed(messages), expect=0)
    store.close()
    table = Table(f"A sync of {messages:,} messages over loopback", ["what", "s", "goal", ""])
    table.at_most("first, from here to the server", synced_s(url), SYNC_S_MAX)
    other = f"hybrid:sqlite:{root}/second.db?far={place}"
    table.at_most("first, from the server to another device", synced_s(other), SYNC_S_MAX)
    idle = idle_cpu_s(url, IDLE)
    listening = listening_cpu_s(url, LISTENED_S)
    table.at_most("CPU of an idle hour, a sync a minute", idle, IDLE_S_MAX)
    table.at_most("the same, and the feed listened to", idle + listening, IDLE_S_MAX)
    heard = heard_s(place, root, HEARD)
    table.at_most("said on one device, there on another that listens", heard, HEARD_S_MAX)
    return table


if __name__ == "__main__":
    from bench.tables import text_of_tables

    print(text_of_tables(run()))
