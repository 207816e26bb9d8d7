"""The table of all routes, the OpenAPI document made from it, and answers.

The document is derived from the table. Answers are JSON values, lines, streamed chunks, and errors.
Every refold error has its status (`errors.OUTCOMES`, and some that only HTTP has); any other is a
bug, which is logged and not shown to the caller. Neighbours: `log_routes` and `content_routes` have
most routes, `app` answers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from refold import __version__
from refold.edges.server import content_routes, log_routes
from refold.edges.server.access import Ambiguous, HeadersTooLarge, Slow, TargetTooLong
from refold.edges.server.change_feed import Changes
from refold.edges.server.log_routes import BASE
from refold.edges.server.observability import fault
from refold.edges.server.rate_limits import Flood
from refold.edges.server.route import Call, Chunks, Lines, Plain, Route, Routes
from refold.errors import OUTCOMES, Conflict, RefoldError, Unavailable

if TYPE_CHECKING:
    from refold.edges.server.app import Server

PROTOCOL = 1
WAIT_S_MAX = 30
ROUTES = Routes([*log_routes.ROUTES, *content_routes.ROUTES])
[APPEND] = [route for route in ROUTES if route.run is log_routes.append]


class FeedQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=100)] = ""
    wait: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 25


class Health(Struct, frozen=True, kw_only=True):
    status: str
    version: str = __version__
    protocol: int = PROTOCOL


class TokenAbout(Struct, frozen=True, kw_only=True):
    """A caller's own token. `expires_ms` is 0 if it never expires."""

    id: str
    org: str
    scope: str
    expires_ms: int


@ROUTES.add("GET", f"{BASE}/feed", "read", query=FeedQuery, gives=Changes, has_events=True)
def feed(call: Call) -> Changes:
    """Wait for changes: a hint, by long poll or server-sent events."""
    raise AssertionError("the application answers this itself")


@ROUTES.add("GET", f"{BASE}/token", "read", gives=TokenAbout)
def token(call: Call) -> TokenAbout:
    """Show the permissions and the expiry of the caller's token."""
    own = call.token
    assert own is not None
    return TokenAbout(id=own.id, org=own.org, scope=own.scope, expires_ms=own.expires_ms)


@ROUTES.add("GET", "/health", "open", gives=Health, waits=False, is_limited=False)
def health(call: Call) -> Health:
    """Report that the server is running."""
    return Health(status="ok")


@ROUTES.add("GET", "/ready", "open", gives=Health, is_limited=False)
def ready(call: Call) -> Health:
    """Report whether the server can serve and write."""
    # The application tries a write first: a load balancer skips a server that cannot write.
    return Health(status="ready")


def table(server: Server) -> list[Route]:
    """All routes of a server."""
    routes = Routes(ROUTES)

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document(server.routes))

    @routes.add("GET", "/openapi.json", "open", gives="object", waits=False)
    def openapi(call: Call) -> Plain:
        """This document."""
        return Plain(encoded(), mime="application/json")

    @routes.add("GET", f"{BASE}/metrics", "admin", gives="text", is_limited=False)
    def metrics(call: Call) -> Plain:
        """Counts, in Prometheus' text format."""
        return Plain(server.metrics_text().encode())

    return routes


_VARIABLE = re.compile(r"{(\w+)}")
REFERENCES = "#/components/schemas/{name}"
PATTERNS = {
    "org": "^[a-z0-9][a-z0-9-]{0,38}$",
    "id": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    "digest": "^[0-9a-f]{64}$",
    "entry": "^[A-Za-z0-9-]{1,64}$",
}
ERRORS = {
    "400": "Invalid input.",
    "401": "The token is missing or invalid.",
    "403": "The token does not allow this.",
    "404": "Not found in this organization.",
    "405": "The path does not support this method.",
    "409": "The log has grown since it was read.",
    "413": "Too large.",
    "414": "The URL is too long.",
    "429": "Too many calls; Retry-After says when to retry.",
    "431": "The headers are too large.",
    "503": "Unavailable; Retry-After says when to retry.",
}
OPEN_ERRORS = ("400", "403", "405", "414", "429", "431", "503")


class Failure(Struct, frozen=True, kw_only=True):
    """The body of every error; a conflict has the head of the log."""

    error: str
    message: str
    hint: str = ""
    head: int | UnsetType = UNSET


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document for these routes."""
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCES)
    named = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "refold team server", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": _without_tuples(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _without_tuples(schema: Any) -> Any:
    """The schema with tuples as arrays of their length: many tools do not know `prefixItems`."""
    if isinstance(schema, list):
        return [_without_tuples(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _without_tuples(one) for name, one in schema.items()}
    parts = plain.pop("prefixItems", None)
    if parts is not None:
        kinds = [part for at, part in enumerate(parts) if part not in parts[:at]]
        plain["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return plain


def _types(routes: Sequence[Route]) -> list[type[Struct]]:
    found: list[Any] = [Failure]
    for route in routes:
        found += [route.body, route.gives]
    return list(dict.fromkeys(kind for kind in found if isinstance(kind, type)))


def _operation(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    path_parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": PATTERNS[name]},
        }
        for name in _VARIABLE.findall(route.path)
    ]
    failure = {"application/json": {"schema": named[Failure]}}
    codes = ERRORS if route.level != "open" else OPEN_ERRORS
    failures = {code: {"description": ERRORS[code], "content": failure} for code in codes}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*path_parameters, *_query_parameters(route)],
        "responses": {**_answer(route, named), **failures},
        "x-level": route.level,
    }
    if route.level != "open":
        operation["security"] = [{"token": []}]
    if route.body is not None:
        # Without bytes or lines, the body is an empty artifact or batch.
        is_required = route.body not in ("bytes", "lines")
        content = _content(route.body, named)
        operation["requestBody"] = {"required": is_required, "content": content}
    return operation


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(route.query)
    described = schema["$defs"][route.query.__name__]
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _plain(about)}
        for name, about in described["properties"].items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an optional parameter without null, which no query contains."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    plain = options[0] if len(options) == 1 else schema
    return {key: value for key, value in plain.items() if key != "default" or value is not None}


def _answer(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    """The successful answers, by status."""
    if route.gives is None:
        return {"204": {"description": "Done."}}
    content = _content(route.gives, named)
    if route.has_events:
        content = {**content, "text/event-stream": {"schema": {"type": "string"}}}
    return {str(route.status): {"description": route.summary, "content": content}}


def _content(kind: object, named: dict[Any, Any]) -> dict[str, Any]:
    match kind:
        case "lines":
            return {"application/x-ndjson": {"schema": {"type": "string"}}}
        case "bytes":
            return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        case "text":
            return {"text/plain": {"schema": {"type": "string"}}}
        case "object":
            return {"application/json": {"schema": {"type": "object"}}}
        case _:
            return {"application/json": {"schema": named[kind]}}


# Errors that only HTTP has.
STATUSES = {
    "unauthorized": 401,
    "not-allowed": 405,
    "too-large": 413,
    "url-too-long": 414,
    "busy": 429,
    "headers-too-large": 431,
}
CLOSING = (Flood, Ambiguous, Slow, HeadersTooLarge, TargetTooLong)
_HIDDEN = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
JSON = "application/json"
# A caller that does not read its answer is disconnected; a small answer is in the socket's buffer.
SEND_S, SMALL_BYTES = 60.0, 32 * 1024
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class NotAllowed(RefoldError):
    """The path exists, but not for this method. `methods` are those that it has."""

    code = "not-allowed"

    def __init__(self, message: str, *, methods: Sequence[str]) -> None:
        super().__init__(message, hint=f"this path supports {', '.join(methods)}")
        self.methods = methods


class Answer:
    """A response, as ASGI sends it. The headers in `hidden` forbid caching and type guessing."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        *,
        mime: str = JSON,
        headers: list[tuple[bytes, bytes]] | None = None,
        hidden: list[tuple[bytes, bytes]] = _HIDDEN,
        stream: AsyncIterator[bytes] | None = None,
    ) -> None:
        self.status, self._body, self._stream = status, body, stream
        self._headers = [(b"content-type", mime.encode()), *hidden, *(headers or [])]
        if stream is None and status != 204:
            self._headers.append((b"content-length", str(len(body)).encode()))

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status, "headers": self._headers}
        await send(start)
        if self._stream is None:
            body = b"" if scope["method"] == "HEAD" else self._body
            if len(body) <= SMALL_BYTES:
                await send(_part(body, more=False))
            else:
                async with asyncio.timeout(SEND_S):
                    await send(_part(body, more=False))
            return
        sending = asyncio.create_task(self._send_parts(self._stream, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send_parts(self, stream: AsyncIterator[bytes], send: Send) -> None:
        async for part in stream:
            async with asyncio.timeout(SEND_S):
                await send(_part(part, more=True))
        await send(_part(b"", more=False))


async def _left(receive: Receive) -> None:
    """Returns once the caller is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _part(body: bytes, *, more: bool) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def answer_of(value: object, status: int, in_thread: InThread) -> Answer:
    """The answer for a route's value."""
    match value:
        case None:
            return Answer(204)
        case Lines(lines):
            return Answer(status, lines, mime="application/x-ndjson")
        case Plain():
            return Answer(value.status, value.content, mime=value.mime)
        case Chunks():
            return Answer(status, mime=value.mime, stream=_in_chunks(value.chunks, in_thread))
        case _:
            return Answer(status, msgspec.json.encode(value))


async def _in_chunks(chunks: Iterator[bytes], in_thread: InThread) -> AsyncIterator[bytes]:
    while (chunk := await in_thread(lambda: next(chunks, None))) is not None:
        yield chunk


def failure_of(error: Exception) -> Answer:
    """The answer for a call that failed."""
    if not isinstance(error, RefoldError):
        fault(error)
        failure = Failure(error="error", message="internal error; see the server log")
        return Answer(500, msgspec.json.encode(failure))
    status = STATUSES.get(error.code) or OUTCOMES.get(error.code, (500, 1))[0]
    head = error.head if isinstance(error, Conflict) else msgspec.UNSET
    failure = Failure(error=error.code, message=error.message, hint=error.hint, head=head)
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, Unavailable) and error.retry_after_s is not None:
        headers.append((b"retry-after", str(max(1, round(error.retry_after_s))).encode()))
    if isinstance(error, NotAllowed):
        headers.append((b"allow", ", ".join(error.methods).encode()))
    if isinstance(error, CLOSING):
        headers.append((b"connection", b"close"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return Answer(status, msgspec.json.encode(failure), headers=headers)
