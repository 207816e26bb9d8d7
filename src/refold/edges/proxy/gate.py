"""Who may call: only this machine, by its own names, unless a token was set; never a web page.

A page in a browser can reach this port, and would bring its own Host or Origin. The token is taken
off before anything goes upstream, whether it came as a header or, for clients that can send none,
as the beginning of the path. Neighbours: `app` asks for each call.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, MutableMapping
from typing import Any

from msgspec import Struct

from refold.errors import Denied, RefoldError

Scope = MutableMapping[str, Any]
Header = tuple[bytes, bytes]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
TOKEN_HEADER = b"x-refold-token"
_TOKEN_PATH = re.compile(rb"/token/([^/]{1,200})(/.*)?", re.DOTALL)


class Unauthorized(RefoldError):
    """There is no token, or a wrong one."""

    code = "unauthorized"


class Admitted(Struct, frozen=True):
    """What a call that was let in asks for: its path and its headers, without the token."""

    path: bytes
    headers: list[Header]


class Gate:
    """Lets calls in, or says why not."""

    def __init__(self, *, names: Iterable[str] = (), token: str = "") -> None:
        self._names = LOOPBACK | {name.lower() for name in names}
        self._token = token.encode()

    def admitted(self, scope: Scope) -> Admitted:
        """The call without its token. Denied for a foreign name or a web page, Unauthorized
        without the token that was set."""
        headers: list[Header] = scope["headers"]
        self._check_names(headers)
        path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
        if self._token:
            path = self._without_token(path, headers)
        return Admitted(path, [one for one in headers if one[0] != TOKEN_HEADER])

    def _without_token(self, path: bytes, headers: list[Header]) -> bytes:
        """The path without the token, which stands there or in a header."""
        found = _TOKEN_PATH.fullmatch(path)
        given = [value for name, value in headers if name == TOKEN_HEADER]
        given += [found[1]] if found else []
        if not any(hmac.compare_digest(one, self._token) for one in given):
            hint = "send it as the header x-refold-token, or call /token/TOKEN/…"
            raise Unauthorized("the token of this proxy is missing or wrong", hint=hint)
        return (found[2] or b"/") if found else path

    def _check_names(self, headers: list[Header]) -> None:
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or host_of(hosts[0]) not in self._names:
            raise Denied("this proxy does not go by that name", hint="refold proxy --name NAME")
        for name, value in headers:
            if name == b"origin" and host_of(value.partition(b"://")[2]) not in self._names:
                raise Denied("calls from web pages are not passed on")


def host_of(text: bytes) -> str:
    """The name in a Host or Origin, without its port."""
    name = text.decode("latin-1").lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].partition("/")[0]
