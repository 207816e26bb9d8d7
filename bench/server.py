"""How much a team server costs beside the least that such a server can do (`server_floor`): durable
appends for each second of the server's CPU, for one event a request and for twenty; how long an
append takes at half of that load; and what listeners of the feed cost who hear nothing.

Both servers run as one process, on the same disk, under the same callers, in turns. CPU is what
/proc says of the server's process. The callers are plain sockets with requests made beforehand.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.tables import Table, verdict
from refold.edges.server.access import Orgs, Tokens
from refold.stores import batch_of
from refold.stores.contract.kit import sealed

CALLERS = 32
EVENTS = 8_000
BATCHES = (1, 20)
ROUNDS = 3
TIMED_MIN = 1_200  # requests at half load: of fewer, the slowest hundredth is chance
LISTENERS = 500
CONNECTIONS = 8
SQLITE_MIN, POSTGRES_MIN = 0.6, 0.5
P99_MS_MAX, LISTENERS_MB_MAX = 50.0, 200.0
# About what a tool's result or a short answer has.
BODY = b'{"kind":"n","data":"' + b"word " * 100 + b'"}'
ORG = "bench"
REFOLD = (sys.executable, "-c", "from refold.edges.cli import main; main()", "serve")
START_S = 30.0
RATES = ["events a request", "floor: events / CPU s", "refold: events / CPU s", "share", "goal", ""]
TIMES = ["events a request", "events / s", "floor: p99, ms", "median, ms", "p99, ms", "goal", ""]
LISTENING = ["listeners", "MB before", "MB", "CPU, %", "goal", ""]


class Process:
    """A server that runs, and its CPU time and memory so far."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.port = port
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{' '.join(command[-4:])} did not start")
            time.sleep(0.05)

    @property
    def cpu_s(self) -> float:
        """Of all threads, in nanoseconds as the scheduler counts them."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in threads) / 1e9

    @property
    def memory_mb(self) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the memory of the server is not known")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(START_S)


# --- callers ---


class Work:
    """Requests of callers, each with a log and a token of its own, made before the clock runs."""

    def __init__(self, secrets: Sequence[str], events: int, batch: int, name: str) -> None:
        self.batch = batch
        self.requests = [
            list(_requests(secret, f"{name}-{number}", events // CALLERS // batch, batch))
            for number, secret in enumerate(secrets)
        ]

    @property
    def events(self) -> int:
        return sum(map(len, self.requests)) * self.batch


def _requests(secret: str, id: str, count: int, batch: int) -> Iterator[bytes]:
    last = None
    for _ in range(count):
        events = sealed(last, [BODY] * batch, kind="note")
        yield _request(secret, id, last.seq if last else 0, batch_of(events))
        last = events[-1]


def _request(secret: str, id: str, expect: int, body: bytes) -> bytes:
    path = f"/api/v1/orgs/{ORG}/context/conversations/{id}/events?expect={expect}"
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def _call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"an append was refused: {head[:200]!r}")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)


async def _caller(port: int, requests: Sequence[bytes], each_s: float, took: list[float]) -> None:
    """Sends one request after the other, not more often than `each_s`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter()
    for request in requests:
        due = max(due + each_s, time.perf_counter() if not each_s else 0.0)
        if (wait_s := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait_s)
        began = time.perf_counter()
        await _call(reader, writer, request)
        took.append(time.perf_counter() - began)
    writer.close()


def drive(server: Process, work: Work, per_s: float | None = None) -> tuple[float, list[float]]:
    """The server's CPU seconds for this work, and how long each request took; at `per_s` events a
    second, or as fast as it goes."""
    each_s = CALLERS * work.batch / per_s if per_s else 0.0
    took: list[float] = []

    async def all_callers() -> None:
        await asyncio.gather(*(_caller(server.port, one, each_s, took) for one in work.requests))

    before = server.cpu_s
    asyncio.run(all_callers())
    return server.cpu_s - before, took


# --- the two servers ---


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def both(place: str, floor_place: str) -> Iterator[tuple[Process, Process, list[str]]]:
    """Ours and the floor, and tokens for ours."""
    orgs = Orgs(place)
    secrets = [Tokens(orgs.own).create(ORG, "write", days=1)[1] for _ in range(CALLERS)]
    orgs.close()
    port = free_port()
    ours = Process((*REFOLD, "--store", place, "--port", str(port)), port)
    port = free_port()
    floor = Process((sys.executable, "-m", "bench.server_floor", str(port), floor_place), port)
    try:
        yield ours, floor, secrets
    finally:
        ours.stop()
        floor.stop()


def appends(title: str, place: str, floor_place: str, events: int, least: float) -> list[Table]:
    rates, times = Table(title, RATES), Table(f"{title}: at half of that load", TIMES)
    with both(place, floor_place) as (ours, floor, secrets):
        for batch in BATCHES:
            for server in (floor, ours):
                drive(server, Work(secrets, CALLERS * batch * 2, batch, f"b{batch}-warm"))
            found: dict[Process, list[float]] = {ours: [], floor: []}
            speeds = []
            for number in range(ROUNDS):
                work = Work(secrets, events, batch, f"b{batch}-{number}")
                for server in (floor, ours):
                    began = time.monotonic()
                    cpu_s, _ = drive(server, work)
                    found[server].append(work.events / cpu_s)
                speeds.append(work.events / (time.monotonic() - began))
            mine, lowest = statistics.median(found[ours]), statistics.median(found[floor])
            rates.add(
                batch, lowest, mine, mine / lowest, f"≥ {least:g}", verdict(mine / lowest >= least)
            )
            half = min(statistics.median(speeds), mine) / 2
            work = Work(secrets, max(events, TIMED_MIN * batch), batch, f"b{batch}-half")
            least_ms = _p99_ms(drive(floor, work, half)[1])
            took = drive(ours, work, half)[1]
            p99_ms, goal = _p99_ms(took), f"< {P99_MS_MAX:g}"
            median_ms = 1_000 * statistics.median(took)
            times.add(batch, half, least_ms, median_ms, p99_ms, goal, verdict(p99_ms < P99_MS_MAX))
    return [rates, times]


def _p99_ms(took: Sequence[float]) -> float:
    return 1_000 * statistics.quantiles(took, n=100)[98]


# --- listeners ---


def listeners(place: str, count: int) -> Table:
    orgs = Orgs(place)
    _, secret = Tokens(orgs.own).create(ORG, "read", days=1)
    orgs.close()
    port = free_port()
    server = Process((*REFOLD, "--store", place, "--port", str(port)), port)
    path = f"/api/v1/orgs/{ORG}/context/feed"
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n"
    request = f"{head}Accept: text/event-stream\r\n\r\n".encode()
    try:
        before = server.memory_mb
        open_sockets = []
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", port), 10)
            one.sendall(request)
            if b"200" not in one.recv(4_096):
                raise RuntimeError("a listener was refused")
            open_sockets.append(one)
        began, cpu_s = time.monotonic(), server.cpu_s
        time.sleep(5)
        share = (server.cpu_s - cpu_s) / (time.monotonic() - began)
        memory = server.memory_mb
        for one in open_sockets:
            one.close()
    finally:
        server.stop()
    table = Table("The change feed: streams that hear nothing", LISTENING)
    goal = f"< {LISTENERS_MB_MAX:g}"
    table.add(count, before, memory, 100 * share, goal, verdict(memory < LISTENERS_MB_MAX))
    return table


def on_postgres(events: int) -> list[Table]:
    """The same on a PostgreSQL of our own; nothing where there is none on this machine."""
    try:
        import psycopg  # noqa: F401
        from tests.real.postgres.cluster import Server, binary, own_folder

        binary("initdb")
    except (ImportError, FileNotFoundError):
        return []
    with own_folder() as folder:
        database = Server.made(folder)
        try:
            place = f"{database.url}?connections_max={CONNECTIONS}"
            title = f"Durable appends on PostgreSQL, {CONNECTIONS} connections"
            return appends(title, place, database.url, events, POSTGRES_MIN)
        finally:
            database.stop()


def run(events: int = EVENTS, listening: int = LISTENERS) -> list[Table]:
    folder = Path(tempfile.mkdtemp(prefix="refold-bench-"))
    try:
        tables = appends(
            "Durable appends on SQLite", f"sqlite:{folder}/orgs", f"sqlite:{folder}/floor.db",
            events, SQLITE_MIN,
        )  # fmt: skip
        tables += on_postgres(events)
        tables.append(listeners(f"sqlite:{folder}/listening", listening))
    finally:
        shutil.rmtree(folder)
    return tables
