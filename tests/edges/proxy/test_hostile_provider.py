"""A provider that lies and a page that calls: the proxy answers with an error of its own, keeps
serving, and holds little. Over real sockets, because the ends of HTTP are only there."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.local_access import Gate
from refold.edges.proxy import savings
from refold.edges.proxy import upstream as upstream_module
from refold.edges.proxy.app import Proxy
from refold.edges.proxy.conversation_registry import ConversationRegistry
from refold.edges.proxy.folding import Folding
from refold.edges.proxy.observer import Observer
from refold.edges.proxy.own_tools import rounds
from refold.edges.proxy.savings import UsageReader
from refold.edges.proxy.upstream import Limits, Refused, Upstream, target_of
from refold.edges.server.connection import SETTINGS
from refold.errors import Invalid
from refold.stores import open_store
from tests.edges.proxy.kit import plain_answer
from tests.system.test_http_answer import BOMB, Send, body, endless, evil, head, packed

PEEK_S, SLACK_S = 0.2, 10.0
HELD_BYTES_MAX = 64 * 1024 * 1024
CALL = {
    "model": "claude-opus-5-5",
    "max_tokens": 9,
    "tools": [{"name": "r", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "Hello."}],
}


def refused(text: bytes, *headers: str) -> Callable[[Send], None]:
    return lambda send: send(head("400 No", f"content-length: {len(text)}", *headers) + text)


# The kind of answer, and the status that the client gets; 0 for a connection that ends early.
LIES: dict[str, tuple[Callable[[Send], None], int]] = {
    "a bomb of an error": (refused(BOMB, "content-encoding: gzip"), 400),
    "two bombs": (refused(packed(0) + BOMB, "content-encoding: gzip, gzip"), 400),
    "damaged gzip": (refused(b"no gzip", "content-encoding: gzip"), 400),
    "an error that drips": (endless(head("400 No"), then=b" ", pause_s=0.02), 504),
    "an error that is cut off": (
        lambda send: send(head("400 No", "content-length: 99") + b"{"),
        502,
    ),
    "a bomb": (body(BOMB, "content-encoding: gzip"), 200),
    "an unknown encoding": (body(BOMB, "content-encoding: br"), 200),
    "deep JSON": (body(b'{"usage":' + b"[" * 500_000), 200),
    "many values": (body(b'{"usage":[' + b"{}," * 2_000_000 + b"{}]}"), 200),
    "status 999": (lambda send: send(head("999 What", "content-length: 2") + b"{}"), 502),
    "status 600": (lambda send: send(head("600 What", "content-length: 2") + b"{}"), 502),
    "status 101": (lambda send: send(head("101 Other", "upgrade: x") + b"{}"), 502),
    "headers for ever": (endless(b"HTTP/1.1 200 OK\r\n", then=b"x: y\r\n" * 1_000), 502),
    "a negative length": (lambda send: send(head("200 OK", "content-length: -5") + b"{}"), 502),
    "no HTTP": (lambda send: send(b"\x16\x03\x01" * 2_000), 502),
    "nothing": (lambda send: None, 502),
}


class Running:
    """A proxy on a real port, in a thread of this process."""

    def __init__(self, provider: str, *, tools: bool = False) -> None:
        limits = Limits(connect_s=2.0)
        book = ConversationRegistry(open_store("memory:"), Folding(folds=True, tools=tools), limits)
        bases = {"anthropic": provider, "openai": provider, "gemini": provider}
        proxy = Proxy(Upstream(bases, limits), Observer(book), limits=limits, close=book.close)  # type: ignore[arg-type]
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(proxy, **SETTINGS))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, daemon=True
        )
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def said(self, request: bytes) -> bytes:
        """The answer to raw bytes, up to the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), SLACK_S) as connection:
            connection.sendall(request)
            answer = b""
            while part := connection.recv(65_536):
                answer += part
        return answer

    def status(self, request: bytes) -> int:
        return int(self.said(request)[9:12] or b"0")

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(SLACK_S)


def raw(method: str, target: str, *headers: str, content: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "connection: close", *headers]
    if content:
        lines.append(f"content-length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


MESSAGES = raw(
    "POST",
    "/anthropic/v1/messages",
    "host: 127.0.0.1",
    "content-type: application/json",
    "accept-encoding: gzip",
    content=json.dumps(CALL).encode(),
)


@pytest.mark.parametrize("lie", LIES)
def test_a_provider_that_lies_costs_little_and_ends_with_an_answer(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_module.Answer.peek, "__defaults__", (PEEK_S,))
    play, status = LIES[lie]
    with evil(play) as provider:
        running = Running(provider.url)
        try:
            tracemalloc.start()
            begun = time.monotonic()
            assert running.status(MESSAGES) == status
            assert running.status(raw("GET", "/refold/ready", "host: localhost")) == 200
            assert time.monotonic() - begun < SLACK_S
            assert tracemalloc.get_traced_memory()[1] < HELD_BYTES_MAX
        finally:
            tracemalloc.stop()
            running.stop()


@pytest.mark.parametrize("size_max", [1_000, 1_000_000])
@pytest.mark.parametrize("times", [1, 50, 5_000])
@pytest.mark.parametrize("coding", ["", "gzip", "deflate"])
def test_a_look_at_an_answer_shows_it_whole_or_not_at_all_and_relays_it_all_the_same(
    coding: str, times: int, size_max: int
) -> None:
    whole = b'{"error": "too long"}' * times
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    came = packer.compress(whole) + packer.flush() if coding else whole

    async def main() -> tuple[bytes | None, bytes]:
        with evil(refused(came, f"content-encoding: {coding}")) as provider:
            upstream = Upstream({"anthropic": provider.url})
            target = target_of("POST", b"/v1/messages", ())
            answer = await upstream.send("POST", target, b"", [], b"{}")
            seen = await answer.peek(size_max)
            relayed = b"".join([chunk async for chunk in answer.chunks()])
            await answer.close()
            await upstream.close()
            return seen, relayed

    assert asyncio.run(main()) == (whole if len(whole) <= size_max else None, came)


def test_an_answer_that_is_looked_at_too_long_is_given_up() -> None:
    async def main() -> None:
        with evil(endless(head("400 No"), then=b" ", pause_s=0.02)) as provider:
            upstream = Upstream({"anthropic": provider.url})
            target = target_of("POST", b"/v1/messages", ())
            answer = await upstream.send("POST", target, b"", [], b"{}")
            with pytest.raises(Refused, match="did not answer in time"):
                await answer.peek(1_000_000, 0.1)
            await answer.close()
            await upstream.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize(
    "fill", [b"\n", b"\0", b'"usage":1\n', b'{"usage":{}}\n', b"data: {}\n\n", b'{"usage":1},']
)
def test_the_usage_of_a_bomb_is_not_looked_for(
    kind: str, fill: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savings, "USAGES_MAX", 500)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(fill * (40_000_000 // len(fill))) + packer.flush()
    reader = UsageReader("anthropic", {"content-type": kind, "content-encoding": "gzip"})
    tracemalloc.start()
    try:
        for at in range(0, len(bomb), 65_536):
            reader.feed(bomb[at : at + 65_536])
        assert tracemalloc.get_traced_memory()[1] < HELD_BYTES_MAX
    finally:
        tracemalloc.stop()
    assert reader.usage is None and reader.copy is None


def test_an_answer_held_for_our_tools_has_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "WHOLE_S", PEEK_S)
    with evil(endless(head(), then=b" ", pause_s=0.02)) as provider:
        running = Running(provider.url, tools=True)
        try:
            assert running.status(MESSAGES) == 504
        finally:
            running.stop()


# --- who may call ---


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    _, _, text = plain_answer(b"")
    with evil(body(text)) as provider:
        proxy = Running(provider.url)
        proxy.provider = provider  # type: ignore[attr-defined]
        yield proxy
        proxy.stop()


HOSTS = {
    "127.0.0.1:{port}": True,
    "LOCALHOST": True,
    "[::1]:{port}": True,
    "evil.example": False,
    "127.0.0.1.evil.example": False,
    "127.0.0.1:{port}.evil.example": False,
    "127.0.0.1:{port}:{port}": False,
    "127.0.0.1:": False,
    "127.0.0.1:0": False,
    "127.0.0.1:65536": False,
    "127.0.0.1:{port}/": False,
    "[::1].evil.example:{port}": False,
    "[::1]evil.example": False,
    "evil.example@127.0.0.1:{port}": False,
    "localhost.": False,
    "localhost@evil.example": False,
    "": False,
}
# None: none is sent. True: that of the Host.
ORIGINS: dict[str | None, bool] = {
    None: True,
    "http://{host}": True,
    "http://localhost:3000": False,
    "http://127.0.0.1": False,
    "https://127.0.0.1.nip.io": False,
    "http://{host}.evil.example": False,
    "http://{host}@evil.example": False,
    "null": False,
    "": False,
}
SITES: dict[str | None, bool] = {
    None: True, "same-origin": True, "none": True,
    "cross-site": False, "same-site": False, "CROSS-SITE": False, "other": False, "": False,
}  # fmt: skip
CALLERS = list(itertools.product(HOSTS, ORIGINS, SITES))


def test_only_a_call_by_an_own_name_from_no_other_page_is_passed_on(running: Running) -> None:
    provider = running.provider  # type: ignore[attr-defined]
    for named, origin, site in CALLERS:
        host = named.format(port=running.port)
        headers = [f"host: {host}"]
        headers += [] if origin is None else [f"origin: {origin.format(host=host)}"]
        headers += [] if site is None else [f"sec-fetch-site: {site}"]
        before = provider.calls
        status = running.status(raw("GET", "/anthropic/v1/models", *headers))
        is_own = origin == "http://127.0.0.1" and host == "127.0.0.1"
        is_admitted = HOSTS[named] and (ORIGINS[origin] or is_own) and SITES[site]
        assert (status == 200) == is_admitted, (headers, status)
        assert provider.calls - before == is_admitted
        if not is_admitted:
            assert status in (400, 403)


TARGETS = [
    "http://evil.example/x", "http://127.0.0.1/anthropic/v1/models", "https://evil.example/",
    "*", "evil.example:443", "127.0.0.1:443", "anthropic/v1/models", "?x", "@evil.example/",
]  # fmt: skip
METHODS = ["GET", "POST", "OPTIONS", "CONNECT", "HEAD", "PATCH", "TRACE"]


def encoded(segment: str, times: int) -> str:
    """The segment with its first character encoded that often."""
    hexed = f"{ord(segment[0]):02x}"
    return f"%{'25' * (times - 1)}{hexed}{segment[1:]}" if times else segment


WORDS = st.sampled_from(
    ["v1", "messages", "anthropic", "gemini-1.5-pro:generateContent", "a.b", "...", "..a"]
)
SEPARATORS = st.sampled_from(["/", "\\", "%2f", "%2F", "%5c", "%252f", "//"])


@given(
    words=st.lists(WORDS, min_size=1, max_size=4),
    dots=st.sampled_from(["", ".", "..", "..;a=b", ".;x"]),
    times=st.integers(0, 3),
    between=st.tuples(SEPARATORS, SEPARATORS),
    at=st.integers(0, 4),
)
def test_a_path_with_a_dot_segment_is_refused_in_every_spelling(
    words: list[str], dots: str, times: int, between: tuple[str, str], at: int
) -> None:
    before, after = "/".join(words[:at]), "/".join(words[at:])
    target = (
        f"/{before}{between[0]}{encoded(dots, times)}{between[1]}{after}" if dots else f"/{after}"
    )
    scope = {"method": "POST", "raw_path": target.encode(), "headers": [(b"host", b"localhost")]}
    if dots:
        with pytest.raises(Invalid, match="is not a call"):
            Gate().check(scope)
    else:
        assert Gate().check(scope) == target.encode()


def test_a_dot_segment_reaches_no_provider(running: Running) -> None:
    provider = running.provider  # type: ignore[attr-defined]
    before = provider.calls
    for path in ("/../../../etc", "/v1/%2e%2E/x", "/v1/..%2f..%2fx", "/%252e%252e/x", "/v1/."):
        for method in ("GET", "POST"):
            assert running.status(raw(method, f"/anthropic{path}", "host: localhost")) == 400, path
    assert provider.calls == before


def test_a_target_that_is_not_a_path_is_refused(running: Running) -> None:
    provider = running.provider  # type: ignore[attr-defined]
    before = provider.calls
    for method, target in [*itertools.product(METHODS, TARGETS), ("CONNECT", "/v1/messages")]:
        assert running.status(raw(method, target, "host: localhost")) == 400, (method, target)
    assert running.status(raw("GET", "/anthropic/v1/models")) in (400, 403), "no Host"
    two = ("host: localhost", "host: evil.example")
    assert running.status(raw("GET", "/anthropic/v1/models", *two)) in (400, 403)
    assert provider.calls == before
