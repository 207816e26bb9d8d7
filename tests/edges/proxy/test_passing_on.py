"""What goes through as it came: bytes, headers, status, unknown paths; and what is refused."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.local_access import Gate
from refold.edges.proxy.upstream import (
    URLS_MAX,
    Limits,
    base_checked,
    end_to_end,
    joined,
    readable,
    target_of,
    unpacked,
)
from refold.errors import Invalid
from tests.edges.proxy.kit import Provider, Running, answer, user, with_proxy


@pytest.mark.parametrize(
    ("path", "upstream"),
    [
        ("/anthropic/v1/models?limit=1000", "/v1/models?limit=1000"),
        ("/openai/v1/files/a%2Fb?x=1&y=%20", "/v1/files/a%2Fb?x=1&y=%20"),
        ("/gemini/v1beta/models", "/v1beta/models"),
        ("/api/hello", "/api/hello"),
        ("/v1/unknown/route", "/v1/unknown/route"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST", "OPTIONS"])
def test_a_route_that_nobody_knows_is_passed_on_as_it_came(
    path: str, upstream: str, method: str
) -> None:
    async def work(running: Running) -> httpx.Response:
        running.provider.answers.append((418, {"x-request-id": "r-1"}, b"teapot"))
        return await running.client.request(method, path, headers={"x-new-header": "1"})

    provider = Provider()
    answered = with_proxy(work, provider=provider)
    assert (answered.status_code, answered.headers["x-request-id"]) == (418, "r-1")
    assert provider.paths == [upstream]
    assert provider.headers[0]["x-new-header"] == "1"


@given(body=st.binary(max_size=300), status=st.sampled_from([200, 400, 401, 429, 500, 529]))
def test_bodies_of_any_bytes_go_up_and_come_back_unchanged(body: bytes, status: int) -> None:
    async def work(running: Running) -> httpx.Response:
        running.provider.answers.append((status, {"retry-after": "7"}, body[::-1]))
        return await running.client.post("/anthropic/v1/messages?beta=true", content=body)

    provider = Provider()
    answered = with_proxy(work, provider=provider)
    assert (answered.status_code, answered.content) == (status, body[::-1])
    assert answered.headers["retry-after"] == "7"
    assert provider.bodies == [body]


def test_an_answer_that_is_packed_stays_packed_and_its_usage_is_read() -> None:
    said = json.dumps({"type": "message", "usage": {"input_tokens": 77, "output_tokens": 3}})
    packed = gzip.compress(said.encode())

    async def work(running: Running) -> tuple[bytes, int]:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        running.provider.answers.append((200, headers, packed))
        messages = [user("hi"), answer("hello"), user("go on")]
        asked = {"accept-encoding": "br, gzip;q=0.5, zstd"}
        request = running.client.build_request(
            "POST",
            "/anthropic/v1/messages",
            json={"model": "m", "messages": messages},
            headers=asked,
        )
        response = await running.client.send(request, stream=True)
        raw = b"".join([chunk async for chunk in response.aiter_raw()])
        await running.settled()
        return raw, running.view(running.kept()[0]).totals.input

    provider = Provider()
    raw, billed = with_proxy(work, provider=provider)
    assert raw == packed and billed == 77
    assert provider.headers[0]["accept-encoding"] == "gzip;q=0.5"


def test_a_body_over_the_limit_of_looking_is_passed_on_unlogged() -> None:
    async def work(running: Running) -> list[str]:
        messages = [user("hi"), answer("x" * 5_000), user("go on")]
        assert (await running.messages(messages)).status_code == 200
        return running.kept()

    provider = Provider()
    assert with_proxy(work, provider=provider, limits=Limits(body_bytes=1_000)) == []
    assert "x" * 5_000 in provider.bodies[0].decode()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"messages": 5}', b'{"messages": [1]}', b"\xff", b'{"messages": [{}]}'],
)
def test_what_cannot_be_read_is_passed_on(body: bytes) -> None:
    async def work(running: Running) -> int:
        return (await running.client.post("/v1/messages", content=body)).status_code

    provider = Provider()
    assert with_proxy(work, provider=provider) == 200
    assert provider.bodies == [body]


def test_a_packed_body_is_passed_on_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    messages = [user("hi"), answer("hello"), user("go on")]
    packed = gzip.compress(json.dumps({"model": "m", "messages": messages}).encode())

    async def work(running: Running) -> list[str]:
        headers = {"content-encoding": "gzip"}
        await running.client.post("/v1/messages", content=packed, headers=headers)
        return running.kept()

    provider = Provider()
    assert with_proxy(work, provider=provider) == []
    assert provider.bodies == [packed] and provider.headers[0]["content-encoding"] == "gzip"
    assert caplog.text == ""


# --- who may call ---


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8743"}, 200),
        ({"host": "LOCALHOST"}, 200),
        ({"host": "[::1]:8743"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "127.0.0.1", "origin": "https://evil.example"}, 403),
        ({"host": "127.0.0.1", "origin": "null"}, 403),
        ({"host": "127.0.0.1", "origin": "http://localhost:3000"}, 403),
        ({"host": "127.0.0.1:8743", "origin": "http://127.0.0.1:8743"}, 200),
    ],
)
def test_only_this_machine_by_its_own_names_may_call(headers: dict[str, str], status: int) -> None:
    async def work(running: Running) -> int:
        return (await running.client.get("/v1/models", headers=headers)).status_code

    provider = Provider()
    assert with_proxy(work, provider=provider) == status
    assert len(provider.bodies) == (status == 200)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/anthropic/v1/models", {}, 401),
        ("/anthropic/v1/models", {"x-refold-token": "wrong"}, 401),
        ("/anthropic/v1/models", {"x-refold-token": "right"}, 200),
        ("/token/right/anthropic/v1/models", {}, 200),
        ("/token/wrong/anthropic/v1/models", {}, 401),
    ],
)
def test_a_token_is_needed_where_one_is_set_and_never_goes_upstream(
    path: str, headers: dict[str, str], status: int
) -> None:
    async def work(running: Running) -> int:
        given = {"host": "proxy.example", **headers}
        return (await running.client.get(path, headers=given)).status_code

    provider = Provider()
    gate = Gate(names=["proxy.example"], token="right")
    assert with_proxy(work, provider=provider, gate=gate) == status
    assert "right" not in str(provider.paths) + str(provider.headers)


@pytest.mark.parametrize("where", ["raw_path", "query_string"])
@pytest.mark.parametrize("byte", [*range(0x21), *b'"#<>?`{|}', *range(0x7F, 0x100)])
def test_a_target_that_no_url_can_have_is_refused_as_a_call(where: str, byte: int) -> None:
    path = {"raw_path": b"/v1/models", "query_string": b"a=b"}
    path[where] += bytes([byte]) + b"x"
    headers = [(b"host", b"127.0.0.1")]
    scope = {"method": "GET", "path": "/v1/models", "headers": headers, **path}
    if 0x21 <= byte < 0x7F and byte != ord("#"):
        assert Gate().check(scope).startswith(b"/v1/models")
    else:
        with pytest.raises(Invalid, match="is not a call"):
            Gate().check(scope)


def test_websockets_are_refused_plainly() -> None:
    async def work(running: Running) -> httpx.Response:
        headers = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-key": "x"}
        return await running.client.get("/openai/v1/responses", headers=headers)

    answered = with_proxy(work)
    assert answered.status_code == 426 and "websockets" in answered.json()["error"]["message"]


def test_a_provider_that_cannot_be_reached_is_an_error_that_clients_retry() -> None:
    class Away(Provider):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            raise httpx.ConnectError("no route")

    async def work(running: Running) -> httpx.Response:
        return await running.messages([user("hi")])

    answered = with_proxy(work, provider=Away())
    assert answered.status_code == 502
    assert answered.json()["error"]["message"].startswith("refold proxy: https://api.anthropic.com")


def test_more_calls_than_the_limit_are_told_to_come_again() -> None:
    async def work(running: Running) -> httpx.Response:
        return await running.messages([user("hi")])

    answered = with_proxy(work, limits=Limits(calls_at_once=0))
    assert (answered.status_code, answered.headers["retry-after"]) == (503, "1")


# --- the parts ---


@pytest.mark.parametrize(
    ("path", "headers", "provider", "dialect"),
    [
        (b"/v1/messages", (), "anthropic", "anthropic"),
        (b"/anthropic/v1/messages/count_tokens", (), "anthropic", "anthropic"),
        (b"/v1/chat/completions", (), "openai", "openai_chat"),
        (b"/openai/chat/completions", (), "openai", "openai_chat"),
        (b"/openai/v1/responses", (), "openai", "openai_responses"),
        (b"/v1beta/models/gemini-3-pro:streamGenerateContent", (), "gemini", "gemini"),
        (b"/openai/v1/messages", (), "openai", None),
        (b"/v1/models", (b"anthropic-version",), "anthropic", None),
        (b"/v1/models", (b"authorization",), "openai", None),
        (b"/v1/responses/compact", (), "anthropic", None),
        (b"/v1beta/models", (b"x-goog-api-key",), "gemini", None),
    ],
)
def test_the_path_says_whose_call_it_is(
    path: bytes, headers: tuple[bytes, ...], provider: str, dialect: str | None
) -> None:
    target = target_of("POST", path, headers)
    assert target.provider == provider
    assert (target.known.dialect if target.known else None) == dialect


def test_headers_of_one_connection_stay_behind() -> None:
    headers = [
        (b"connection", b"keep-alive, x-private"), (b"x-private", b"1"), (b"te", b"trailers"),
        (b"transfer-encoding", b"chunked"), (b"authorization", b"Bearer k"), (b"x-beta", b"2"),
    ]  # fmt: skip
    assert end_to_end(headers) == [(b"authorization", b"Bearer k"), (b"x-beta", b"2")]


@pytest.mark.parametrize(
    ("asked", "left"),
    [(b"br, gzip", b"gzip"), (b"br", b"identity"), (b"gzip, deflate", b"gzip, deflate")],
)
def test_only_encodings_are_asked_for_that_can_be_read(asked: bytes, left: bytes) -> None:
    assert readable([(b"accept-encoding", asked)]) == [(b"accept-encoding", left)]
    assert unpacked([(b"accept-encoding", asked), (b"x", b"1")]) == [
        (b"x", b"1"),
        (b"accept-encoding", b"identity"),
    ]


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "https://", "https://user:key@host", "https://h?q=1"]
)
def test_an_address_that_is_none_or_has_a_secret_in_it_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        base_checked(url)


@pytest.mark.parametrize(
    ("base", "path", "whole"),
    [
        (b"/", b"/v1/messages", b"/v1/messages"),
        (b"/v1", b"/v1/chat/completions", b"/v1/chat/completions"),
        (b"/v1/", b"/v1/responses", b"/v1/responses"),
        (b"/v1", b"/chat/completions", b"/v1/chat/completions"),
        (b"/v1beta", b"/v1beta/models/x:generateContent", b"/v1beta/models/x:generateContent"),
        (b"/openai/v1", b"/v1/models", b"/openai/v1/models"),
        (b"/v1", b"/v1beta/models", b"/v1/v1beta/models"),
        (b"/gateway", b"/gateway/v1/messages", b"/gateway/gateway/v1/messages"),
    ],
)
def test_a_version_in_the_address_and_in_the_path_is_meant_once(
    base: bytes, path: bytes, whole: bytes
) -> None:
    assert joined(base, path) == whole


def test_every_query_reaches_the_provider_however_many_there_are() -> None:
    async def work(running: Running) -> None:
        for _ in range(2):
            for number in range(URLS_MAX + 10):
                await running.client.get(f"/anthropic/v1/models?page={number}")

    provider = Provider()
    with_proxy(work, provider=provider)
    assert provider.paths == [f"/v1/models?page={number}" for number in range(URLS_MAX + 10)] * 2
