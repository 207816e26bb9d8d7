"""Admission to a server on this machine: the proxy, the MCP server and the web view.

A page in a browser can call every address of this machine, so its headers decide: the Host must be
one of the server's names, and the Origin, if there is one, the very address that is called; a
browser also says with Sec-Fetch-Site where a call without an Origin comes from. What is called is a
path: other targets (of a proxy for everything, of a tunnel) are refused, and so are dot segments,
with which a path leads to another place at the provider than it says here. The proxy's token is
removed before anything goes upstream, whether it came as a header or, for clients that cannot send
one, as the beginning of the path. Neighbours: `proxy.app` and `mcp.server` ask for each call.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from refold.checked import quoted
from refold.errors import Denied, Invalid, RefoldError

Scope = MutableMapping[str, Any]
Header = tuple[bytes, bytes]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
TOKEN_HEADER = b"x-refold-token"
_TOKEN_PATH = re.compile(rb"/token/([^/]{1,200})(/.*)?", re.DOTALL)
_HOST = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[1-9]\d{0,4}))?")
PORT_MAX = 65_535
_UNSENDABLE = re.compile(rb"[^!-~]|#")  # no URL has these
_DOTS = (b".", b"..")
DECODINGS_MAX = 4
_OWN_SITES = (b"same-origin", b"none")  # none: the user typed the address
_PORTS = {"http": "80", "https": "443"}


class Unauthorized(RefoldError):
    """The token is missing or wrong."""

    code = "unauthorized"


class Admitted(Struct, frozen=True):
    """The path and headers of an admitted call, without the token."""

    path: bytes
    headers: list[Header]


class Gate:
    """Admits calls, or raises the reason for a refusal. With `hosts`, a Host must be exactly one of
    them, port included. `hint` says how this server is called."""

    def __init__(
        self,
        *,
        names: Iterable[str] = (),
        token: str = "",
        hosts: Iterable[str] = (),
        hint: str = "call 127.0.0.1 or localhost",
    ) -> None:
        self._hint = hint
        self._names = LOOPBACK | {name.lower() for name in names}
        self._hosts = frozenset(host.encode() for host in hosts)
        self._token = token.encode()

    def admitted(self, scope: Scope) -> Admitted:
        """The call without its token. Errors as in `check`, and Unauthorized without the token that
        was set."""
        path, headers = self.check(scope), scope["headers"]
        if self._token:
            path = self._without_token(path, headers)
        return Admitted(path, [one for one in headers if one[0] != TOKEN_HEADER])

    def check(self, scope: Scope) -> bytes:
        """The path of a call. Invalid for a target that is not a path, Denied for a foreign name or
        a web page."""
        path: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
        query = scope.get("query_string", b"")
        is_path = path.startswith(b"/") and not _UNSENDABLE.search(path + query)
        if scope["method"] == "CONNECT" or not is_path or _has_dot_segment(path):
            shown = quoted(path.decode("latin-1"), 60)
            raise Invalid(f"{scope['method']:.20} {shown} is not a call", hint="call a path: /v1/…")
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        is_known = len(hosts) == 1 and host_of(hosts[0]) in self._names
        if not is_known or (self._hosts and hosts[0] not in self._hosts):
            raise Denied("unknown host name", hint=self._hint)
        for name, value in scope["headers"]:
            is_foreign = name == b"origin" and not _is_at(value, hosts[0])
            if is_foreign or (name == b"sec-fetch-site" and value.lower() not in _OWN_SITES):
                raise Denied("calls from web pages are refused")
        return path

    def _without_token(self, path: bytes, headers: list[Header]) -> bytes:
        """The path without the token, which may be there or in a header."""
        found = _TOKEN_PATH.fullmatch(path)
        given = [value for name, value in headers if name == TOKEN_HEADER]
        given += [found[1]] if found else []
        if not any(hmac.compare_digest(one, self._token) for one in given):
            hint = "send it as the header x-refold-token, or call /token/TOKEN/…"
            raise Unauthorized("the token of this proxy is missing or wrong", hint=hint)
        return (found[2] or b"/") if found else path


def _has_dot_segment(path: bytes) -> bool:
    """Whether a part of the path is `.` or `..` in any spelling: each server on the way may decode
    it once more, take a backslash for a slash, or leave out parameters."""
    for _ in range(DECODINGS_MAX):
        if any(part.partition(b";")[0] in _DOTS for part in re.split(rb"[/\\]", path)):
            return True
        before, path = path, unquote_to_bytes(path)
        if path == before:
            return False
    return True  # nobody encodes a path that often


def host_of(text: bytes) -> str:
    """The name in a Host, without its port; empty if it is not exactly a name and a port."""
    found = _HOST.fullmatch(text)
    is_host = found is not None and int(found["port"] or 1) <= PORT_MAX
    return found["name"].decode().lower() if found and is_host else ""


def _is_at(origin: bytes, host: bytes) -> bool:
    """Whether the pages of an Origin come from this Host: the same name, and the same port."""
    scheme, _, place = origin.decode("latin-1").lower().partition("://")
    own = host.decode("latin-1").lower()
    port = f":{_PORTS.get(scheme, '')}"
    return scheme in _PORTS and place.removesuffix(port) == own.removesuffix(port)
