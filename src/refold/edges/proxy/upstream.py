"""The connection to the providers: the provider of a request and its address, headers, and the raw
bytes of answers.

Everything goes as it came, except for headers of one connection (RFC 9110, 7.6.1) and the Host.
Nothing is followed, retried, unpacked or remembered here: redirects, errors and cookies are the
client's, so requests go to a transport of httpx, below its client. That client is used only where
the environment names a proxy. An answer to be read is held within a limit of bytes, packed and
unpacked, and of time; one that is relayed has a limit on the time to its final status, and then on
silence only.

A first segment (`/anthropic`, `/openai`, `/gemini`) names the provider and is removed; without one
the path of a known call decides, then a header that only one provider has. Unknown paths are passed
on. Neighbours: `app` relays, `body` reads known calls.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import DefaultCookiePolicy
from types import MappingProxyType
from typing import Literal, get_args
from urllib.request import getproxies

import httpx
from msgspec import Struct

from refold.checked import quoted
from refold.core.codec import EVENT_BYTES_MAX
from refold.edges.local_access import Header
from refold.errors import Invalid, RefoldError, Unavailable
from refold.system.http_answer import Unpacker, status_checked

Provider = Literal["anthropic", "openai", "gemini"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)


BASES: Mapping[Provider, str] = MappingProxyType(
    {
        "anthropic": "https://api.anthropic.com",
        "openai": "https://api.openai.com",
        "gemini": "https://generativelanguage.googleapis.com",
    }
)
CONNECTIONS_MAX, IDLE_MAX = 512, 64
URLS_MAX, URL_BYTES_MAX = 64, 1_000
PEEK_S = 15.0
_PER_CONNECTION = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
_REPLACED = (b"host", b"content-length", b"expect")
# Encodings that `savings.UsageReader` can unpack.
READABLE = ("gzip", "deflate", "identity")

_VERSION = re.compile(rb"v[0-9][0-9a-z]*")

Content = bytes | AsyncIterable[bytes]


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of the proxy: sizes in bytes, times in seconds. A body over `body_bytes` is not
    read, nor is any while `held_bytes` are in memory; `preparing` calls may wait for the log at
    once, each for `prepare_s`, and for `native_s` more while a provider writes a compaction. For
    one call, the provider is asked `rounds` more times about our tools. Over a limit, a call is
    passed on unread; only `calls_at_once` refuses."""

    body_bytes: int = EVENT_BYTES_MAX
    held_bytes: int = 256 * 1024 * 1024
    calls_at_once: int = 512
    preparing: int = 128
    threads: int = 8
    rounds: int = 8
    prepare_s: float = 15.0
    native_s: float = 150.0
    body_s: float = 120.0
    connect_s: float = 15.0
    silence_s: float = 600.0
    conversations: int = 128
    seen_bytes: int = 256 * 1024 * 1024


class Refused(RefoldError):
    """An error of the proxy itself, with a code of `http.STATUSES`."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code  # type: ignore[misc]


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
        self._silence_s = given.silence_s
        self._waits = httpx.Timeout(given.silence_s, connect=given.connect_s).as_dict()
        self._transport = transport or _direct_or_proxied()

    async def close(self) -> None:
        await self._transport.aclose()

    def address(self, provider: Provider) -> str:
        """The address of a provider, for messages to a person."""
        return str(self._bases[provider])

    def _url(self, provider: Provider, path: bytes, query: bytes) -> httpx.URL:
        """The URL of a call, cached: agents call the same few, and parsing one is slow."""
        known = self._urls.get((provider, path, query))
        if known is not None:
            return known
        base = self._bases[provider]
        raw_path = joined(base.raw_path, path) + (b"?" + query if query else b"")
        try:
            url = base.copy_with(raw_path=raw_path)
        except httpx.InvalidURL as error:
            raise Invalid(f"no address can be made of this path: {error}") from error
        if len(self._urls) < URLS_MAX and len(raw_path) < URL_BYTES_MAX:
            self._urls[provider, path, query] = url
        return url

    async def send(
        self, method: str, target: Target, query: bytes, headers: list[Header], content: Content
    ) -> Answer:
        """The answer, with its body still unread. Refused without a final status in time, counted
        from the last byte of the request: provisional ones would otherwise last for ever."""
        url = self._url(target.provider, target.path, query)
        has_body = bool(content) or not isinstance(content, bytes)
        waiting = asyncio.timeout(self._silence_s)
        request = httpx.Request(
            method,
            url,
            headers=_sent(headers, content),
            content=_sending(content, waiting, self._silence_s) if has_body else None,
            extensions={"timeout": self._waits},
        )
        address = self.address(target.provider)
        with _translated(address):
            async with waiting:
                response = await self._transport.handle_async_request(request)
            answer = Answer(response, address)
        try:
            status_checked(answer.status, address)
        except Unavailable as error:
            await answer.close()
            raise Refused("upstream", error.message) from None
        return answer


def _sending(content: Content, waiting: asyncio.Timeout, silence_s: float) -> Content:
    """The content of a request. The provider's time begins after it: the client may be slow."""
    if isinstance(content, bytes):
        return content

    async def chunks() -> AsyncIterator[bytes]:
        waiting.reschedule(None)
        async for chunk in content:
            yield chunk
        waiting.reschedule(asyncio.get_running_loop().time() + silence_s)

    return chunks()


def _direct_or_proxied() -> httpx.AsyncBaseTransport:
    """The transport to the providers: direct, unless the environment names a proxy."""
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=IDLE_MAX)
    named = getproxies().keys() - {"no"}
    return _ByEnvironment(limits) if named else httpx.AsyncHTTPTransport(limits=limits)


class _ByEnvironment(httpx.AsyncBaseTransport):
    """A transport by the environment's proxy settings, host by host, as httpx's client reads
    them."""

    def __init__(self, limits: httpx.Limits) -> None:
        self._client = httpx.AsyncClient(limits=limits)
        # Cookies belong to the clients that send them, not to us.
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._client.send(request, stream=True)

    async def aclose(self) -> None:
        await self._client.aclose()


class Answer:
    """A provider's answer: its status and headers, and its body as it comes. Everything raises
    Refused: `slow` for an answer that takes too long, `upstream` for a broken one."""

    def __init__(self, response: httpx.Response, address: str) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._stream, self._raw = response.stream, aiter(response.stream)
        self._read = bytearray()
        self._address = address
        self.status, self.is_success = response.status_code, response.is_success
        self.headers = response.headers

    async def peek(self, size_max: int, within_s: float = PEEK_S) -> bytes | None:
        """The whole body, unpacked; None if it cannot be, or is longer than this. It is relayed all
        the same."""
        unpacked = bytearray()
        try:
            unpacker = Unpacker(self.headers.get("content-encoding", ""))
            async with asyncio.timeout(within_s):
                async for chunk in self._chunks():
                    self._read += chunk
                    for piece in unpacker.pieces(chunk):
                        unpacked += piece
                        if max(len(self._read), len(unpacked)) > size_max:
                            return None
        except zlib.error:
            return None
        except TimeoutError:
            raise _slow(self._address) from None
        return bytes(unpacked)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it came, to be read once."""
        if self._read:
            yield bytes(self._read)
            self._read.clear()
        async for chunk in self._chunks():
            yield chunk

    async def _chunks(self) -> AsyncIterator[bytes]:
        with _translated(self._address):
            async for chunk in self._raw:
                yield chunk

    async def close(self) -> None:
        """Closes the connection, even if the body is unread."""
        await self._stream.aclose()


@contextmanager
def _translated(address: str) -> Iterator[None]:
    try:
        yield
    except (httpx.TimeoutException, TimeoutError) as error:
        raise _slow(address) from error
    except httpx.HTTPError as error:
        raise Refused("upstream", f"{address}: {type(error).__name__}") from error


def _slow(address: str) -> Refused:
    return Refused("slow", f"{address} did not answer in time")


def joined(base: bytes, path: bytes) -> bytes:
    """The path below an address. A version that ends the one and begins the other (`/v1`) counts
    once: people give addresses with and without it."""
    base = base.rstrip(b"/")
    version = base.rpartition(b"/")[2]
    is_twice = _VERSION.fullmatch(version) and path.startswith(b"/" + version + b"/")
    return base.removesuffix(b"/" + version) + path if is_twice else base + path


def _sent(headers: list[Header], content: Content) -> list[Header]:
    """The headers to send upstream: with a new Host and length, and without the expectation of a
    client that waited before its body."""
    sent = [one for one in end_to_end(headers) if one[0] not in _REPLACED]
    length = _length(headers, content)
    return sent if length is None else [*sent, (b"content-length", length)]


def _length(headers: Iterable[Header], content: Content) -> bytes | None:
    """The length of the body, as the client said or as it is now; None if unknown."""
    said = next((value for name, value in headers if name == b"content-length"), None)
    if not isinstance(content, bytes):
        return said
    return str(len(content)).encode() if content or said is not None else None


def base_checked(url: str) -> httpx.URL:
    """The address of a provider. Invalid if it is malformed, or has a secret in it."""
    try:
        base = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise Invalid(f"{quoted(url)} is not an address", hint="https://HOST") from error
    if base.scheme not in ("http", "https") or not base.host or base.query or base.userinfo:
        raise Invalid(f"{quoted(url)} is not an address of a provider", hint="https://HOST[/PATH]")
    return base


def end_to_end(headers: Iterable[Header]) -> list[Header]:
    """The headers without those of one connection."""
    given = list(headers)
    named = {
        name.strip().lower()
        for key, value in given
        if key.lower() == b"connection"
        for name in value.split(b",")
    }
    return [one for one in given if one[0].lower() not in _PER_CONNECTION | named]


def readable(headers: Iterable[Header]) -> list[Header]:
    """The headers, with only encodings in which the usage can be read."""
    return [
        (name, _readable_codings(value)) if name == b"accept-encoding" else (name, value)
        for name, value in headers
    ]


def unpacked(headers: Iterable[Header]) -> list[Header]:
    """The headers of a request whose answer is parsed: without compression."""
    kept = [one for one in headers if one[0] != b"accept-encoding"]
    return [*kept, (b"accept-encoding", b"identity")]


def _readable_codings(value: bytes) -> bytes:
    given = [one.strip() for one in value.decode("latin-1").split(",")]
    kept = [one for one in given if one.partition(";")[0].strip().lower() in READABLE]
    return ", ".join(kept).encode("latin-1") or b"identity"


# --- where a request goes ---

SESSION_HEADERS = (b"x-claude-code-session-id", b"session_id", b"x-session-id")
RETRY_HEADER = b"x-stainless-retry-count"  # of the SDKs of Anthropic and OpenAI


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
