"""Who may call: only this machine, by its own names, unless a token was set; never a web page.

A page in a browser can reach this port, and would bring its own Host or Origin. The token is taken
off before anything goes upstream, whether it came as a header or, for clients that can send none,
as the beginning of the path. Neighbours: `app` asks for each call.

Which provider a request is for, and whether its body is a conversation's.

A first segment (`/anthropic`, `/openai`, `/gemini`) names the provider and is taken off. Without
one the path of a known call does, then a header that only one of them has. A path that is nobody's
is passed on like any other: what a provider answers, it answers. Neighbours: `upstream` knows the
addresses, `body` reads what a known call says.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable, MutableMapping
from typing import Any, Literal, get_args

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


SESSION_HEADERS = (b"x-claude-code-session-id", b"session_id", b"x-session-id")
RETRY_HEADER = b"x-stainless-retry-count"  # of the SDKs of Anthropic and OpenAI
Provider = Literal["anthropic", "openai", "gemini"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)


class Known(Struct, frozen=True):
    """A call whose body refold reads: its provider, its dialect, and whether it only counts."""

    provider: Provider
    dialect: str
    counts: bool = False


class Target(Struct, frozen=True, kw_only=True):
    """Where a request goes; `known` is None for what is passed on unread. `model` is the one that
    the path names, if it does."""

    provider: Provider
    path: bytes
    known: Known | None = None
    model: str = ""


_V1 = rb"(?:/.*)?/v1"
_KNOWN: tuple[tuple[re.Pattern[bytes], Known], ...] = (
    (re.compile(rb"(?:" + _V1 + rb")?/messages"), Known("anthropic", "anthropic")),
    (
        re.compile(rb"(?:" + _V1 + rb")?/messages/count_tokens"),
        Known("anthropic", "anthropic", True),
    ),
    (re.compile(rb"(?:" + _V1 + rb")?/chat/completions"), Known("openai", "openai_chat")),
    (re.compile(rb"(?:" + _V1 + rb")?/responses"), Known("openai", "openai_responses")),
    (
        re.compile(rb"(?:/.*)?/models/(?P<model>[^/:]+):(?:g|streamG)enerateContent"),
        Known("gemini", "gemini"),
    ),
)
# Headers that only one provider's clients send.
_TELLING: tuple[tuple[bytes, Provider], ...] = (
    (b"anthropic-version", "anthropic"),
    (b"anthropic-beta", "anthropic"),
    (b"x-goog-api-key", "gemini"),
    (b"x-api-key", "anthropic"),
    (b"openai-beta", "openai"),
    (b"authorization", "openai"),
)


def target_of(method: str, path: bytes, headers: Collection[bytes]) -> Target:
    """Where a request goes, by its path and the names of its headers."""
    first, _, rest = path[1:].partition(b"/")
    named = next((one for one in PROVIDERS if one.encode() == first), None)
    path = b"/" + rest if named else path
    for pattern, known in _KNOWN:
        found = pattern.fullmatch(path) if method == "POST" else None
        if found is not None and named in (None, known.provider):
            model = found.groupdict().get("model", b"").decode("utf-8", "replace")
            return Target(provider=known.provider, path=path, known=known, model=model)
    return Target(provider=named or _told_by(headers), path=path)


def _told_by(headers: Collection[bytes]) -> Provider:
    return next((provider for name, provider in _TELLING if name in headers), "anthropic")


def session_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The session that a client says it is; several of these make one."""
    given = dict(headers)
    found = next(filter(None, map(given.get, SESSION_HEADERS)), b"")
    return found.decode("latin-1")[:200]


def is_retry(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a client says that it makes a call again."""
    return dict(headers).get(RETRY_HEADER, b"0").strip() not in (b"", b"0")
