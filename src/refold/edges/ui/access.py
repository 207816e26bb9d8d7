"""Who may use the web view: one person's browser on this machine.

The gate that the proxy and the MCP server have refuses foreign names and web pages. Beyond it,
every call but the page itself, its files and the exchange of the key needs a cookie. The key is in
the fragment of the printed address, which no server, log or referrer sees; the page exchanges it
for the cookie, once. It is too long to guess, so guesses are only slowed down: nobody locks out the
person with the key. Another address is printed on request. Neighbours: `edges.local_access`; `app`
asks for each call.
"""

from __future__ import annotations

import hmac
import secrets

from refold.edges.local_access import Gate, Scope, Unauthorized
from refold.errors import Denied, Invalid

HOST = "127.0.0.1"
KEY_BYTES = 32
WRONG_S = 1.0
METHODS = ("GET", "POST")
OPEN = (b"/", b"/enter")  # in addition to the static files
STATIC = b"/static/"
_ENTER_HINT = "press Enter where refold ui runs, for a new address"


class NotAllowed(Denied):
    """A method that no path has."""

    code = "not-allowed"


class Access:
    """Admits calls with a cookie. Each key admits one browser."""

    def __init__(self, port: int) -> None:
        self.hosts = (f"{HOST}:{port}", f"localhost:{port}")
        self._gate = Gate(hosts=self.hosts, hint=f"open http://{self.hosts[0]}/")
        self._cookie = f"refold-{port}"
        self._key = ""
        self._sessions: list[str] = []

    def new_key(self) -> str:
        """A key that works once; an older one no longer works."""
        self._key = secrets.token_urlsafe(KEY_BYTES)
        return self._key

    def address(self) -> str:
        """The address to open, with a new key."""
        return f"http://{self.hosts[0]}/#key={self.new_key()}"

    def check(self, scope: Scope) -> str:
        """The path of an admitted call. Errors as in `Gate.check`; NotAllowed for another method;
        Unauthorized without the cookie."""
        path = self._gate.check(scope)
        method = scope["method"]
        if method not in METHODS:
            raise NotAllowed(f"{method:.20} is not supported", hint="GET and POST are")
        headers = scope["headers"]
        sites = [value.lower() for name, value in headers if name == b"sec-fetch-site"]
        if any(site != b"same-origin" for site in sites) and path != b"/":
            raise Denied("calls from outside this page are refused")
        if method == "POST":
            host = next(value for name, value in headers if name == b"host")
            if values_of(scope, b"origin") != [b"http://" + host]:
                raise Denied("only this page may write")
            if values_of(scope, b"content-type") != [b"application/json"]:
                raise Invalid("the body must be application/json")
        if path not in OPEN and not path.startswith(STATIC) and not self._has_cookie(scope):
            raise Unauthorized("this browser has not been admitted", hint=_ENTER_HINT)
        return path.decode("ascii")

    def enter(self, key: object) -> str:
        """The Set-Cookie header for the right key, which is used up. Unauthorized for another."""
        given = key.encode("utf-8", "replace") if isinstance(key, str) else b""
        expected = self._key.encode()
        if not expected or not hmac.compare_digest(given, expected):
            raise Unauthorized("this address was used already, or is wrong", hint=_ENTER_HINT)
        self._key = ""
        self._sessions.append(secrets.token_urlsafe(KEY_BYTES))
        return f"{self._cookie}={self._sessions[-1]}; HttpOnly; SameSite=Strict; Path=/"

    def _has_cookie(self, scope: Scope) -> bool:
        given = [
            value
            for line in values_of(scope, b"cookie")
            for name, _, value in (part.strip().partition(b"=") for part in line.split(b";"))
            if name == self._cookie.encode()
        ]
        known = [one.encode() for one in self._sessions]
        return any(hmac.compare_digest(one, other) for one in given for other in known)


def values_of(scope: Scope, name: bytes) -> list[bytes]:
    """The values of a header."""
    return [value for key, value in scope["headers"] if key == name]
