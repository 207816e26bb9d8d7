"""Which provider a request is for, and whether its body is a conversation's.

A first segment (`/anthropic`, `/openai`, `/gemini`) names the provider and is taken off. Without
one the path of a known call does, then a header that only one of them has. A path that is nobody's
is passed on like any other: what a provider answers, it answers. Neighbours: `upstream` knows the
addresses, `body` reads what a known call says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal, get_args

from msgspec import Struct

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
