"""A server in this process, and clients of it: HTTP without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import httpx
import pytest

from refold.edges.server.access import Orgs, Scope
from refold.edges.server.app import Server
from refold.edges.server.rate_limits import Limits

T = TypeVar("T")
BASE = "/api/v1/orgs/acme/context"


class Served:
    """A server that runs, the secrets of its tokens by scope, and a client."""

    def __init__(self, server: Server, client: httpx.AsyncClient) -> None:
        self.server, self.client = server, client
        self.secrets: dict[str, str] = {}

    def token(self, scope: Scope, org: str = "acme", days: float | None = None) -> str:
        return self.server.tokens.create(org, scope, days=days)[1]

    async def call(
        self, method: str, path: str, *, scope: str = "admin", secret: str | None = None, **given
    ) -> httpx.Response:
        headers = dict(given.pop("headers", {}))
        secret = self.secrets[scope] if secret is None else secret
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        path = path if path.startswith("/") else f"{BASE}/{path}"
        return await self.client.request(method, path, headers=headers, **given)


def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of calls are not filled again, however long the calls take."""
    still = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("refold.edges.server.rate_limits.time", still)


def served(
    root: Path,
    work: Callable[[Served], Awaitable[T]],
    *,
    limits: Limits | None = None,
    hosts: frozenset[str] = frozenset(),
) -> T:
    """Runs a server for as long as `work` takes."""

    async def run() -> T:
        orgs = Orgs(f"sqlite:{root}/orgs")
        server = Server(orgs, limits or Limits(), hosts=hosts)
        transport = httpx.ASGITransport(app=server, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        started = Served(server, client)
        for scope in ("read", "write", "admin"):
            started.secrets[scope] = started.token(scope)
        await server.start()
        try:
            return await work(started)
        finally:
            await client.aclose()
            await server.stop()

    return asyncio.run(run())
