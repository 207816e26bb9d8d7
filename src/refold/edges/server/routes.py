"""The table of all routes: the rooms' own, and those that tell of the server itself.

The OpenAPI document, made from the table of routes: it cannot say anything else than they do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from refold import __version__
from refold.edges.server import contents, logs
from refold.edges.server import contents as finding
from refold.edges.server import contents as forms
from refold.edges.server.feed import Changes
from refold.edges.server.logs import BASE
from refold.edges.server.route import Call, Plain, Route

if TYPE_CHECKING:
    from refold.edges.server.app import Server

PROTOCOL = 1
WAIT_S_MAX = 30
[APPEND] = [
    route for route in logs.ROUTES if route.method == "POST" and route.path.endswith("/events")
]


class FeedQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=100)] = ""
    wait: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 25


class Health(Struct, frozen=True, kw_only=True):
    status: str
    version: str = __version__
    protocol: int = PROTOCOL


class TokenAbout(Struct, frozen=True, kw_only=True):
    """What a caller may know of its own token. `expires_ms` is 0 for one that never does."""

    id: str
    org: str
    scope: str
    expires_ms: int


def _token(call: Call) -> TokenAbout:
    token = call.token
    assert token is not None
    return TokenAbout(id=token.id, org=token.org, scope=token.scope, expires_ms=token.expires_ms)


def _feed(call: Call) -> Changes:
    raise AssertionError("the application answers this itself")


def _health(call: Call) -> Health:
    return Health(status="ok")


def _ready(call: Call) -> Health:
    """Said once the application has asked the store, so that a server whose database is away is
    taken out of the balance."""
    return Health(status="ready")


feed_route = Route(
    method="GET",
    path=f"{BASE}/feed",
    summary="Wait for changes: a hint, by long poll or server-sent events.",
    level="read",
    run=_feed,
    query=FeedQuery,
    gives=Changes,
    tells=True,
)


ready_route = Route(
    method="GET",
    path="/ready",
    summary="Say whether the server can serve.",
    level="open",
    run=_ready,
    gives=Health,
)


token_route = Route(
    method="GET",
    path=f"{BASE}/token",
    summary="Say what the caller's token may do, and until when.",
    level="read",
    run=_token,
    gives=TokenAbout,
)


def table(server: Server) -> list[Route]:
    """All routes of a server."""
    routes = [
        *logs.ROUTES,
        *contents.ROUTES,
        *forms.FORMS_ROUTES,
        *finding.FINDING_ROUTES,
        feed_route,
        token_route,
    ]

    def metrics(call: Call) -> Plain:
        return Plain(server.metrics_text().encode())

    @cache
    def described() -> Plain:
        # Anybody may ask, so it is made once.
        return Plain(msgspec.json.encode(document(server.routes)), mime="application/json")

    return [
        *routes,
        Route(
            method="GET",
            path="/health",
            summary="Say that the server runs.",
            level="open",
            run=_health,
            gives=Health,
            waits=False,
        ),
        ready_route,
        Route(
            method="GET",
            path="/openapi.json",
            summary="This document.",
            level="open",
            run=lambda call: described(),
            gives="object",
            waits=False,
        ),
        Route(
            method="GET",
            path=f"{BASE}/metrics",
            summary="Counts, in Prometheus' text format.",
            level="admin",
            run=metrics,
            gives="text",
        ),
    ]


_VARIABLE = re.compile(r"{(\w+)}")
REFERENCES = "#/components/schemas/{name}"
PATTERNS = {
    "org": "^[a-z0-9][a-z0-9-]{0,38}$",
    "id": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    "digest": "^[0-9a-f]{64}$",
    "entry": "^[A-Za-z0-9-]{1,64}$",
}
ERRORS = {
    "400": "What was sent is not as it should be.",
    "401": "There is no token, or none that is valid.",
    "403": "The token does not allow this.",
    "404": "There is no such thing in this organization.",
    "405": "The path is not for this method.",
    "409": "The log has grown since it was read.",
    "413": "Too large.",
    "429": "Too many calls; Retry-After says when to come back.",
    "503": "Not now; Retry-After says when to come back.",
}
OPEN_ERRORS = ("400", "403", "405", "429", "503")


class Failure(Struct, frozen=True, kw_only=True):
    """How every refusal looks; a conflict says where the log stands."""

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
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(routes: Sequence[Route]) -> list[type[Struct]]:
    found: list[Any] = [Failure]
    for route in routes:
        found += [route.body, route.gives]
    return list(dict.fromkeys(one for one in found if isinstance(one, type)))


def _operation(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {**_answer(route, named), **_failures(route, named)},
        "x-level": route.level,
    }
    if route.level != "open":
        operation["security"] = [{"token": []}]
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body, named)}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": PATTERNS[name]},
        }
        for name in _VARIABLE.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(route.query)
    described = schema["$defs"][route.query.__name__]
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _plain(about)}
        for name, about in described["properties"].items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: an argument that may be left out is left out."""
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    plain = options[0] if len(options) == 1 else schema
    return {key: value for key, value in plain.items() if key != "default" or value is not None}


def _answer(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    """What a call that is served is told, by its status."""
    if route.gives is None:
        return {"204": {"description": "Done."}}
    content = _content(route.gives, named)
    if route.tells:
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


def _failures(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": named[Failure]}}
    codes = ERRORS if route.level != "open" else OPEN_ERRORS
    return {code: {"description": ERRORS[code], "content": content} for code in codes}
