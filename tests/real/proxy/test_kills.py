"""Proxy, client and provider die at any moment: the agent goes on, and nothing it sends is
refused."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from refold.edges.proxy.serve import ProxySettings
from refold.edges.proxy.supervisor import RESTARTS_MAX, Supervisor
from tests.real.proxy.agent import Agent, tool_loop, turns
from tests.real.proxy.process import COMMAND, STOP_S, free_port, proxied
from tests.real.proxy.strict.script import Answer, Script
from tests.real.proxy.strict.server import serving

TURNS = 40
LOOP = tool_loop(TURNS)


def answer_to(request: dict[str, Any]) -> Answer:
    """The answer that follows what was said last, however often it is asked."""
    last = request["messages"][-1]["content"]
    blocks = last if isinstance(last, list) else []
    done = [int(one["tool_use_id"][-4:]) for one in blocks if one["type"] == "tool_result"]
    return Answer(list(turns(LOOP))[done[-1] + 1 if done else 0][1], piece_s=0.002)


def work(agent: Agent) -> None:
    for said, _ in turns(LOOP):
        agent.talk += said
        agent.talk.append({"role": "assistant", "content": agent.ask()})


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("streams", [False, True])
def test_a_proxy_that_is_killed_at_random_costs_no_turn(
    seed: int, streams: bool, tmp_path: Path
) -> None:
    chance, done = random.Random(seed), threading.Event()
    script = Script(choose=answer_to)
    with (
        serving(script=script) as upstream,
        proxied(tmp_path, upstream.url, "--fold", "--window", "30000") as proxy,
    ):

        def kill_often() -> None:
            while not done.wait(chance.uniform(0.3, 2.0)):
                proxy.kill()
                proxy.start()

        killer = threading.Thread(target=kill_often)
        killer.start()
        try:
            agent = Agent(f"{proxy.url}/anthropic", upstream, streams=streams)
            work(agent)
        finally:
            done.set()
            killer.join(STOP_S)
        verified = proxy.refold("verify")
    assert upstream.refusals == []
    assert len(agent.talk) == 2 * TURNS + 2
    assert verified["ok"]


def test_a_stream_that_the_provider_cuts_off_is_cut_off_for_the_client(tmp_path: Path) -> None:
    said = [{"type": "text", "text": "word " * 500}]
    with (
        serving(Answer(said, cut_at=700), said) as upstream,
        proxied(tmp_path, upstream.url) as proxy,
    ):
        agent = Agent(f"{proxy.url}/anthropic", upstream, streams=True, queue="")
        agent.talk = [{"role": "user", "content": "hi"}]
        with pytest.raises(httpx.HTTPError):
            agent.post()
        assert agent.ask() == said


def test_a_client_that_leaves_in_the_middle_stops_nobody(tmp_path: Path) -> None:
    said = [{"type": "text", "text": "word " * 500}]
    with (
        serving(Answer(said, piece_s=0.05), said) as upstream,
        proxied(tmp_path, upstream.url) as proxy,
    ):
        agent = Agent(f"{proxy.url}/anthropic", upstream, streams=True, queue="")
        agent.talk = [{"role": "user", "content": "hi"}]
        address = f"{agent.url}/v1/messages"
        with httpx.stream("POST", address, json=agent.request(), timeout=60) as response:
            next(response.iter_raw())
        assert agent.ask() == said
        assert "failed" not in proxy.log()


class Wire:
    """A provider that only keeps the bytes that come, connection by connection."""

    def __init__(self) -> None:
        self.came: list[bytearray] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        came = bytearray()
        self.came.append(came)
        with connection, suppress(OSError):
            while part := connection.recv(65_536):
                came += part

    def close(self) -> None:
        self._listening.close()


@pytest.mark.parametrize("path", ["/anthropic/v1/messages", "/anthropic/v1/files"])
@pytest.mark.parametrize("chunked", [False, True])
def test_half_a_request_of_a_client_that_dies_is_never_a_whole_one_upstream(
    path: str, chunked: bool, tmp_path: Path
) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 9_000}]})
    half = body[:5_000].encode()
    length = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(body)
    wire = Wire()
    try:
        with proxied(tmp_path, wire.url) as proxy:
            client = socket.create_connection(("127.0.0.1", proxy.port))
            head = b"POST %b HTTP/1.1\r\nhost: localhost\r\n%b\r\n\r\n" % (path.encode(), length)
            client.sendall(head + (b"%x\r\n%b\r\n" % (len(half), half) if chunked else half))
            time.sleep(0.5)
            client.close()
            time.sleep(0.5)
    finally:
        wire.close()
    for came in wire.came:
        head, _, sent = bytes(came).partition(b"\r\n\r\n")
        assert not sent.endswith(b"0\r\n\r\n")
        if b"chunked" not in head.lower():
            [said] = [one for one in head.lower().split(b"\r\n") if b"content-length" in one]
            assert len(sent) < int(said.partition(b":")[2])


def test_a_chunk_is_passed_on_before_the_next_one_is_there(tmp_path: Path) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    go_on = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"c\r\ndata: first\n\r\n")
            self.wfile.flush()
            go_on.wait(STOP_S)
            self.wfile.write(b"d\r\ndata: second\n\r\n0\r\n\r\n")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with proxied(tmp_path, f"http://127.0.0.1:{server.server_address[1]}") as proxy:
            body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
            with httpx.stream("POST", f"{proxy.url}/v1/messages", json=body, timeout=60) as answer:
                chunks = answer.iter_raw()
                assert next(chunks) == b"data: first\n"
                go_on.set()
                assert b"".join(chunks) == b"data: second\n"
    finally:
        server.shutdown()
        server.server_close()


def test_a_provider_that_is_away_and_comes_back(tmp_path: Path) -> None:
    port = free_port()
    with proxied(tmp_path, f"http://127.0.0.1:{port}") as proxy:
        address = f"{proxy.url}/anthropic/v1/messages"
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert httpx.post(address, json=body, timeout=60).status_code == 502
        with serving(port=port) as upstream:
            agent = Agent(f"{proxy.url}/anthropic", upstream, queue="")
            agent.talk = [{"role": "user", "content": "hi"}]
            assert agent.ask()


# --- refold run ---

AGENT = """
import json, os, sys, urllib.request
assert sys.argv[1:] == ["--json", "-p", "hi"], sys.argv
body = json.dumps({"model": "claude-opus-5-5", "max_tokens": 9, "messages": [
    {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
    {"role": "user", "content": "c"}]}).encode()
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body,
    {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"})
print(json.load(urllib.request.urlopen(request))["content"][0]["text"])
sys.exit(7)
"""


@pytest.mark.parametrize("store", ["sqlite:agent.db", "sqlite:no/such/\x01folder/agent.db"])
def test_an_agent_is_run_behind_a_proxy_whatever_becomes_of_the_store(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    with serving([{"type": "text", "text": "said through the proxy"}]) as upstream:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", upstream.url)
        program = [sys.executable, "agent.py", "--json", "-p", "hi"]
        done = subprocess.run(
            [*COMMAND, "run", "--store", store, *program],
            cwd=tmp_path,
            capture_output=True,
            timeout=2 * STOP_S,
            text=True,
        )
    assert (done.returncode, done.stdout) == (7, "said through the proxy\n"), done.stderr


def test_a_proxy_that_keeps_dying_is_replaced_by_one_that_only_passes_on(tmp_path: Path) -> None:
    with serving() as upstream:
        bases = {"anthropic": upstream.url}
        supervisor = Supervisor(ProxySettings(store=f"sqlite:{tmp_path}/x.db", bases=bases))
        try:
            for _ in range(RESTARTS_MAX + 1):
                assert supervisor.is_ready()
                supervisor.process.kill()
                supervisor.process.wait(STOP_S)
            agent = Agent(f"{supervisor.url}/anthropic", upstream, queue="")
            agent.talk = [{"role": "user", "content": "hi"}]
            assert agent.ask()
        finally:
            supervisor.stop()


@pytest.mark.parametrize("tools", [False, True])
def test_a_folded_session_goes_on_in_a_proxy_that_only_passes_on(
    tools: bool, tmp_path: Path
) -> None:
    """Nobody knows its page there: what was thought under it is left out, and the agent goes on."""
    given = ProxySettings(store=f"sqlite:{tmp_path}/x.db", folds=True, tools=tools, window=30_000)
    with serving(script=Script(choose=answer_to)) as upstream:
        given = msgspec.structs.replace(given, bases={"anthropic": upstream.url})
        agent = Agent("", upstream)
        for plain, parts in ((False, turns(LOOP[:61])), (True, turns(LOOP[60:]))):
            supervisor = Supervisor(msgspec.structs.replace(given, plain=plain))
            try:
                assert supervisor.is_ready()
                agent.url = f"{supervisor.url}/anthropic"
                for said, _ in parts:
                    agent.talk += said
                    agent.talk.append({"role": "assistant", "content": agent.ask()})
            finally:
                supervisor.stop()
    assert upstream.refusals and all("signature" in one for one in upstream.refusals)
    assert len(agent.talk) == len(LOOP)


def stop_until_killed(supervisor: Supervisor) -> None:
    """Freezes the proxy, and waits until somebody has noticed."""
    frozen = supervisor.process
    frozen.send_signal(signal.SIGSTOP)
    frozen.wait(STOP_S)


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_proxy_that_is_frozen_is_started_again_and_costs_no_turn(
    is_waiting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen before a call comes, or while the call waits for its answer."""
    monkeypatch.setattr("refold.edges.proxy.supervisor.SILENT_S", 2.0)
    said = [{"type": "text", "text": "word " * 100}]
    with serving(Answer(said, slow_s=1.0 if is_waiting else 0.0), said) as upstream:
        bases = {"anthropic": upstream.url}
        supervisor = Supervisor(ProxySettings(store=f"sqlite:{tmp_path}/x.db", bases=bases))
        try:
            assert supervisor.is_ready()
            agent = Agent(f"{supervisor.url}/anthropic", upstream, queue="")
            agent.talk = [{"role": "user", "content": "hi"}]
            freezing = threading.Thread(target=stop_until_killed, args=(supervisor,))
            asked = threading.Timer(0.3 if is_waiting else 0.0, freezing.start)
            asked.start()
            if not is_waiting:
                time.sleep(0.5)
            assert agent.ask() == said
            freezing.join(STOP_S)
            assert supervisor.frozen == 1
        finally:
            supervisor.stop()
