"""How a server ends: the same way with one worker and with several, soon, and for all of them."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import httpx
import pytest

from refold.edges.server.connection import STOP_S
from tests.real.server.process import START_S, Team, running
from tests.waiting import is_running, until


def text(team: Team) -> str:
    return (team.root / "log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_stopped_server_ends_well_and_says_so(tmp_path, workers, number):
    team = Team(tmp_path, workers=workers)
    team.start()
    team.process.send_signal(number)
    assert team.process.wait(START_S) == 0
    assert "stopped serving" in text(team) and "can be served" not in text(team)


@pytest.mark.parametrize("workers", [1, 2])
def test_whoever_listens_does_not_delay_the_end(tmp_path, workers):
    with running(tmp_path, workers=workers) as team:
        _, secret = team.token("acme", "read")
        team.wait_for("acme", secret)
        url = f"{team.url}/api/v1/orgs/acme/context/feed"
        headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
        with httpx.stream("GET", url, headers=headers, timeout=START_S) as stream:
            parts = stream.iter_text()
            assert "rescan" in next(parts)
            began = time.monotonic()
            assert team.stop() == 0
            assert time.monotonic() - began < STOP_S, "nobody was waited for"
            assert "".join(parts) == "", "the stream ends as it should"


def test_workers_end_with_the_process_that_started_them(tmp_path):
    team = Team(tmp_path, workers=2)
    team.start()
    workers = team.workers()
    assert len(workers) == 2
    os.kill(team.process.pid, signal.SIGKILL)
    team.process.wait(START_S)
    until(lambda: not any(map(is_running, workers)))
    team.start()  # the port is free again
    assert team.stop() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_that_is_taken_is_told_before_anything_is_served(tmp_path, workers):
    team = Team(tmp_path, workers=workers)
    with socket.socket() as other:
        other.bind(("127.0.0.1", team.port))
        other.listen()
        team.launch()
        assert team.process.wait(START_S) == 8
    assert "cannot listen" in text(team) and "serving" not in text(team)


@pytest.mark.parametrize("workers", [1, 2])
def test_no_call_that_was_taken_is_left_without_an_answer(tmp_path, workers):
    """A connection for each call: answered, refused, or, if no worker has taken it when the port is
    closed, reset by the system. It is never taken and then closed without an answer."""
    with running(tmp_path, workers=workers) as team:
        _, secret = team.token("acme", "read")
        team.wait_for("acme", secret)
        cut, answered, ended = [], [], threading.Event()

        def call() -> None:
            while not ended.is_set():
                try:
                    answered.append(team.get("orgs/acme/context/token", secret).status_code)
                except (httpx.ConnectError, httpx.ReadError):
                    return
                except httpx.HTTPError as error:
                    cut.append(repr(error))

        callers = [threading.Thread(target=call, daemon=True) for _ in range(4)]
        for caller in callers:
            caller.start()
        until(lambda: len(answered) > 20)
        assert team.stop() == 0
        ended.set()
        for caller in callers:
            caller.join(START_S)
        assert set(answered) == {200} and not cut
