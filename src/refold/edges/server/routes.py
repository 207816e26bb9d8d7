"""The table of all routes: the rooms' own, and those that tell of the server itself."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from refold import __version__
from refold.edges.server import contents, finding, forms, logs
from refold.edges.server.feed import Changes
from refold.edges.server.logs import BASE
from refold.edges.server.openapi import document
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
        *forms.ROUTES,
        *finding.ROUTES,
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
