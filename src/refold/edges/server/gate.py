"""Who may call: the names that this server goes by, and the tokens.

What is decided here is decided on the route that was found and on the bytes of the headers, for
every call in the same way. Neighbours: `app` asks for each call, `tokens` knows the tokens.
"""

from __future__ import annotations

import re
import time
from collections.abc import MutableMapping
from typing import Any

from refold.edges.server.limits import Buckets, Busy, Flood, Limits
from refold.edges.server.metrics import Metrics
from refold.edges.server.route import Route
from refold.edges.server.tokens import Token, Tokens
from refold.errors import Denied, Invalid, NotFound, RefoldError

Scope = MutableMapping[str, Any]
HEADERS = "refold.headers"
_DECIDING = frozenset({
    b"host", b"origin", b"authorization", b"accept", b"content-length", b"content-encoding",
    b"transfer-encoding",
})  # fmt: skip
_IN_URL = re.compile(rb"(?:^|&)[a-z_-]*token=|rft_[A-Za-z0-9_-]{20}", re.IGNORECASE)


class Unauthorized(RefoldError):
    """There is no token, or none that is valid."""

    code = "unauthorized"


class Gate:
    """Lets calls in, or says why not."""

    def __init__(
        self, tokens: Tokens, limits: Limits, metrics: Metrics, hosts: frozenset[str]
    ) -> None:
        self._tokens, self._metrics, self._hosts = tokens, metrics, hosts
        self._calls = Buckets(limits.calls_per_s, limits.burst)
        self._open_calls = Buckets(limits.open_calls_per_s, 2 * limits.open_calls_per_s)
        self._guesses = Buckets(limits.wrong_tokens_per_minute / 60, limits.wrong_tokens_per_minute)

    def check_origin(self, scope: Scope) -> None:
        """Denied for a name that is not this server's, or a page of another: browsers send both,
        and neither belongs to a client of ours."""
        headers = scope[HEADERS]
        if self._hosts and _host_of(headers.get(b"host", b"")) not in self._hosts:
            self._metrics.refused["host"] += 1
            raise Denied("this server does not go by that name", hint="refold serve --name")
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.partition(b"://")[2]) not in self._hosts:
            self._metrics.refused["origin"] += 1
            raise Denied("calls from web pages are not served")

    def check_open(self, scope: Scope) -> None:
        """Flood if an address makes too many calls that need no token."""
        try:
            self._open_calls.take(_client_of(scope))
        except Busy as error:
            self._metrics.refused["open"] += 1
            raise Flood(error.message, retry_after_s=error.retry_after_s) from error

    def find(self, scope: Scope) -> Token | None:
        """The token of a call, whatever its state; None if none like it was ever created."""
        return self._tokens.find(_secret_of(scope))

    def allowed(self, token: Token | None, scope: Scope, route: Route, org: str) -> Token:
        """The token of a call, if it allows the route. One of another organization is told what a
        stranger is told: there is nothing."""
        if token is None:
            raise self._unknown(_client_of(scope))
        self._check_state(token)
        scope["refold.token"] = token.id
        if token.org != org:
            raise NotFound("there is no such organization for this token")
        if not token.allows(route.level):
            said = f"the token may {token.scope}, but this needs {route.level}"
            raise Denied(said, hint="use a token with more rights")
        self._calls.take(token.id)
        return token

    def _unknown(self, client: str) -> RefoldError:
        """What a guess is told. Only guesses are counted: many people call from one address, and
        neither a valid token nor one that has ended says anything about the others there."""
        self._metrics.refused["token"] += 1
        try:
            self._guesses.take(client)
        except Busy as error:
            return Busy("too many unknown tokens", retry_after_s=error.retry_after_s)
        return _unauthorized("unknown")

    def _check_state(self, token: Token) -> None:
        state = token.state(time.time_ns() // 1_000_000)
        if state != "valid":
            self._metrics.refused["token"] += 1
            raise _unauthorized(state)

    def check_still_valid(self, token: Token) -> None:
        """Unauthorized if the token has ended since it was let in."""
        now = self._tokens.by_id.get(token.id)
        state = "unknown" if now is None else now.state(time.time_ns() // 1_000_000)
        if state != "valid":
            raise _unauthorized(state)


def _unauthorized(state: str) -> Unauthorized:
    return Unauthorized(f"the token is {state}", hint="refold token create makes a new one")


def _client_of(scope: Scope) -> str:
    return str((scope.get("client") or ("unknown",))[0])


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers that something is decided by; Invalid if one of them stands twice, or if two of
    them say how long the body is: which one counts is anybody's guess."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _DECIDING:
            if name in found:
                raise Invalid(f"{name.decode()} occurs more than once")
            found[name] = value
    if b"content-length" in found and b"transfer-encoding" in found:
        raise Invalid("the length of the body is said twice", hint="send Content-Length alone")
    return found


def _host_of(text: bytes) -> str:
    """The name in a Host or Origin, without its port."""
    name = text.decode("latin-1").lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].partition("/")[0]


def _secret_of(scope: Scope) -> str:
    """The token of a call. It is a header, alone; in a URL it would stand in logs."""
    query = scope.get("query_string", b"")
    if query and _IN_URL.search(query):
        said = "a token does not belong in a URL, where it is logged"
        raise Invalid(said, hint="revoke it, and send the next as Authorization: Bearer …")
    found = scope[HEADERS].get(b"authorization")
    if found is None:
        raise Unauthorized("there is no token", hint="send Authorization: Bearer …")
    scheme, _, secret = found.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthorized("the authorization is not a token", hint="Authorization: Bearer …")
    return str(secret)
