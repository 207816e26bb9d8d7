"""The server as an ASGI application: limits, tokens, routes, errors.

Every call goes the same way: its Host and Origin are checked, its route is found, its token is
asked for that route, its body is read within the limits, and the route runs in a worker thread. An
append is answered in front of the router, because a framework's way costs as much as the append.
Whatever fails is answered as one of `errors`, never with a text of the program's own. Neighbours:
`routes` has the table, `serve` runs this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec
from starlette.requests import Request
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router

from refold.edges.server.answer import Answer, answer_of, failure_of
from refold.edges.server.audit import Audit
from refold.edges.server.commit import GroupCommit
from refold.edges.server.feed import Feed, follow_store
from refold.edges.server.limits import Buckets, Busy, Limits
from refold.edges.server.logs import AppendQuery, append, events_checked
from refold.edges.server.metrics import Metrics
from refold.edges.server.orgs import Orgs
from refold.edges.server.route import Call, Route, query_of
from refold.edges.server.routes import APPEND, feed_route, table
from refold.edges.server.tokens import Token, Tokens
from refold.errors import Denied, Invalid, NotFound, RefoldError, Unavailable

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")

THREADS = 32
EACH_S = 1.0
_APPEND_PATH = re.compile(
    rb"/api/v1/orgs/([a-z0-9-]{1,39})/context/conversations/([A-Za-z0-9._-]{1,64})/events"
)
log = logging.getLogger("refold.server")


class Unauthorized(RefoldError):
    """There is no token, or none that is valid."""

    code = "unauthorized"


class TooLarge(RefoldError):
    """More than this server takes."""

    code = "too-large"


class Server:
    """One process of the team server."""

    def __init__(self, orgs: Orgs, limits: Limits, *, hosts: frozenset[str] = frozenset()) -> None:
        self.orgs, self.limits, self._hosts = orgs, limits, hosts
        self.tokens, self.audit = Tokens(orgs.own), Audit(orgs.own)
        self.metrics = Metrics()
        self._calls = Buckets(limits.calls_per_s, limits.burst)
        self._wrong = Buckets(limits.wrong_tokens_per_minute / 60, limits.wrong_tokens_per_minute)
        self._running = 0
        self._commits: dict[str, GroupCommit] = {}
        self._feeds: dict[str, Feed] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._threads: anyio.CapacityLimiter | None = None
        self.routes = table(self)
        self._router = Router([self._starlette(route) for route in self.routes])

    def _starlette(self, route: Route) -> StarletteRoute:
        async def endpoint(request: Request) -> Answer:
            return await self._serve(route, request.scope, request.receive)

        return StarletteRoute(route.path, endpoint, methods=[route.method])

    # --- ASGI ---

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        started = time.perf_counter()
        scope["refold.route"] = "none"
        answer = await self._answered(scope, receive)
        took_s = time.perf_counter() - started
        self.metrics.count(scope["refold.route"], answer.status, took_s)
        self._log(scope, answer.status, took_s)
        await answer(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive) -> Answer:
        try:
            if self._running >= self.limits.calls_at_once:
                self.metrics.refused["full"] += 1
                raise Busy(f"{self._running} calls are under way", retry_after_s=1.0)
            self._running += 1
            try:
                self._check_origin(scope)
                found = self._is_append(scope)
                if found is not None:
                    return await self._append(scope, receive, *found)
                return await self._routed(scope, receive)
            finally:
                self._running -= 1
        except Exception as error:
            return failure_of(error, log)

    async def _routed(self, scope: Scope, receive: Receive) -> Answer:
        """The answer of the route that the router finds."""
        box: list[Answer] = []
        sent: list[int] = []

        async def catch(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                sent.append(message["status"])

        for route in self._router.routes:
            match, child = route.matches(scope)
            if match.name == "FULL":
                scope.update(child)
                box.append(await child["endpoint"](Request(scope, receive, catch)))
                return box[0]
            if match.name == "PARTIAL":
                sent.append(405)
        if sent:
            raise Invalid(f"{scope['method']} is not for this path", hint="see /openapi.json")
        raise NotFound("there is no such route", hint="see /openapi.json")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except RefoldError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> None:
        """Reads the tokens; Denied if there is none: nobody could call."""
        self._threads = anyio.CapacityLimiter(THREADS)
        await self.in_thread(self.tokens.follow)
        now_ms = time.time_ns() // 1_000_000
        if not any(token.state(now_ms) == "valid" for token in self.tokens.list()):
            hint = "refold token create --org NAME --scope write"
            raise Denied("there is no valid token, so nobody could call this server", hint=hint)
        self._tasks.append(asyncio.create_task(self._each_second()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.in_thread(self._close)

    def _close(self) -> None:
        for commit in self._commits.values():
            commit.close()
        self.audit.flush()
        self.orgs.close()

    async def _each_second(self) -> None:
        """Follows the tokens and writes the audit log. A store that is away is asked again."""
        while True:
            await asyncio.sleep(EACH_S)
            for work in (self.tokens.follow, self.audit.flush):
                try:
                    await self.in_thread(work)
                except RefoldError as error:
                    log.warning(json.dumps({"event": "background", "error": error.code}))

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    # --- who may call ---

    def _check_origin(self, scope: Scope) -> None:
        """Denied for a name that is not this server's, or a page of another: browsers send both,
        and neither belongs to a client of ours."""
        headers = _headers(scope)
        for name in ("host", "origin"):
            values = headers.get(name, [])
            if len(values) > 1:
                raise Invalid(f"{name} stands {len(values)} times")
        host = _host_of(headers.get("host", [""])[0])
        if self._hosts and host not in self._hosts:
            self.metrics.refused["host"] += 1
            raise Denied("this server does not go by that name", hint="refold serve --host-name")
        for origin in headers.get("origin", []):
            if _host_of(origin.partition("://")[2]) not in self._hosts:
                self.metrics.refused["origin"] += 1
                raise Denied("calls from web pages are not served")

    def _authorized(self, scope: Scope, route: Route, org: str) -> Token:
        """The token of a call, if it allows the route. One of another organization is told what a
        stranger is told: there is nothing."""
        client = (scope.get("client") or ("unknown",))[0]
        self._wrong.check(client)
        token = self.tokens.find(_secret_of(scope))
        now_ms = time.time_ns() // 1_000_000
        if token is None or token.state(now_ms) != "valid":
            self.metrics.refused["token"] += 1
            self._wrong.take(client)
            state = "unknown" if token is None else token.state(now_ms)
            raise Unauthorized(f"the token is {state}", hint="refold token create makes a new one")
        scope["refold.token"] = token.id
        if token.org != org:
            raise NotFound("there is no such organization for this token")
        if not token.allows(route.level):
            said = f"the token may {token.scope}, but this needs {route.level}"
            raise Denied(said, hint="use a token with more rights")
        self._calls.take(token.id)
        return token

    # --- a call ---

    async def _serve(self, route: Route, scope: Scope, receive: Receive) -> Answer:
        scope["refold.route"] = route.name
        path = dict(scope.get("path_params", {}))
        query = query_of(scope.get("query_string", b""))
        token = None
        if route.level != "open":
            token = self._authorized(scope, route, path.get("org", ""))
        call = Call(
            orgs=self.orgs,
            path=path,
            query=query,
            body=await self._body_for(route, scope, receive),
            token=token,
        )
        if route.path == feed_route.path:
            return await self._feed_answer(call, scope)
        if token is not None and route.audit:
            await self._audit(route, call, token)
        value = await self._run(partial(route.run, call))
        return answer_of(value, route.status, self.in_thread)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self.limits.call_s):
                return await self.in_thread(work)
        except TimeoutError:
            said = f"the call took more than {self.limits.call_s:g} seconds"
            raise Unavailable(said, retry_after_s=1.0) from None

    async def _audit(self, route: Route, call: Call, token: Token) -> None:
        what = call.path.get("id") or call.path.get("digest") or call.path.get("entry") or ""
        if route.audit == "read":
            self.audit.read(token.org, token.id, route.name, what)
        else:
            write = partial(self.audit.write, token.org, token.id, route.audit, route.name, what)
            await self.in_thread(write)

    async def _body_for(
        self, route: Route, scope: Scope, receive: Receive
    ) -> bytes | Iterator[bytes]:
        if route.streams:
            return self._chunks(scope, receive)
        if route.method in ("GET", "HEAD"):
            return b""
        return await self._body(scope, receive)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, within the limits of size and time."""
        most = self.limits.body_bytes
        _check_length(scope, most)
        parts: list[bytes] = []
        size = 0
        async for part in self._parts(receive):
            size += len(part)
            if size > most:
                raise TooLarge(f"a body of more than {most:,} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _parts(self, receive: Receive) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._next(receive)
            yield message.get("body", b"")
            more = message.get("more_body", False)

    async def _next(self, receive: Receive) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout(self.limits.read_s):
                message = await receive()
        except TimeoutError:
            raise Unavailable("the body came too slowly", retry_after_s=1.0) from None
        if message["type"] == "http.disconnect":
            raise Invalid("the caller left before the body was whole")
        return message

    def _chunks(self, scope: Scope, receive: Receive) -> Iterator[bytes]:
        """The body as it comes, for a route that runs in a thread."""
        most = self.limits.artifact_bytes
        _check_length(scope, most)

        def chunks() -> Iterator[bytes]:
            size, more = 0, True
            while more:
                message = anyio.from_thread.run(self._next, receive)
                size += len(message.get("body", b""))
                if size > most:
                    raise TooLarge(f"an artifact of more than {most:,} bytes")
                yield message.get("body", b"")
                more = message.get("more_body", False)

        return chunks()

    # --- appending ---

    def _is_append(self, scope: Scope) -> tuple[str, str] | None:
        if scope["method"] != "POST":
            return None
        found = _APPEND_PATH.fullmatch(scope.get("raw_path") or scope["path"].encode())
        return (found[1].decode(), found[2].decode()) if found else None

    async def _append(self, scope: Scope, receive: Receive, org: str, id: str) -> Answer:
        scope["refold.route"] = APPEND.name
        token = self._authorized(scope, APPEND, org)
        query = query_of(scope.get("query_string", b""))
        body = await self._body(scope, receive)
        call = Call(
            orgs=self.orgs, path={"org": org, "id": id}, query=query, body=body, token=token
        )
        expect = call.asked(AppendQuery).expect
        if self.orgs.is_local:
            events = events_checked(body)
            await self._commit(org).append(id, events, expect)
            count = len(events)
        else:
            head = await self._run(partial(append, call))
            count = head.head - expect
        self.metrics.events += count
        if org in self._feeds:
            self._feeds[org].tell(id, expect + count)
        return Answer(200, b'{"head":%d}' % (expect + count))

    def _commit(self, org: str) -> GroupCommit:
        if org not in self._commits:
            loop = asyncio.get_running_loop()
            self._commits[org] = GroupCommit(self.orgs.store(org), loop)
        return self._commits[org]

    # --- the feed ---

    def feed(self, org: str) -> Feed:
        if org not in self._feeds:
            feed = self._feeds[org] = Feed()
            follow = follow_store(feed, partial(self.orgs.store, org), self.in_thread)
            self._tasks.append(asyncio.create_task(follow))
        return self._feeds[org]

    async def _feed_answer(self, call: Call, scope: Scope) -> Answer:
        from refold.edges.server.routes import FeedQuery

        asked = call.asked(FeedQuery)
        feed = self.feed(call.path["org"])
        if sum(one.listeners for one in self._feeds.values()) >= self.limits.listeners:
            raise Busy("too many listen already", retry_after_s=5.0)
        accepts = ",".join(_headers(scope).get("accept", []))
        if "text/event-stream" in accepts:
            stream = self._events(feed, asked.after, call.token)
            return Answer(200, b"", mime="text/event-stream", stream=stream)
        feed.listeners += 1
        self._running -= 1  # whoever waits does nothing
        try:
            changes = await feed.wait(asked.after, asked.wait)
        finally:
            self._running += 1
            feed.listeners -= 1
        return answer_of(changes, 200, self.in_thread)

    async def _events(self, feed: Feed, after: str, token: Token | None) -> AsyncIterator[bytes]:
        """Server-sent events, until the caller leaves or its token ends."""
        feed.listeners += 1
        try:
            while token is None or self._is_valid(token):
                changes = await feed.wait(after, wait_s=5.0)
                after = changes.cursor
                quiet = not changes.changes and not changes.rescan
                yield b": still here\n\n" if quiet else _event(changes)
        finally:
            feed.listeners -= 1

    def _is_valid(self, token: Token) -> bool:
        known = self.tokens.by_id
        now_ms = time.time_ns() // 1_000_000
        return token.id in known and known[token.id].state(now_ms) == "valid"

    # --- telling ---

    def gauges(self) -> dict[str, int]:
        return {
            "calls_running": self._running,
            "appends_waiting": sum(one.waiting for one in self._commits.values()),
            "feed_listeners": sum(one.listeners for one in self._feeds.values()),
        }

    def _log(self, scope: Scope, status: int, took_s: float) -> None:
        """One line a call, without contents, names of conversations, or secrets."""
        if log.isEnabledFor(logging.INFO):
            line = {
                "event": "call",
                "route": scope["refold.route"],
                "status": status,
                "ms": round(took_s * 1_000, 2),
                "token": scope.get("refold.token", ""),
            }
            log.info(json.dumps(line))


def _event(changes: object) -> bytes:
    return b"event: changes\ndata: " + msgspec.json.encode(changes) + b"\n\n"


def _headers(scope: Scope) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope.get("headers", ()):
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _host_of(text: str) -> str:
    """The name in a Host or Origin, without its port."""
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].partition("/")[0].lower()


def _secret_of(scope: Scope) -> str:
    """The token of a call. It is a header, alone; in a URL it would stand in logs."""
    query = scope.get("query_string", b"").lower()
    if b"token=" in query or b"rft_" in query:
        said = "a token does not belong in a URL, where it is logged"
        raise Invalid(said, hint="revoke it, and send the next as Authorization: Bearer …")
    found = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
    if not found:
        raise Unauthorized("there is no token", hint="send Authorization: Bearer …")
    if len(found) > 1:
        raise Invalid("authorization stands more than once")
    header: bytes = found[0]
    scheme, _, secret = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthorized("the authorization is not a token", hint="Authorization: Bearer …")
    return secret


def _check_length(scope: Scope, most: int) -> None:
    headers = _headers(scope)
    if headers.get("content-encoding"):
        raise Invalid("the body is encoded", hint="send it plain")
    for value in headers.get("content-length", []):
        if value.isascii() and value.isdecimal() and int(value[:19]) > most:
            raise TooLarge(f"a body of {value:.19} bytes is over {most:,}")
