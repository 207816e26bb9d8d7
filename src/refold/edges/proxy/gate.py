"""Admission and routing: who may call, for which provider, and whether refold reads the body.

Only this machine may call, by its own names, unless a token is set; never a web page, which would
bring its own Host or Origin. The token is removed before anything goes upstream, whether it came as
a header or, for clients that cannot send one, as the beginning of the path. A first segment
(`/anthropic`, `/openai`, `/gemini`) names the provider and is removed; without one the path of a
known call decides, then a header that only one provider has. Unknown paths are passed on.
Neighbours: `app` asks for each call, `upstream` has the addresses, `body` reads known calls.
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
    """The token is missing or wrong."""

    code = "unauthorized"


class Admitted(Struct, frozen=True):
    """The path and headers of an admitted call, without the token."""

    path: bytes
    headers: list[Header]


class Gate:
    """Admits calls, or raises the reason for a refusal."""

    def __init__(self, *, names: Iterable[str] = (), token: str = "") -> None:
        self._names = LOOPBACK | {name.lower() for name in names}
        self._token = token.encode()

    def admitted(self, scope: Scope) -> Admitted:
        """The call without its token. Denied for a foreign name or a web page, Unauthorized without
        the token that was set."""
        headers: list[Header] = scope["headers"]
        self._check_names(headers)
        path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
        if self._token:
            path = self._without_token(path, headers)
        return Admitted(path, [one for one in headers if one[0] != TOKEN_HEADER])

    def _without_token(self, path: bytes, headers: list[Header]) -> bytes:
        """The path without the token, which may be there or in a header."""
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
            raise Denied("unknown host name", hint="refold proxy --name NAME")
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
    """A call whose body refold reads: its provider, its dialect, and whether it only counts
    tokens."""

    provider: Provider
    dialect: str
    counts: bool = False


class Target(Struct, frozen=True, kw_only=True):
    """The destination of a request; `known` is None if its body is passed on unread. `model` is the
    model named in the path, if any."""

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
_PROVIDER_HEADERS: tuple[tuple[bytes, Provider], ...] = (
    (b"anthropic-version", "anthropic"),
    (b"anthropic-beta", "anthropic"),
    (b"x-goog-api-key", "gemini"),
    (b"x-api-key", "anthropic"),
    (b"openai-beta", "openai"),
    (b"authorization", "openai"),
)


def target_of(method: str, path: bytes, headers: Collection[bytes]) -> Target:
    """The destination of a request, by its path and the names of its headers."""
    first, _, rest = path[1:].partition(b"/")
    named = next((one for one in PROVIDERS if one.encode() == first), None)
    path = b"/" + rest if named else path
    for pattern, known in _KNOWN:
        found = pattern.fullmatch(path) if method == "POST" else None
        if found is not None and named in (None, known.provider):
            model = found.groupdict().get("model", b"").decode("utf-8", "replace")
            return Target(provider=known.provider, path=path, known=known, model=model)
    if named is not None:
        return Target(provider=named, path=path)
    by_header = (provider for name, provider in _PROVIDER_HEADERS if name in headers)
    return Target(provider=next(by_header, "anthropic"), path=path)


def session_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The session that a client names in its headers."""
    values = dict(headers)
    found = next(filter(None, map(values.get, SESSION_HEADERS)), b"")
    return found.decode("latin-1")[:200]


def is_retry(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a client says that it repeats a call."""
    return dict(headers).get(RETRY_HEADER, b"0").strip() not in (b"", b"0")
