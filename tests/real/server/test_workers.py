"""Two workers behind one port: what one of them writes, the other knows soon; and TLS, with a
certificate made here. Each looks every second; a machine that is busy with other things has more
time, but less than a call would wait."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

from refold.settings import logins
from refold.stores import open_store
from refold.stores.contract.kit import sealed
from tests.edges.cli.rooms import run
from tests.real.server.process import running
from tests.waiting import LONG_S, until

NOTE = b'{"kind":"n","data":1}'
SOON_S = 20.0


def test_every_worker_hears_of_a_change_soon(team):
    place = team.place("feed")
    secret = logins.token_for(place, os.environ)
    assert secret
    path = "orgs/feed/context/feed"
    heard: list[float] = []

    def listen() -> None:
        cursor = team.get(path, secret, params={"wait": 0}).json()["cursor"]
        ready.wait(LONG_S)
        # The connection is kept, so the same worker answers: its cursor is the worker's own.
        answer = team.get(path, secret, params={"after": cursor, "wait": 25}).json()
        heard.append(time.monotonic())
        assert answer["rescan"] or answer["changes"]

    ready = threading.Barrier(9)
    listeners = [threading.Thread(target=listen, daemon=True) for _ in range(8)]
    for thread in listeners:
        thread.start()
    ready.wait(LONG_S)
    time.sleep(0.3)
    open_store(place).append("c", sealed(None, [NOTE], kind="note"), expect=0)
    wrote = time.monotonic()
    for thread in listeners:
        thread.join(LONG_S)
    assert len(heard) == 8
    assert max(heard) - wrote < SOON_S


def test_a_stream_hears_of_changes_and_ends_with_its_token(team):
    place = team.place("stream")
    token, secret = team.token("stream", "read")
    team.wait_for("stream", secret)
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
    url = f"{team.url}/api/v1/orgs/stream/context/feed"
    streams = []
    with httpx.Client(timeout=LONG_S) as client:
        for _ in range(6):
            request = client.build_request("GET", url, headers=headers)
            streams.append(client.send(request, stream=True))
        texts = [stream.iter_text() for stream in streams]
        for text in texts:
            assert '"rescan":true' in next(text)
        open_store(place).append("c", sealed(None, [NOTE], kind="note"), expect=0)
        for text in texts:
            assert '{"conversation":"c","head":1}' in next(text)
        team.tokens.revoke(token.id)
        revoked = time.monotonic()
        for text in texts:
            assert "the token has ended" in "".join(text)
        assert time.monotonic() - revoked < SOON_S


def test_every_worker_knows_of_a_revocation_soon(team):
    token, secret = team.token("acme", "read")
    team.wait_for("acme", secret)
    team.tokens.revoke(token.id)

    def statuses() -> set[int]:
        return {team.get("orgs/acme/context/token", secret).status_code for _ in range(20)}

    until(lambda: statuses() == {401}, SOON_S)


def test_every_worker_tells_the_counts_of_all_also_of_one_that_was_killed(tmp_path):
    with running(tmp_path) as team:
        _, secret = team.token("acme", "admin")
        team.wait_for("acme", secret)

        def calls() -> set[int]:
            texts = [team.get("orgs/acme/context/metrics", secret).text for _ in range(12)]
            named = r'refold_calls_total{route="get-conversations",status="200"} (\d+)'
            return {int(found) for text in texts for found in re.findall(named, text) or [-1]}

        for _ in range(40):
            assert team.get("orgs/acme/context/conversations", secret).is_success
        until(lambda: calls() == {40}, SOON_S)
        killed = team.workers()[0]
        os.kill(killed, signal.SIGKILL)
        until(lambda: len({*team.workers()} - {killed}) == 2)
        team.wait_for("acme", secret)
        until(lambda: calls() == {40}, SOON_S)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*command, *subject, *files], check=True, capture_output=True, timeout=60)
    return folder


def test_a_server_speaks_tls_and_a_client_checks_its_certificate(
    tmp_path, certificate, monkeypatch
):
    options = ["--certificate", f"{certificate}/cert.pem", "--key", f"{certificate}/key.pem"]
    with running(tmp_path, options=options) as team:
        _, secret = team.token("acme")
        team.wait_for("acme", secret)
        place = f"https://localhost:{team.port}/acme"
        refused = run("login", place, input=secret)
        assert refused.exit_code == 7 and "certificate" in refused.stderr
        monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}/cert.pem")
        assert run("login", place, input=secret).exit_code == 0
        open_store(place).append("c", sealed(None, [NOTE], kind="note"), expect=0)
        assert open_store(place).conversation("c").head == 1
        with socket.create_connection(("127.0.0.1", team.port)) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not plain.recv(1_000).startswith(b"HTTP/1.1 200")
