"""A thousand callers that send half of something and wait: everybody else is served."""

from __future__ import annotations

import os
import socket
import time

import pytest

from refold.edges.server.rate_limits import Limits
from refold.settings import logins
from refold.stores import open_store
from refold.stores.contract.kit import sealed
from tests.real.server.process import Team, running

CONNECTIONS = 1_000
NOTE = b'{"kind":"n","data":1}'


def half_open(team: Team, text: bytes) -> list[socket.socket]:
    found = []
    for _ in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", team.port), timeout=60)
        one.sendall(text)
        found.append(one)
    return found


def forms(secret: str) -> dict[str, bytes]:
    path = b"POST /api/v1/orgs/acme/context/conversations/c/events?expect=0 HTTP/1.1\r\n"
    headers = b"Host: localhost\r\nAuthorization: Bearer %s\r\n" % secret.encode()
    artifact = b"POST /api/v1/orgs/acme/context/artifacts HTTP/1.1\r\n"
    return {
        "nothing": b"",
        "half a line": b"GET /heal",
        "half of the headers": path + b"Host: localhost\r\nX-Slow: ",
        "half of a body": path + headers + b"Content-Length: 1000000\r\n\r\n{",
        "half of an artifact": artifact + headers + b"Content-Length: 1000000\r\n\r\nx",
        "an answer that nobody reads": b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        * 20,
        "wrong token and half a body": path
        + b"Host: localhost\r\nAuthorization: Bearer rft_wrong\r\nContent-Length: 10\r\n\r\n{",
    }


@pytest.mark.parametrize("form", forms(""))
def test_a_thousand_slow_connections_do_not_stop_service(form, tmp_path):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8_192), hard))
    try:
        with running(tmp_path) as team:
            place = team.place("acme")
            secret = logins.token_for(place, os.environ)
            assert secret
            slow = half_open(team, forms(secret)[form])
            store = open_store(place)
            took: list[float] = []
            last = None
            for number in range(30):
                began = time.monotonic()
                [event] = sealed(last, [NOTE], kind="note")
                store.append("mine", [event], expect=number)
                assert store.conversation("mine").head == number + 1
                took.append(time.monotonic() - began)
                last = event
            for one in slow:
                one.close()
            # Less than those who are slow may take: nobody waited for them.
            assert max(took) < Limits().header_s and sorted(took)[len(took) // 2] < 3.0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
