"""The way to the providers: direct, or as the environment says; and nothing of an answer stays."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.edges.proxy.upstream import Limits, Refused, Upstream, target_of
from tests.system.test_http_answer import endless, evil

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


class Hurried(selectors.SelectSelector):
    """Waits in no time: what a loop would wait for passes on a clock of its own."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += timeout or 0.0
        return super().select(0)


class Provisional(httpx.AsyncBaseTransport):
    """A provider that is never silent: it says every second that it works, until it answers."""

    def __init__(self, answers_after_s: int) -> None:
        self.answers_after_s = answers_after_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        for _ in range(self.answers_after_s):
            await asyncio.sleep(1)
        return httpx.Response(200, stream=httpx.ByteStream(b""))


@settings(deadline=None, max_examples=50)
@given(
    silence_s=st.integers(1, 1_000),
    answers_after_s=st.integers(0, 2_000),
    client_s=st.lists(st.integers(0, 5_000), max_size=4) | st.none(),
)
def test_a_call_ends_unless_its_final_status_comes_in_time(
    silence_s: int, answers_after_s: int, client_s: list[int] | None
) -> None:
    """The client may be as slow as it likes; its time is not the provider's."""

    async def slowly(pauses: list[int]) -> AsyncIterator[bytes]:
        for pause_s in pauses:
            await asyncio.sleep(pause_s)
            yield b"x"

    async def status() -> int:
        limits = Limits(silence_s=silence_s + 0.5)
        upstream = Upstream(limits=limits, transport=Provisional(answers_after_s))
        target = target_of("POST", b"/v1/messages", ())
        content = b"{}" if client_s is None else slowly(client_s)
        return (await upstream.send("POST", target, b"", [], content)).status

    selector = Hurried()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now_s  # type: ignore[method-assign]
    try:
        if answers_after_s <= silence_s:
            assert loop.run_until_complete(status()) == 200
        else:
            with pytest.raises(Refused, match="did not answer in time"):
                loop.run_until_complete(status())
    finally:
        loop.close()


def test_a_provider_that_only_says_that_it_works_is_given_up() -> None:
    async def main() -> None:
        with evil(endless(then=b"HTTP/1.1 102 Processing\r\n\r\n", pause_s=0.02)) as provider:
            upstream = Upstream({"anthropic": provider.url}, Limits(silence_s=0.2))
            target = target_of("POST", b"/v1/messages", ())
            with pytest.raises(Refused, match="did not answer in time"):
                await upstream.send("POST", target, b"", [], b"{}")
            await upstream.close()

    asyncio.run(main())
