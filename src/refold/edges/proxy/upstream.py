"""The way to the providers and back: addresses, headers, and the raw bytes of answers.

Everything goes as it came but what belongs to one connection (RFC 9110, 7.6.1) and the Host.
Nothing is followed, retried, unpacked or remembered here: redirects, errors and cookies are the
client's business, so requests go to a transport of httpx, below the client that would see to those.
Only where the environment names a proxy for calls to the outside, that client finds the way.
Neighbours: `route` names the provider, `app` relays.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from http.cookiejar import DefaultCookiePolicy
from types import MappingProxyType
from urllib.request import getproxies

import httpx

from refold.checked import quoted
from refold.edges.proxy.gate import Header, Provider, Target
from refold.edges.proxy.limits import Limits
from refold.errors import Invalid

BASES: Mapping[Provider, str] = MappingProxyType(
    {
        "anthropic": "https://api.anthropic.com",
        "openai": "https://api.openai.com",
        "gemini": "https://generativelanguage.googleapis.com",
    }
)
CONNECTIONS_MAX, IDLE_MAX = 512, 64
URLS_MAX, URL_BYTES_MAX = 64, 1_000
_PER_CONNECTION = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
_SAID_ANEW = (b"host", b"content-length", b"expect")
# What a copy of an answer can be read from: see `usage`.
READABLE = ("gzip", "deflate", "identity")

_VERSION = re.compile(rb"v[0-9][0-9a-z]*")

Content = bytes | AsyncIterable[bytes]


class Upstream:
    """The providers, each at its address."""

    def __init__(
        self,
        bases: Mapping[Provider, str] = BASES,
        limits: Limits | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        given = limits or Limits()
        self._bases = {name: base_checked(url) for name, url in {**BASES, **bases}.items()}
        self._urls: dict[tuple[Provider, bytes, bytes], httpx.URL] = {}
        self._waits = httpx.Timeout(given.silence_s, connect=given.connect_s).as_dict()
        self._way = transport or _way_out()

    async def close(self) -> None:
        await self._way.aclose()

    def address(self, provider: Provider) -> str:
        """Where a provider is called, for a message to a person."""
        return str(self._bases[provider])

    def _url(self, provider: Provider, path: bytes, query: bytes) -> httpx.URL:
        """Where a call goes. Agents call the same few addresses, and making one takes long."""
        known = self._urls.get((provider, path, query))
        if known is not None:
            return known
        base = self._bases[provider]
        raw_path = joined(base.raw_path, path) + (b"?" + query if query else b"")
        url = base.copy_with(raw_path=raw_path)
        if len(self._urls) < URLS_MAX and len(raw_path) < URL_BYTES_MAX:
            self._urls[provider, path, query] = url
        return url

    async def send(
        self, method: str, target: Target, query: bytes, headers: list[Header], content: Content
    ) -> Answer:
        """The answer, with its body still to be read."""
        url = self._url(target.provider, target.path, query)
        has_body = bool(content) or not isinstance(content, bytes)
        request = httpx.Request(
            method,
            url,
            headers=_sent(headers, content),
            content=content if has_body else None,
            extensions={"timeout": self._waits},
        )
        return Answer(await self._way.handle_async_request(request))


def _way_out() -> httpx.AsyncBaseTransport:
    """How providers are reached: directly, unless the environment names a proxy."""
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=IDLE_MAX)
    named = getproxies().keys() - {"no"}
    return _ByEnvironment(limits) if named else httpx.AsyncHTTPTransport(limits=limits)


class _ByEnvironment(httpx.AsyncBaseTransport):
    """The way that the environment says, host by host, as httpx's client reads it."""

    def __init__(self, limits: httpx.Limits) -> None:
        self._client = httpx.AsyncClient(limits=limits)
        # Cookies belong to the clients that send them, not to us.
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._client.send(request, stream=True)

    async def aclose(self) -> None:
        await self._client.aclose()


class Answer:
    """A provider's answer: its status and headers, and its body as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._stream, self._raw = response.stream, aiter(response.stream)
        self._read: list[bytes] = []
        self.status, self.is_success = response.status_code, response.is_success
        self.headers = response.headers

    async def peek(self, size_max: int) -> bytes | None:
        """The whole body, unpacked; None if it is longer than this. It is relayed all the same."""
        size = 0
        async for chunk in self._raw:
            self._read.append(chunk)
            size += len(chunk)
            if size > size_max:
                return None
        return httpx.Response(200, headers=self.headers, content=b"".join(self._read)).content

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it came, to be read once."""
        for chunk in self._read:
            yield chunk
        async for chunk in self._raw:
            yield chunk

    async def close(self) -> None:
        """Lets go of it, read or not."""
        await self._stream.aclose()


def joined(base: bytes, path: bytes) -> bytes:
    """The path below an address. A version that ends the one and begins the other (`/v1`) is meant
    once: people give addresses with it and without."""
    base = base.rstrip(b"/")
    version = base.rpartition(b"/")[2]
    is_twice = _VERSION.fullmatch(version) and path.startswith(b"/" + version + b"/")
    return base.removesuffix(b"/" + version) + path if is_twice else base + path


def _sent(headers: list[Header], content: Content) -> list[Header]:
    """The headers as they go upstream: whose Host it is and how long the body is, is said anew;
    what a client waits for before it sends its body, it was told here."""
    sent = [one for one in end_to_end(headers) if one[0] not in _SAID_ANEW]
    length = _length(headers, content)
    return sent if length is None else [*sent, (b"content-length", length)]


def _length(headers: Iterable[Header], content: Content) -> bytes | None:
    """How long the body is, as the client said, or as it is now; None where nobody knows."""
    said = next((value for name, value in headers if name == b"content-length"), None)
    if not isinstance(content, bytes):
        return said
    return str(len(content)).encode() if content or said is not None else None


def base_checked(url: str) -> httpx.URL:
    """The address of a provider. Invalid for what is none, or has a secret in it."""
    try:
        base = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise Invalid(f"{quoted(url)} is not an address", hint="https://HOST") from error
    if base.scheme not in ("http", "https") or not base.host or base.query or base.userinfo:
        raise Invalid(f"{quoted(url)} is not an address of a provider", hint="https://HOST[/PATH]")
    return base


def end_to_end(headers: Iterable[Header]) -> list[Header]:
    """The headers without those that belong to one connection."""
    given = list(headers)
    named = {
        name.strip().lower()
        for key, value in given
        if key.lower() == b"connection"
        for name in value.split(b",")
    }
    return [one for one in given if one[0].lower() not in _PER_CONNECTION | named]


def readable(headers: Iterable[Header]) -> list[Header]:
    """The headers, with no encoding asked for in which the usage could not be read."""
    return [
        (name, _readable_codings(value)) if name == b"accept-encoding" else (name, value)
        for name, value in headers
    ]


def unpacked(headers: Iterable[Header]) -> list[Header]:
    """The headers of a request whose answer is taken apart: nothing is to be packed."""
    kept = [one for one in headers if one[0] != b"accept-encoding"]
    return [*kept, (b"accept-encoding", b"identity")]


def _readable_codings(value: bytes) -> bytes:
    given = [one.strip() for one in value.decode("latin-1").split(",")]
    kept = [one for one in given if one.partition(";")[0].strip().lower() in READABLE]
    return ", ".join(kept).encode("latin-1") or b"identity"
