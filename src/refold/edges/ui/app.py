"""The web view as an ASGI application: admits a call, finds its route, and answers in a worker
thread.

All answers are JSON but the page itself and its files, which are a fixed table. Every answer
carries the headers that keep the page alone: it loads nothing from elsewhere, runs only its own
modules, and is in no frame and no cache. Changes of the store are streamed as server-sent events
while somebody looks. Neighbours: `access` admits, `answers` has the values.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from refold import decoding
from refold.edges.local_access import Unauthorized
from refold.edges.server.connection import ENDING, SETTINGS, log_to_stderr
from refold.edges.ui.access import STATIC, WRONG_S, Access, NotAllowed, values_of
from refold.edges.ui.answers import Answers
from refold.errors import OUTCOMES, Invalid, NotFound, RefoldError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Value = TypeVar("Value")

BODY_BYTES_MAX = 65_536
GZIP_BYTES_MIN, GZIP_LEVEL = 1_400, 5
LOOK_S, BEAT_S = 0.5, 15.0
BODY_S = 10.0
CONNECTIONS_MAX = 64
STATUSES = {"unauthorized": 401, "not-allowed": 405}
MODULES = (
    "acts",
    "app", "bill", "chart", "compaction", "dom", "home", "inspector", "ledger", "list", "message",
    "pieces", "search", "server", "session", "states",
)  # fmt: skip
TYPES = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    **{f"{name}.js": "text/javascript; charset=utf-8" for name in MODULES},
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
SEARCH, SAVE = "find", "save"
DOWNLOAD = [(b"content-type", b"text/html"), (b"content-disposition", b"attachment")]
_ID = r"(?P<id>[A-Za-z0-9._-]{1,64})"
ROUTES = tuple(
    (method, re.compile(pattern), name)
    for method, pattern, name in (
        ("GET", r"/api/overview", "overview"),
        ("GET", r"/api/usage", "usage"),
        ("GET", r"/api/find", SEARCH),
        ("GET", rf"/api/s/{_ID}", "conversation"),
        ("GET", rf"/api/s/{_ID}/lines", "lines"),
        ("GET", rf"/api/s/{_ID}/message/(?P<seq>\d{{1,15}})", "message"),
        ("GET", rf"/api/s/{_ID}/shown/(?P<seq>\d{{1,15}})", "shown"),
        ("GET", rf"/api/s/{_ID}/standin/(?P<seq>\d{{1,15}})", "standin"),
        ("GET", rf"/api/s/{_ID}/why/(?P<seq>\d{{1,15}})", "why"),
        ("GET", rf"/api/s/{_ID}/window", "window"),
        ("GET", rf"/api/s/{_ID}/ledger", "ledger"),
        ("GET", rf"/api/s/{_ID}/save", SAVE),
        ("POST", rf"/api/s/{_ID}/rehearse", "rehearse"),
        ("POST", rf"/api/s/{_ID}/do", "do"),
    )
)


class App:
    """The application. `answers` is used in one thread, and its search in another: the first one
    may have to index everything."""

    def __init__(self, answers: Answers, access: Access) -> None:
        self._answers, self._access = answers, access
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="refold-ui")
        self._searching = ThreadPoolExecutor(max_workers=1, thread_name_prefix="refold-find")
        self._ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            try:
                await self._answer(scope, receive, send)
            except RefoldError as error:
                await _send_error(send, error)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.get("state", {})[ENDING] = self._ended.set
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._in_thread(self._answers.close)
        await self._in_thread(self._answers.close_search, searches=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _in_thread(self, work: Callable[[], Value], *, searches: bool = False) -> Value:
        thread = self._searching if searches else self._reading
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._access.check(scope)
        method = scope["method"]
        if method == "GET" and (path == "/" or path.encode().startswith(STATIC)):
            name = "index.html" if path == "/" else path.removeprefix(STATIC.decode())
            await _send(send, 200, static_file(name), [(b"content-type", TYPES[name].encode())])
        elif (method, path) == ("POST", "/enter"):
            cookie = await self._entered(await _body(receive))
            await _send_json(send, 200, b"{}", [(b"set-cookie", cookie.encode())])
        elif (method, path) == ("GET", "/api/live"):
            await self._live(receive, send)
        else:
            await self._route(scope, path, receive, send)

    async def _entered(self, body: bytes) -> str:
        """The cookie for a key. The answer to a wrong one comes late, and holds nobody up."""
        try:
            given = decoding.decode(body, Any)
            return self._access.enter(given.get("key") if isinstance(given, dict) else None)
        except msgspec.DecodeError as error:
            raise Invalid("the body is not JSON") from error
        except Unauthorized:
            await asyncio.sleep(WRONG_S)
            raise

    async def _route(self, scope: Scope, path: str, receive: Receive, send: Send) -> None:
        found = [(one, pattern.fullmatch(path), name) for one, pattern, name in ROUTES]
        routes = [(one, match, name) for one, match, name in found if match]
        if not routes:
            raise NotFound("there is no such path")
        for method, match, name in routes:
            if method == scope["method"]:
                query = _query(scope.get("query_string", b""))
                given: list[Any] = [{**query, **match.groupdict()}]
                if method == "POST":
                    given.append(await _body(receive))
                work = partial(self._encoded, name, *given)
                body = await self._in_thread(work, searches=name == SEARCH)
                if name == SAVE:
                    await _send(send, 200, body, DOWNLOAD)
                else:
                    await _send_json(send, 200, body, takes_gzip=_takes_gzip(scope))
                return
        raise NotAllowed(f"{scope['method']} is not supported here")

    def _encoded(self, name: str, *given: Any) -> bytes:
        value = getattr(self._answers, name)(*given)
        return value.encode() if name == SAVE else msgspec.json.encode(value)

    async def _live(self, receive: Receive, send: Send) -> None:
        """The heads of all conversations, at first and whenever one changes."""
        headers = [(b"content-type", b"text/event-stream"), *HEADERS]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        leaving = asyncio.ensure_future(_left(receive))
        ending = asyncio.ensure_future(self._ended.wait())
        loop = asyncio.get_running_loop()
        known: dict[str, int] | None = None
        sent_at = 0.0
        try:
            while not leaving.done() and not ending.done():
                heads = await self._in_thread(self._answers.heads)
                if heads != known:
                    known = heads
                    data = b"data: " + msgspec.json.encode(heads) + b"\n\n"
                elif loop.time() - sent_at > BEAT_S:
                    data = b": beat\n\n"
                else:
                    data = b""
                if data:
                    sent_at = loop.time()
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.wait((leaving, ending), timeout=LOOK_S)
        finally:
            leaving.cancel()
            ending.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """Returns once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _query(raw: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise Invalid("unreadable query") from error


def _takes_gzip(scope: Scope) -> bool:
    return any(b"gzip" in value for value in values_of(scope, b"accept-encoding"))


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    try:
        async with asyncio.timeout(BODY_S):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("the call was broken off")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > BODY_BYTES_MAX:
                    raise Invalid(f"the body is larger than {BODY_BYTES_MAX:,} bytes")
    except TimeoutError:
        raise Invalid(f"the body took more than {BODY_S:g} seconds") from None
    return body


@cache
def static_file(name: str) -> bytes:
    """A file of the page. NotFound for any other name."""
    if name not in TYPES:
        raise NotFound("there is no such file")
    return files(__package__).joinpath("static", name).read_bytes()


async def _send_json(
    send: Send,
    status: int,
    body: bytes,
    more: list[tuple[bytes, bytes]] | None = None,
    *,
    takes_gzip: bool = False,
) -> None:
    headers = [(b"content-type", b"application/json"), *(more or [])]
    if takes_gzip and len(body) >= GZIP_BYTES_MIN:
        body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL)
        headers.append((b"content-encoding", b"gzip"))
    await _send(send, status, body, headers)


async def _send(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    headers = [*headers, (b"content-length", b"%d" % len(body)), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_error(send: Send, error: RefoldError) -> None:
    status = STATUSES.get(error.code) or OUTCOMES.get(error.code, (500, 1))[0]
    said = {"code": error.code, "message": error.message, "hint": error.hint}
    # The rest of an unread body is not waited for.
    close = [(b"connection", b"close")]
    await _send_json(send, status, msgspec.json.encode({"error": said}), close)


# --- running ---


def serve(
    listening: socket.socket, answers: Answers, access: Access, tell: Callable[[str], None]
) -> None:
    """Serves until it is stopped. `tell` receives further addresses, which Enter asks for."""
    import uvicorn

    formatter = logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S")
    log_to_stderr(formatter, {"uvicorn": "CRITICAL"})

    settings = {**SETTINGS, "limit_concurrency": CONNECTIONS_MAX}
    server = uvicorn.Server(uvicorn.Config(App(answers, access), **settings))
    if sys.stdin is not None and sys.stdin.isatty():
        asking = threading.Thread(target=_print_addresses, args=(access, tell), daemon=True)
        asking.start()
    server.run(sockets=[listening])


def _print_addresses(access: Access, tell: Callable[[str], None]) -> None:
    for _ in sys.stdin:
        tell(access.address())
