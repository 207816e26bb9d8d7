"""The proxy as an ASGI application: takes a call in, observes it, sends it up, and relays the
answer.

refold's own work happens before a call goes up and after its answer has come; a failure there is
logged by its kind and place, never with content, and the client's own bytes are sent. An answer is
relayed as its chunks come; a client that leaves ends the call upstream, and a stream that is cut
off upstream is cut off here. Neighbours: `observer` keeps and folds, `upstream` sends, `serve` runs
this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache, partial
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec import Struct

from refold.edges.local_access import Admitted, Gate, Header
from refold.edges.proxy.folding import Asking, with_headers
from refold.edges.proxy.folding import Send as Sender
from refold.edges.proxy.http import (
    Bodies,
    Gone,
    Incoming,
    Send,
    finished,
    relay,
    send_error,
    send_json,
)
from refold.edges.proxy.observer import Finished, ObservedCall, Observer
from refold.edges.proxy.own_tools.events import Inside
from refold.edges.proxy.own_tools.rounds import Rounds, can_be_read, ways_of
from refold.edges.proxy.page import is_refused, without_thinking
from refold.edges.proxy.savings import KEPT, Told, UsageReader, line_text, place_of, reason_of
from refold.edges.proxy.upstream import (
    Answer,
    Content,
    Limits,
    Refused,
    Target,
    Upstream,
    readable,
    target_of,
    unpacked,
)
from refold.errors import RefoldError, Unavailable

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
T = TypeVar("T")

OVERFLOW_STATUSES = frozenset({400, 413, 422})
READY = b"/refold/ready"  # the proxy's only own path
PREPARING = "preparing"
CROWDED = "too many calls are being prepared"
ERROR_BYTES_MAX = 1024 * 1024
log = logging.getLogger("refold.proxy")


class CutOff(Exception):
    """The provider's answer ended early."""


class Call(Struct, frozen=True, kw_only=True):
    """A call on its way: the client's request, and refold's own version of it."""

    method: str
    target: Target
    query: bytes
    headers: list[Header]
    incoming: Incoming
    observed: ObservedCall | None = None
    body: bytes | None = None  # in place of the client's own

    @property
    def content(self) -> Content:
        """The body to send: ours, the client's own, or the rest of that as it comes."""
        whole = self.incoming.whole if self.body is None else self.body
        return self.incoming.stream() if whole is None else whole


class Proxy:
    """One proxy. Without an observer it only passes on."""

    def __init__(
        self,
        upstream: Upstream,
        observer: Observer | None = None,
        *,
        gate: Gate | None = None,
        limits: Limits | None = None,
        close: Callable[[], None] = lambda: None,
        report: Told = lambda _: None,
    ) -> None:
        self._upstream, self._observer, self._close = upstream, observer, close
        self._report = report
        self._gate, self._limits = gate or Gate(), limits or Limits()
        self._bodies = Bodies(self._limits)
        self._running = self._preparing = 0
        self.called_at = time.monotonic()
        self._finishing: set[asyncio.Task[None]] = set()
        self._threads: anyio.CapacityLimiter | None = None

    # --- ASGI ---

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def stop(self) -> None:
        """Waits for pending writes, and closes everything."""
        if self._finishing:
            await asyncio.wait(self._finishing, timeout=self._limits.prepare_s)
        await self._upstream.close()
        await self._in_thread(self._close)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a call, with an error of the proxy only if the provider has not answered."""
        self._running += 1
        self.called_at = time.monotonic()
        try:
            if self._running > self._limits.calls_at_once:
                raise Unavailable(f"{self._running} calls are under way", retry_after_s=1.0)
            await self._pass_on(scope, receive, send)
        except Gone:
            return
        except RefoldError as error:
            await send_error(send, error)
        finally:
            self._running -= 1

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        admitted = self._gate.admitted(scope)
        if admitted.path == READY:
            await send_json(send, 200, b'{"ready": true}')
            return
        call = await self._call(scope, receive, admitted)
        size = call.incoming.size
        try:
            await self._while_connected(self._exchange(call, send), receive, call.incoming)
        finally:
            self._bodies.release(size)

    async def _call(self, scope: Scope, receive: Receive, admitted: Admitted) -> Call:
        names = {name for name, _ in admitted.headers}
        if b"upgrade" in names and b"sec-websocket-key" in names:
            raise Refused("upgrade", "websockets are not passed on", hint="call over HTTP")
        target = target_of(scope["method"], admitted.path, names)
        return Call(
            method=scope["method"],
            target=target,
            query=scope.get("query_string", b""),
            headers=admitted.headers,
            incoming=await self._read(receive, target),
        )

    async def _read(self, receive: Receive, target: Target) -> Incoming:
        try:
            return await self._bodies.read(receive, looks=target.known is not None)
        except TimeoutError:
            raise Refused("slow", "the request arrived too slowly") from None

    async def _while_connected(
        self, exchange: Awaitable[None], receive: Receive, incoming: Incoming
    ) -> None:
        """Waits for an exchange, and ends it if the client leaves."""
        if incoming.whole is None:
            await exchange
            return
        working = asyncio.ensure_future(exchange)
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not working.done():
                working.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        try:
            await working
        except asyncio.CancelledError:
            raise Gone from None

    # --- sending and relaying ---

    async def _exchange(self, call: Call, send: Send) -> None:
        call = await self._prepared(call)
        response = await self._sent(call)
        if call.target.known is not None and response.status in OVERFLOW_STATUSES:
            call, response = await self._recovered(call, response)
        sent = call.observed.sent if call.observed is not None else None
        if sent is not None and response.is_success and can_be_read(response):
            await self._relay_inside(call, sent, response, send)
        else:
            await self._relay(call, response, send)

    async def _sent(self, call: Call) -> Answer:
        headers, observed = call.headers, call.observed
        if observed is not None:
            headers = with_headers(readable(headers), observed.headers)
            headers = headers if observed.sent is None else unpacked(headers)
        return await self._upstream.send(
            call.method, call.target, call.query, headers, call.content
        )

    async def _relay(self, call: Call, response: Answer, send: Send) -> None:
        """Relays an answer as it comes, and reads its usage on the way."""
        observed = call.observed if response.is_success else None
        reader = (
            None if observed is None else UsageReader(observed.parsed.dialect, response.headers)
        )
        finish = cache(partial(self._finish, observed, reader))
        is_ours = observed is not None and observed.body is not None
        if observed is not None:
            observed.answered()
        try:
            await relay(response, reader, send, finish if is_ours else None)
        except Refused as error:
            # The server cuts the client's stream off as well.
            raise CutOff(error.message) from None
        finally:
            finish()  # first, because a client that leaves may cancel the rest
            await response.close()

    async def _relay_inside(
        self, call: Call, sent: list[bytes], response: Answer, send: Send
    ) -> None:
        """Relays the client's part of an answer that may call our own tools."""
        observed, observer = call.observed, self._observer
        assert observed is not None and observer is not None
        observed.answered()
        kept = [observed]

        def keep(inside: Inside) -> None:
            kept[:] = [observer.keep_inside(observed, inside) or observed]

        async def again(body: bytes) -> Answer:
            return await self._sent(msgspec.structs.replace(call, body=body))

        answers = partial(observer.answers, observed)
        ways = ways_of(again, self._guarded, answers, keep, lambda: finished(finish))
        rounds = Rounds(observed.parsed, sent, ways, send, rounds_max=self._limits.rounds)
        finish = cache(lambda: self._finish_rounds(observed, kept[0], rounds))
        try:
            await rounds.relay(response)
        except Refused as error:
            if not rounds.has_begun:
                raise
            raise CutOff(error.message) from None
        finally:
            finish()

    async def _recovered(self, call: Call, response: Answer) -> tuple[Call, Answer]:
        """The call once more, if the provider refused it: shorter if it was too long, or without
        thinking that belongs to another front."""
        try:
            answer = await response.peek(ERROR_BYTES_MAX)
        except Refused:
            await response.close()
            raise
        if answer is None:
            return call, response
        again = await self._retry_of(call, response.status, answer)
        if again is None:
            return call, response
        await response.close()
        return again, await self._sent(again)

    async def _retry_of(self, call: Call, status: int, answer: bytes) -> Call | None:
        if call.observed is not None and self._observer is not None:
            work = partial(self._observer.recover, call.observed, status, answer)
            observed = await self._guarded(work, "recovering")
            if observed is None or observed.body is None:
                return None
            return msgspec.structs.replace(call, observed=observed, body=observed.body)
        body = call.content if is_refused(status, answer) else b""
        plain = without_thinking(body) if isinstance(body, bytes) else None
        return None if plain is None else msgspec.structs.replace(call, body=plain)

    # --- refold's own work, which may fail ---

    async def _prepared(self, call: Call) -> Call:
        """The call with refold's version of it, if there is one."""
        body = call.incoming.whole
        if self._observer is None or call.target.known is None:
            return call
        if body is None:
            self._report(f"a request is longer than {self._limits.body_bytes:,} bytes")
            return call
        if any(name == b"content-encoding" for name, _ in call.headers):
            self._report("a request came compressed")
            return call
        if self._preparing >= self._limits.preparing:
            log.warning(_line("passed", error=CROWDED))
            self._report(CROWDED)
            return call
        self._preparing += 1
        try:
            deadline = asyncio.timeout(self._limits.prepare_s)
            asking = Asking(self._upstream, self._limits, asyncio.get_running_loop(), deadline)
            send = partial(asking.send, call.target, call.query, readable(call.headers))
            work = partial(self._prepare, self._observer, call, body, send)
            return await self._guarded(work, PREPARING, deadline) or call
        finally:
            self._preparing -= 1

    def _prepare(self, observer: Observer, call: Call, body: bytes, send: Sender) -> Call:
        assert call.target.known is not None
        parsed = observer.read(body, call.target, call.headers)
        if parsed is None:
            return call
        if call.target.known.counts or observer.is_beside(parsed):
            sent, added = observer.beside(parsed)
            headers = with_headers(call.headers, added)
            return msgspec.structs.replace(call, body=sent, headers=headers)
        observed = observer.take(parsed, send)
        if observed is not None and observed.held is not None:
            self._report(KEPT)
        body_sent = observed.body if observed is not None else None
        return msgspec.structs.replace(call, observed=observed, body=body_sent)

    async def _guarded(
        self, work: Callable[[], T], doing: str, deadline: asyncio.Timeout | None = None
    ) -> T | None:
        """The result of the work; None, with a line in the log, if it failed or took too long."""
        try:
            async with deadline or asyncio.timeout(self._limits.prepare_s):
                return await self._in_thread(work)
        except Exception as error:
            log.warning(_line("failed", doing=doing, error=place_of(error)))
            if doing == PREPARING:
                self._report(reason_of(error))
            return None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self._limits.threads)
        return await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    def _finish(
        self, observed: ObservedCall | None, reader: UsageReader | None
    ) -> asyncio.Task[None] | None:
        """Keeps the usage of the call, while the client continues."""
        if self._observer is None or observed is None or reader is None:
            return None
        work = partial(self._observer.finish, observed, reader.usage, reader.copy)
        return self._account(work, is_new=observed.held is None)

    def _finish_rounds(
        self, observed: ObservedCall, kept: ObservedCall, rounds: Rounds
    ) -> asyncio.Task[None] | None:
        """Keeps the usage of a call with our tools; an answer already kept is not kept again."""
        if self._observer is None:
            return None
        if kept is observed and len(rounds.readers) == 1:
            return self._finish(observed, rounds.readers[0])
        usages = [reader.usage for reader in rounds.readers]
        work = partial(self._observer.finish_rounds, observed, kept, usages)
        return self._account(work, is_new=observed.held is None)

    def _account(self, work: Callable[[], Finished | None], *, is_new: bool) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._accounted(work, is_new=is_new))
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return task

    async def _accounted(self, work: Callable[[], Finished | None], *, is_new: bool) -> None:
        finished = await self._guarded(work, "accounting")
        if finished is None:
            return
        if is_new:
            self._report(KEPT)
        for line in finished.lines:
            log.info("%s: %s", finished.conversation, line_text(line))


# --- requests ---


async def _left(receive: Receive) -> None:
    """Returns once the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _line(event: str, **fields: str) -> str:
    return json.dumps({"event": event, **fields})
