"""Who may call the web view: each rule by raw bytes on a socket."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import uvicorn

from refold.edges.local_access import Unauthorized
from refold.edges.server.connection import SETTINGS
from refold.edges.ui import app
from refold.edges.ui.access import Access
from refold.edges.ui.answers import Answers
from refold.errors import Denied
from tests.edges.ui.conftest import TIMEOUT_S, Running, write_session

DATA = "/api/s/talk"


def headers_of(running: Running, **changed: str | None) -> list[str]:
    """Headers of an admitted call, some of them changed or left out."""
    own: dict[str, str | None] = {
        "Host": running.host,
        "Cookie": running.cookie,
        "Sec-Fetch-Site": "same-origin",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    return [f"{name}: {value}" for name, value in own.items() if value is not None]


def test_an_admitted_call_is_answered_and_nothing_may_keep_or_frame_it(running: Running) -> None:
    status, headers, body = running.call(DATA, *headers_of(running), host=False)
    assert status == 200 and json.loads(body)["id"] == "talk"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and "trusted-types 'none'" in policy
    assert headers["cache-control"] == "no-store" and headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not any(name.startswith("access-control") for name in headers)


@pytest.mark.parametrize("target", ["/", "/static/app.js", DATA, "/api/overview", "/api/live"])
@pytest.mark.parametrize(
    "host",
    [
        None,
        "localhost",
        "127.0.0.1",
        "127.0.0.1:1",
        "evil.example",
        "127.0.0.1.evil.example:{port}",
        "evil.example:{port}",
        "[::1]:{port}",
        "0.0.0.0:{port}",
        "127.0.0.1:{port}@evil.example",
        "user@127.0.0.1:{port}",
    ],
)
def test_another_host_is_refused_on_every_path(
    running: Running, target: str, host: str | None
) -> None:
    given = None if host is None else host.format(port=running.port)
    status, _, _ = running.call(target, *headers_of(running, Host=given), host=False)
    assert status in (400, 403)


def test_two_hosts_or_an_absolute_address_are_refused(running: Running) -> None:
    given = headers_of(running)
    assert running.call(DATA, *given, f"Host: {running.host}", host=False)[0] in (400, 403)
    assert running.call(DATA, *given, "Host: evil.example", host=False)[0] in (400, 403)
    assert running.call(f"http://{running.host}{DATA}", *given, host=False)[0] == 400
    assert running.call("http://evil.example/", *given, host=False)[0] == 400


@pytest.mark.parametrize("cookie", [None, "", "refold-{port}=", "refold-{port}=x", "other={value}"])
def test_without_the_cookie_nothing_is_known(running: Running, cookie: str | None) -> None:
    """And a session that exists is answered like one that does not."""
    value = running.cookie.partition("=")[2]
    text = None if cookie is None else cookie.format(port=running.port, value=value)
    answers = [
        running.call(target, *headers_of(running, Cookie=text), host=False)
        for target in (DATA, "/api/s/none", "/api/nothing", "/api/overview")
    ]
    assert {status for status, _, _ in answers} == {401}
    assert len({body for _, _, body in answers}) == 1
    assert running.call("/", *headers_of(running, Cookie=text), host=False)[0] == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "Cross-Site", "x"])
def test_a_call_from_another_site_is_refused(running: Running, site: str) -> None:
    status, _, _ = running.call(DATA, *headers_of(running, Sec_Fetch_Site=site), host=False)
    assert status == 403
    status, _, _ = running.call("/", *headers_of(running, Sec_Fetch_Site=site), host=False)
    assert status == (200 if site == "none" else 403)  # a person may type the address


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", None]
)
def test_only_the_page_may_write(running: Running, origin: str | None) -> None:
    given = ["Content-Type: application/json"]
    if origin is not None:
        given.append(f"Origin: {origin.format(port=running.port)}")
    assert running.enter("x", *given)[0] == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_form_cannot_write(running: Running, kind: str | None) -> None:
    given = [f"Origin: http://{running.host}", *([f"Content-Type: {kind}"] if kind else [])]
    assert running.enter("x", *given)[0] == 400


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "HEAD"])
def test_other_methods_do_not_exist(running: Running, method: str) -> None:
    assert running.call(DATA, *headers_of(running), method=method, host=False)[0] == 405


ROUTES = [
    ("GET", path)
    for path in (
        *("/api/overview", "/api/usage", "/api/find?q=x", "/api/live", DATA),
        *(f"{DATA}/{name}" for name in ("lines", "message/3", "shown/3", "standin/3", "why/3")),
        *(f"{DATA}/{name}" for name in ("window", "ledger", "save")),
    )
] + [("POST", f"{DATA}/{name}") for name in ("rehearse", "do")]


@pytest.mark.parametrize("method, target", ROUTES)
def test_every_route_needs_the_cookie_the_host_and_the_site(
    running: Running, method: str, target: str
) -> None:
    """Of every route that the application has."""
    own = {"Origin": f"http://{running.host}", "Content_Type": "application/json"}
    given: dict[str, str] = own if method == "POST" else {}
    body = b"{}" if method == "POST" else b""

    def status(**changed: str | None) -> int:
        headers = headers_of(running, **given, **changed)
        return running.call(target, *headers, method=method, body=body, host=False)[0]

    assert status(Cookie=None) == 401
    assert status(Host=f"evil.example:{running.port}") == 403
    assert status(Sec_Fetch_Site="cross-site") == 403
    other = "GET" if method == "POST" else "POST"
    headers = headers_of(running, **own)
    assert running.call(target, *headers, method=other, body=b"{}", host=False)[0] in (404, 405)


def test_the_table_of_routes_is_complete() -> None:
    named = {f"{method} {target.partition('?')[0]}" for method, target in ROUTES}
    for method, pattern, name in app.ROUTES:
        found = [one for one in named if pattern.fullmatch(one.partition(" ")[2])]
        assert any(one.startswith(method) for one in found), name


def test_there_is_no_web_socket(running: Running) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    status, _, _ = running.call(
        "/api/live", *headers_of(running, Cookie=None), *upgrade, key, host=False
    )
    assert status == 401


def test_too_many_connections_are_refused_and_later_served_again(running: Running) -> None:
    lines = ["GET /api/live HTTP/1.1", *headers_of(running), "", ""]
    with ExitStack() as held:
        for _ in range(app.CONNECTIONS_MAX):
            one = socket.create_connection(("127.0.0.1", running.port), timeout=TIMEOUT_S)
            held.enter_context(one)
            one.sendall("\r\n".join(lines).encode())
            assert one.recv(15)
        assert running.call(DATA, *headers_of(running), host=False)[0] == 503
    statuses = (running.call(DATA, *headers_of(running), host=False)[0] for _ in range(200))
    assert 200 in statuses


def test_a_saved_session_is_downloaded_and_never_shown_here(running: Running) -> None:
    status, headers, body = running.call(f"{DATA}/save", *headers_of(running), host=False)
    assert status == 200 and body.startswith(b"<!doctype html>")
    assert headers["content-disposition"] == "attachment"


@pytest.mark.parametrize(
    "target",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/gate.py",
        "/static/app.py",
        "/static/",
        "/api/s/..%2f..",
        "/api/s/none",
        "/api/s/talk/message/1e3",
        "/api/s/talk/message/999999",
        "//evil.example/",
    ],
)
def test_what_is_not_there_is_refused(running: Running, target: str) -> None:
    assert running.call(target, *headers_of(running), host=False)[0] in (400, 404)


def test_a_large_body_is_refused(running: Running) -> None:
    status, _, _ = running.enter("x" * 70_000)
    assert status == 400


def test_a_slow_body_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of it, a part of it, and a byte now and then: refused, and the connection is closed."""
    monkeypatch.setattr(app, "BODY_S", 0.3)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    answers = Answers(f"sqlite:{tmp_path / 'none.db'}")
    server = uvicorn.Server(uvicorn.Config(app.App(answers, Access(port)), **SETTINGS))
    serving = threading.Thread(target=server.run, args=([listening],))
    serving.start()
    head = f"POST /enter HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 600\r\n\r\n"
    try:
        for first, drips in ((b"", 0), (b'{"key": "', 0), (b"{", 500)):
            with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
                connection.sendall(head.encode() + first)
                answer = b""
                for _ in range(drips):
                    if select.select([connection], [], [], 0.05)[0]:
                        break
                    connection.sendall(b" ")
                with suppress(ConnectionResetError):  # it still had bytes of ours
                    while chunk := connection.recv(65_536):
                        answer += chunk
            assert answer.startswith(b"HTTP/1.1 400 "), answer
            assert b"the body took more than 0.3 seconds" in answer
    finally:
        server.should_exit = True
        serving.join()


def test_it_listens_on_this_machine_alone(running: Running) -> None:
    address = socket.gethostbyname(socket.gethostname())
    if address.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError):
        socket.create_connection((address, running.port), timeout=2.0).close()


def test_the_address_works_once(running: Running) -> None:
    assert running.enter(running.key)[0] == 401


def test_a_browser_with_the_key_gets_a_cookie_that_no_script_and_no_other_site_has() -> None:
    access = Access(8_080)
    address = access.address()
    cookie = access.enter(address.split("#key=")[1])
    assert cookie.startswith("refold-8080=")
    assert cookie.endswith("; HttpOnly; SameSite=Strict; Path=/")
    assert address.startswith("http://127.0.0.1:8080/#")


@pytest.mark.parametrize("key", ["", None, 5, "x", "\ud800"])
def test_however_many_wrong_keys_the_right_one_admits_once(key: object) -> None:
    access = Access(8_080)
    with pytest.raises(Unauthorized):
        access.enter(key)  # before there is one
    right = access.new_key()
    for _ in range(100):
        with pytest.raises(Unauthorized):
            access.enter(key)
    access.enter(right)
    for used in (right, key):
        with pytest.raises(Unauthorized):
            access.enter(used)
    access.enter(access.new_key())  # a further address begins again


BODIES = {
    **dict.fromkeys([b"\xff", b'{"key": "\xff\xfe"}', b"{", b"", b"[" * 5_000], 400),
    **dict.fromkeys([b"5", b"[]", b'{"key": 5}', b'{"key": "\\u20ac"}', b"{}"], 401),
}


@pytest.mark.parametrize("body", BODIES)
def test_no_body_at_the_door_breaks_the_server_or_holds_others_up(
    body: bytes, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "WRONG_S", 0.0)
    head = [
        "POST /enter HTTP/1.1",
        f"Host: {running.host}",
        f"Origin: http://{running.host}",
        "Content-Type: application/json",
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    with socket.create_connection(("127.0.0.1", running.port), timeout=20.0) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        answer = connection.makefile("rb").read()
    assert answer.split()[1] == str(BODIES[body]).encode(), answer


def test_the_right_key_does_not_wait_for_wrong_ones(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()

    async def sleep(_: float) -> None:
        while not never.is_set():
            await real(0.01)

    real = app.asyncio.sleep
    monkeypatch.setattr(app.asyncio, "sleep", sleep)
    access = Access(8_080)
    view = app.App.__new__(app.App)
    view._access = access
    right = json.dumps({"key": access.new_key()}).encode()

    async def both() -> str:
        wrong = [app.asyncio.ensure_future(view._entered(b'{"key": "x"}')) for _ in range(50)]
        await real(0)
        cookie = await view._entered(right)
        never.set()
        for one in wrong:
            with suppress(Unauthorized):
                await one
        return cookie

    assert app.asyncio.run(both()).startswith("refold-8080=")


def test_changes_are_streamed_while_somebody_looks(running: Running) -> None:
    lines = "\r\n".join(["GET /api/live HTTP/1.1", *headers_of(running)])
    with socket.create_connection(("127.0.0.1", running.port), timeout=20.0) as connection:
        connection.sendall(f"{lines}\r\n\r\n".encode())
        seen = b""
        while b'"talk"' not in seen:
            seen += connection.recv(4_096)
        write_session(running.store, "later", turns=1)
        started = time.monotonic()
        while b'"later"' not in seen and time.monotonic() - started < 20.0:
            seen += connection.recv(4_096)
    assert b"text/event-stream" in seen and b'"later"' in seen


def test_a_foreign_host_is_told_the_address_of_this_page() -> None:
    for port in (4280, 65_535):
        scope = {"method": "GET", "path": "/", "headers": [(b"host", b"evil.example")]}
        with pytest.raises(Denied) as refused:
            Access(port).check(scope)
        assert refused.value.hint == f"open http://127.0.0.1:{port}/"
