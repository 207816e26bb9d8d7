"""The way to the providers: direct, or as the environment says; and nothing of an answer stays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from refold.edges.proxy.upstream import Upstream, target_of

ELSEWHERE = "http://provider.invalid"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, self.headers.get("cookie")))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("set-cookie", "a=b")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is printed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    server = _Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def posted(base: str, times: int = 1) -> list[bytes]:
    """What a provider at this address answers."""

    async def main() -> list[bytes]:
        upstream = Upstream({"anthropic": base})
        target = target_of("POST", b"/v1/messages", ())
        found = []
        try:
            for _ in range(times):
                answer = await upstream.send("POST", target, b"", [], b"{}")
                found.append(b"".join([chunk async for chunk in answer.chunks()]))
                await answer.close()
        finally:
            await upstream.close()
        return found

    return asyncio.run(main())


def test_a_provider_is_called_at_its_own_address(server: _Server) -> None:
    assert posted(server.url) == [b"ok"]
    assert server.asked == [("/v1/messages", None)]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_asked(
    name: str, server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, server.url)
    assert posted(ELSEWHERE) == [b"ok"]
    assert server.asked == [(f"{ELSEWHERE}/v1/messages", None)]


def test_what_the_environment_excepts_is_called_directly(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert posted(server.url) == [b"ok"]
    assert server.asked == [("/v1/messages", None)]


@pytest.mark.parametrize("environment", [{}, {"HTTP_PROXY": "http://127.0.0.1:9"}])
def test_no_cookie_of_a_provider_is_kept(
    environment: dict[str, str], server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (environment | {"NO_PROXY": "127.0.0.1"}).items():
        monkeypatch.setenv(name, value)
    assert posted(server.url, times=3) == [b"ok"] * 3
    assert [cookie for _, cookie in server.asked] == [None] * 3
