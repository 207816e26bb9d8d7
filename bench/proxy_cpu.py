"""The CPU that the proxy takes for a call: only passed on, observed, and folded, on the recorded
sessions of real agents.

    python -m bench.proxy_cpu [--data FOLDER] [--sessions 100] [--rounds 1] [--only observed folded]

A client sends the lists as its agent did, over one connection, to an upstream that gives the
recorded answers at once. CPU is what /proc says of the proxy's process, all of it. The bound
follows from msgspec's decoding of the very bodies. Rounds take turns, and the best of each mode
counts: other programs only ever add. Neighbours: `proxy` plays the same sessions against a strict
upstream.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.real.proxy.agent import TOOLS, Agent, ResponsesAgent, item_turns, turns
from tests.real.proxy.process import Process
from tests.real.proxy.recorded import ABSENT, recorded
from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings

from bench.proxy_pages import WINDOW
from bench.sessions import data_folder
from bench.tables import Table, cell_of, text_of_tables, verdict
from refold.edges.proxy.serve import ProxySettings
from refold.edges.proxy.supervisor import Supervisor

CALL_MS, DECODINGS = 5.0, 3.0
ALL = 100  # sessions
WARM = 6  # calls of another conversation, after which everything that is loaded late is there
MODES: dict[str, dict[str, Any]] = {
    "only passed on": {"plain": True},
    "observed": {},
    "folded": {"folds": True, "window": WINDOW},
}
KINDS: dict[str, tuple[str, str, type[Agent]]] = {
    "anthropic": ("Claude Code", "anthropic", Agent),
    "openai_responses": ("Codex", "openai", ResponsesAgent),
}
HEAD = ["agent", "what", "calls", "KB a call", "ms", "goal", ""]
_TICKS = os.sysconf("SC_CLK_TCK")
Call = tuple[bytes, dict[str, Any]]  # a body, and the answer to it


@dataclass
class Calls:
    """The calls of one agent: those that warm the proxy up, and those that are measured."""

    kind: str
    warm: list[Call] = field(default_factory=list)
    measured: list[Call] = field(default_factory=list)

    @property
    def bound_ms(self) -> float:
        return (
            CALL_MS + DECODINGS * sum(decoding_ms(body) for body, _ in self.measured) / self.count
        )

    @property
    def count(self) -> int:
        return max(1, len(self.measured))

    @property
    def size_kb(self) -> int:
        return sum(len(body) for body, _ in self.measured) // self.count // 1_000


def run(
    data: Path | None, limit: int = ALL, rounds: int = 1, only: Sequence[str] = tuple(MODES)
) -> Table | str:
    if data is None or not (data / "raw").is_dir():
        return ABSENT
    table = Table("CPU of the proxy, ms a call", HEAD)
    for kind in KINDS:
        calls = calls_of(kind, limit, data)
        about = (KINDS[kind][0], len(calls.measured), calls.size_kb)
        spent = {name: spent_ms(calls, MODES[name]) for name in only}
        for _ in range(1, rounds):
            spent = {name: min(best, spent_ms(calls, MODES[name])) for name, best in spent.items()}
        _add(table, about, spent, calls.bound_ms)
    table.note("The goal is 5 ms and three decodings of the body.")
    return table


def _add(
    table: Table, about: tuple[str, int, int], spent: dict[str, float], bound_ms: float
) -> None:
    agent, count, size_kb = about
    for name, found_ms in spent.items():
        if name == "only passed on":
            table.add(agent, name, count, size_kb, found_ms, "", "")
        else:
            goal = f"≤ {cell_of(bound_ms)}"
            table.add(agent, name, count, size_kb, found_ms, goal, verdict(found_ms <= bound_ms))


# --- calls ---


def calls_of(kind: str, limit: int, data: Path) -> Calls:
    """The calls of recorded sessions, as their agent made them."""
    calls = Calls(kind)
    for _, messages in recorded(kind, limit, data):
        if not calls.warm:
            # The same words after others are another conversation.
            other = [{"role": "user", "content": "Let us begin."}, *messages]
            calls.warm = list(_calls(kind, other))[:WARM]
        calls.measured += _calls(kind, messages)
    return calls


def _calls(kind: str, messages: list[dict[str, Any]]) -> Iterator[Call]:
    agent = KINDS[kind][2]("", Upstream(Settings()))
    each = item_turns if isinstance(agent, ResponsesAgent) else turns
    for said, answer in each(messages):
        agent.talk += said
        body = {**_ALWAYS.get(kind, {}), **agent.request()}
        yield json.dumps(body).encode(), _answer(kind, answer)
        agent.talk += agent.repeated(answer)


# What Codex says at every call, and the agent of the tests does not.
_ALWAYS = {"openai_responses": {"tools": [{"type": "function", **one} for one in TOOLS]}}


def _answer(kind: str, said: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer as the provider words it, but for its usage."""
    if kind == "openai_responses":
        return {"object": "response", "status": "completed", "output": said}
    calls = any(block.get("type") == "tool_use" for block in said)
    stop = "tool_use" if calls else "end_turn"
    return {"type": "message", "role": "assistant", "stop_reason": stop, "content": said}


def decoding_ms(body: bytes) -> float:
    start = time.thread_time_ns()
    msgspec.json.decode(body)
    return (time.thread_time_ns() - start) / 1e6


# --- a proxy ---


def spent_ms(calls: Calls, given: dict[str, Any]) -> float:
    """What one call takes on average, in a process of its own."""
    _, base, caller = KINDS[calls.kind]
    with tempfile.TemporaryDirectory() as place, answering() as server:
        told = ProxySettings(store=f"sqlite:{place}/x.db", bases={base: server.url}, **given)
        supervisor = Supervisor(told)
        try:
            assert supervisor.is_ready()
            address = f"{supervisor.url}/{base}{caller.path}"
            with httpx.Client(timeout=60, headers=caller.headers) as client:
                server.send_all(client, address, calls.warm)
                time.sleep(1)  # what is written after an answer
                before_ms = cpu_ms(supervisor)
                server.send_all(client, address, calls.measured)
                time.sleep(1)
                return (cpu_ms(supervisor) - before_ms) / calls.count
        finally:
            supervisor.stop()


def cpu_ms(proxy: Process | Supervisor) -> float:
    text = Path(f"/proc/{proxy.process.pid}/stat").read_text()
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 1_000 / _TICKS


# --- a provider ---


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body goes out at once after the head
    server: Answering

    def do_POST(self) -> None:
        size = len(self.rfile.read(int(self.headers["content-length"])))
        usage = {"input_tokens": size // 4, "output_tokens": 9}
        body = msgspec.json.encode({**self.server.answer, "usage": usage})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is printed."""


class Answering(ThreadingHTTPServer):
    """A provider that answers everything at once, and bills what it was sent."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = _answer("anthropic", [])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def send_all(self, client: httpx.Client, address: str, calls: list[Call]) -> None:
        """Makes these calls, each after the answer to the one before it."""
        for body, self.answer in calls:
            assert client.post(address, content=body).status_code == 200


@contextmanager
def answering() -> Iterator[Answering]:
    server = Answering()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--sessions", type=int, default=ALL)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(MODES), default=list(MODES))
    given = parser.parse_args()
    found = run(data_folder(given.data), given.sessions, given.rounds, given.only)
    print(found if isinstance(found, str) else text_of_tables([found]))


if __name__ == "__main__":
    main()
