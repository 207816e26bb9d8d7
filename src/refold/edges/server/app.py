"""The server as an ASGI application.

Every call goes the same way: Host and Origin are checked, the route is matched, the token is
checked for that route, the body is read within the limits, and the route runs in a worker thread.
An append bypasses the router, because a framework's overhead equals the cost of the append. Every
failure is answered as one of `errors`, never with an internal text.

A store that is away keeps no server from starting: until it is back, `readiness` says so, and calls
get 503. Neighbours: `route_table` has the table, `access` the permissions, `serve` runs this.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from refold.edges.server import observability, route_table
from refold.edges.server.access import HEADERS, Bodies, Gate, Orgs, Token, Tokens, headers_of
from refold.edges.server.audit import Audit, entry_of, result_of
from refold.edges.server.change_feed import Listening
from refold.edges.server.connection import ENDING
from refold.edges.server.group_commit import GroupCommit
from refold.edges.server.log_routes import AppendQuery, append, events_checked
from refold.edges.server.observability import CallLines, Metrics, Shared, as_callers_see, warn
from refold.edges.server.rate_limits import Busy, Limits
from refold.edges.server.readiness import Readiness, check_room, check_writable, give_back_room
from refold.edges.server.route import Call, Route, parsed_query, query_of
from refold.edges.server.route_table import APPEND, Answer, NotAllowed, answer_of, failure_of
from refold.errors import Denied, NotFound, RefoldError, Unavailable
from refold.stores import TooNew, hints_of, passes_walls

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")

THREADS = 32
EACH_S = 1.0
FOLLOW_AGAIN_S = 0.1
AWAY = (Unavailable, Denied, TooNew)  # errors of a store that the caller did not cause
_APPEND_PATH = re.compile(
    rb"/api/v1/orgs/([a-z0-9-]{1,39})/context/conversations/([A-Za-z0-9._-]{1,64})/events"
)
_EXPECT = re.compile(rb"expect=([0-9]{1,12})")
APPEND_NAME = APPEND.name


class Server:
    """One process of the team server."""

    def __init__(
        self,
        orgs: Orgs,
        limits: Limits,
        *,
        hosts: frozenset[str] = frozenset(),
        direct: str = "",
        shared: Shared | None = None,
    ) -> None:
        self.orgs, self.limits = orgs, limits
        self.tokens, self.audit = Tokens(orgs.own), Audit(orgs.own)
        self.metrics, self._shared = Metrics(), shared
        orgs.appended = self.metrics.add_events
        self.gate = Gate(self.tokens, limits, self.metrics, hosts)
        self.bodies = Bodies(limits)
        hints = hints_of(orgs.own, direct)
        self.listening = Listening(orgs.store, self.in_thread, self.gate, limits.listeners, hints)
        self._running = 0
        self._followed_at = 0.0  # when an unknown token was last searched for
        self._lines = CallLines()
        self.readiness = Readiness(partial(self.in_thread, partial(check_writable, orgs)))
        self._commits: dict[str, GroupCommit] = {}
        self._task: asyncio.Task[None] | None = None
        self._threads: anyio.CapacityLimiter | None = None
        self.routes = route_table.table(self)
        self._matchers = [_matcher(route) for route in self.routes]

    # --- ASGI ---

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            scope.get("state", {})[ENDING] = self.listening.end
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
        self._lines.add(scope, answer.status, took_s)
        await answer(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive) -> Answer:
        try:
            scope[HEADERS] = headers_of(scope)
            self.gate.check_origin(scope)
            found = _append_of(scope)
            if found is not None:
                return await self._append(scope, receive, *found)
            return await self._routed(scope, receive)
        except Exception as error:
            return failure_of(error)

    async def _routed(self, scope: Scope, receive: Receive) -> Answer:
        """The answer of the route for this path and method. An encoded slash is refused, because it
        separates path segments here, but not in a proxy in front."""
        if b"%2f" in (scope.get("raw_path") or b"").lower():
            raise NotFound("there is no such route", hint="write / as it is")
        allowed: list[str] = []
        for route, matcher in zip(self.routes, self._matchers, strict=True):
            match, found = matcher.matches(scope)
            if match is Match.FULL:
                return await self._serve(route, found["path_params"], scope, receive)
            if match is Match.PARTIAL:
                allowed.append(route.method)
        if allowed:
            message = f"this path does not support {scope['method']:.20}"
            raise NotAllowed(message, methods=allowed)
        raise NotFound("there is no such route", hint="see /openapi.json")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> None:
        """Starts the work in the background. Nothing here needs the store: a worker may be replaced
        while it is away."""
        self._threads = anyio.CapacityLimiter(THREADS)
        try:
            await self.in_thread(self.tokens.follow)
            if await self.in_thread(partial(passes_walls, self.orgs.own)):
                hint = "connect as a role that is not a superuser and has no BYPASSRLS"
                message = observability.line("row-level security is passed", hint=hint)
                observability.log.warning(message)
        except RefoldError as error:
            warn("start", error)
        self.listening.start()
        self._task = asyncio.create_task(self._each_second())

    async def stop(self) -> None:
        await self.listening.stop()
        await self.readiness.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.in_thread(self._close)

    def _close(self) -> None:
        self._lines.write()
        for commit in self._commits.values():
            commit.close()
        self.audit.flush()
        self.orgs.close()

    async def _each_second(self) -> None:
        """Follows the tokens, and writes the audit log and this worker's counts. Failures of the
        store are retried."""
        while True:
            await asyncio.sleep(EACH_S)
            self._lines.write()
            if self._shared is not None:
                counts = self.metrics.counts(self.gauges())
                await self.in_thread(partial(self._shared.write, counts))
            for work in (self.tokens.follow, self.audit.flush):
                try:
                    await self.in_thread(work)
                except RefoldError as error:
                    warn("background", error)
                except Exception as error:
                    # Without this loop no revocation would take effect.
                    observability.fault(error)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Runs work that may wait for the store in a worker thread."""
        try:
            return await anyio.to_thread.run_sync(
                work, limiter=self._threads, abandon_on_cancel=True
            )
        except AWAY as error:
            raise as_callers_see(error) from error

    # --- a call ---

    async def _authorized(self, scope: Scope, route: Route, org: str) -> Token:
        """The token of a call. An unknown one may be new, so the log of tokens is read again, at a
        bounded rate. If that fails, the error is about the store, not about the token."""
        token = self.gate.find(scope)
        if token is None and time.monotonic() - self._followed_at > FOLLOW_AGAIN_S:
            await self.in_thread(self.tokens.follow)
            self._followed_at = time.monotonic()
            token = self.gate.find(scope)
        return self.gate.allowed(token, scope, route.level, org, is_limited=route.is_limited)

    async def _serve(
        self, route: Route, path: dict[str, str], scope: Scope, receive: Receive
    ) -> Answer:
        scope["refold.route"] = route.name
        token = None
        if route.level == "open":
            if route.is_limited:
                self.gate.check_open(scope)
        else:
            token = await self._authorized(scope, route, path.get("org", ""))
        call = Call(
            orgs=self.orgs, path=path, query=query_of(scope.get("query_string", b"")), token=token
        )
        if not route.waits:
            return answer_of(route.run(call), route.status, self.in_thread)
        if route.run is route_table.ready:
            await self.readiness.check()
            return answer_of(route.run(call), route.status, self.in_thread)
        if route.run is route_table.feed:
            return await self._feed_answer(call, scope)
        if route.streams:
            async with self.bodies.spooled(scope, receive) as chunks:
                return await self._run(route, call.with_body(chunks))
        if route.method == "GET":
            return await self._run(route, call)
        body = await self.bodies.whole(scope, receive)
        try:
            return await self._run(route, call.with_body(body))
        finally:
            self.bodies.release(body)

    async def _run(self, route: Route, call: Call) -> Answer:
        with self._at_work():
            value = await self._done(route, call)
        if call.token is not None and route.method != "GET":
            self.listening.announce(call.token.org, "", 0)
        return answer_of(value, route.status, self.in_thread)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Counts a call while it runs; raises Busy if too many are running."""
        if self._running >= self.limits.calls_at_once:
            self.metrics.refused["full"] += 1
            raise Busy(f"{self._running} calls are running", retry_after_s=1.0)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    async def _timed(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self.limits.call_s):
                return await self.in_thread(work)
        except TimeoutError:
            message = f"the call took more than {self.limits.call_s:g} seconds"
            raise Unavailable(message, retry_after_s=1.0) from None

    async def _done(self, route: Route, call: Call) -> object:
        """The result of the route, with entries in the audit log before and after it."""
        run = partial(self._result, route, call)
        if call.token is None or not route.audit:
            return await self._timed(run)
        org, entry = call.token.org, entry_of(route, call.path, call.token)
        if route.audit == "read":
            self.audit.read(org, entry)
            return await self._timed(run)
        if route.audit == "erase":
            await self.in_thread(partial(give_back_room, self.orgs))
        await self.in_thread(partial(self.audit.write, org, entry))
        result = "error"
        try:
            value = await self._timed(run)
            result = result_of(value)
        except RefoldError as error:
            result = error.code
            raise
        finally:
            await self.in_thread(partial(self.audit.write, org, replace(entry, result=result)))
        return value

    def _result(self, route: Route, call: Call) -> object:
        """Runs the route, in a thread. Deletions need no room: they make it."""
        if call.token is not None and route.method != "GET" and route.audit != "erase":
            check_room(
                self.orgs, [call.store], len(call.body) if isinstance(call.body, bytes) else 0
            )
        return route.run(call)

    # --- appending ---

    async def _append(self, scope: Scope, receive: Receive, org: str, id: str) -> Answer:
        scope["refold.route"] = APPEND_NAME
        token = await self._authorized(scope, APPEND, org)
        expect = _expect_of(scope)
        body = await self.bodies.whole(scope, receive)
        try:
            with self._at_work():
                head = await self._appended(org, id, expect, body, token)
        finally:
            self.bodies.release(body)
        self.listening.announce(org, id, head)
        return Answer(200, b'{"head":%d}' % head, hidden=[])

    async def _appended(self, org: str, id: str, expect: int, body: bytes, token: Token) -> int:
        """The head after the append, which is durable."""
        if self.orgs.is_local:
            events = events_checked(body)
            try:
                await self._commit(org).append(id, events, expect)
            except Busy:
                raise
            except AWAY as error:
                raise as_callers_see(error) from error
            return expect + len(events)
        path, query = {"org": org, "id": id}, {"expect": str(expect)}
        call = Call(orgs=self.orgs, path=path, query=query, body=body, token=token)
        return (await self._timed(partial(append, call))).head

    def _commit(self, org: str) -> GroupCommit:
        if org not in self._commits:
            loop = asyncio.get_running_loop()
            store = self.orgs.store(org)
            room = partial(check_room, self.orgs, [store])
            self._commits[org] = GroupCommit(store, self.orgs.ends(org), loop, room)
        return self._commits[org]

    # --- the feed ---

    async def _feed_answer(self, call: Call, scope: Scope) -> Answer:
        query = call.parsed_query(route_table.FeedQuery)
        assert call.token is not None
        if b"text/event-stream" in scope[HEADERS].get(b"accept", b""):
            stream = await self.listening.stream(call.token, query.after)
            return Answer(200, b"", mime="text/event-stream", stream=stream)
        changes = await self.listening.poll(call.token, query.after, query.wait)
        return answer_of(changes, 200, self.in_thread)

    # --- metrics ---

    def gauges(self) -> dict[str, int]:
        return {
            "calls_running": self._running,
            "appends_waiting": sum(one.waiting for one in self._commits.values()),
            "feed_hears": int(self.listening.hears),
            "feed_listeners": self.listening.listeners,
            "held_bytes": self.bodies.held_bytes,
        }

    def metrics_text(self) -> str:
        """The counts of all workers of this machine."""
        others = [] if self._shared is None else self._shared.others()
        return observability.text_of([self.metrics.counts(self.gauges()), *others])


def _matcher(route: Route) -> StarletteRoute:
    async def unused(_: object) -> None:
        raise AssertionError("the server calls its routes itself")

    return StarletteRoute(route.path, unused, methods=[route.method])


def _append_of(scope: Scope) -> tuple[str, str] | None:
    """The organization and conversation of an append; None for any other call."""
    if scope["method"] != "POST":
        return None
    found = _APPEND_PATH.fullmatch(scope.get("raw_path") or scope["path"].encode())
    return (found[1].decode(), found[2].decode()) if found else None


def _expect_of(scope: Scope) -> int:
    query = scope.get("query_string", b"")
    plain = _EXPECT.fullmatch(query)
    return int(plain[1]) if plain else parsed_query(query_of(query), AppendQuery).expect
