"""One server for all tests that leave it running, and a database of its own for each place."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.real.postgres.cluster import Bouncer, Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    # Nothing is killed here, so nothing has to reach the disk.
    with running({"fsync": "off"}) as one:
        yield one


@pytest.fixture(scope="session")
def bouncer(server: Server) -> Iterator[Bouncer]:
    one = Bouncer(server.data.parent, server)
    yield one
    one.stop()


@pytest.fixture
def url(server: Server) -> str:
    """A place nobody else has: an org of its own."""
    return f"{server.url}?org={fresh_org()}"


def fresh_org() -> str:
    return f"org-{secrets.token_hex(6)}"
