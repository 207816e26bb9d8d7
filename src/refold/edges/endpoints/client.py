"""Posting JSON to one host: every try, wait and byte is bounded.

The key comes from the environment, is read again for every call, goes to no other host than the one
named, and into no error or log. Redirects are not followed. Neighbours: `writer`, `embedder` and
`chat` say what is posted and read the answers, `wires` has the providers' formats.

Server-sent events, as the providers stream their replies: the JSON object of each.

Only `data` counts, in one line or several; an `error` field, which some servers of llama.cpp send,
is read like it. Bytes may be cut anywhere. Neighbours: `client` gives the bytes, `chat` reads the
objects.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from refold.checked import quoted
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from refold.redaction import redacted

if TYPE_CHECKING:
    import httpx

RETRY_AFTER_MAX_S = 60.0
BACKOFF_S = 0.5
BODY_BYTES_MAX = 8 * 1024 * 1024
EXCERPT_CHARS = 200
REFUSAL_CHARS = 4_000
CONNECT_S_MAX = 15.0
ADDRESS_HINT = "give one such as https://api.openai.com/v1"
DEADLINE_MAX_S = 86_400
TRIES_MAX = 100
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Post(Struct, frozen=True, kw_only=True):
    """What is sent: where to, and as what. `headers` are made of the key."""

    address: str
    payload: dict[str, Any]
    headers: Callable[[str], Mapping[str, str]]


class Refused(Invalid):
    """A request that the provider does not take as it is. `body` has its words, in which
    `dialects.overflow` finds a page that is too long."""

    def __init__(self, message: str, *, body: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.body = body


class Client:
    """Posts to one host. `key_env` names the variable that holds the key; empty if none is sent."""

    def __init__(self, url: str, *, key_env: str, timeout_s: float, tries: int) -> None:
        self.url = url
        self.host = host_of(url)
        self._key_env, self._timeout_s, self._tries = key_env, timeout_s, tries

    def post(self, post: Post, deadline: float) -> dict[str, Any]:
        """The answer, a JSON object. `Unavailable` if there is none by the deadline (on the
        monotonic clock), `Denied` without a valid key."""
        import httpx

        key = self._key()
        # A proxy of the environment has no business between this process and a server on the same
        # machine.
        with httpx.Client(follow_redirects=False, trust_env=self.host not in LOOPBACK) as client:
            for number in range(1, self._tries + 1):
                try:
                    return self._try(client, post, key, deadline, _pause_s(number))
                except Unavailable as error:
                    if number == self._tries or not _wait(error.retry_after_s, deadline):
                        raise
        raise AssertionError("the last try returns or raises")

    def stream(self, post: Post, *, idle_s: float, deadline: float) -> Iterator[bytes]:
        """The bytes of an answer as they come, in one try: whoever shows them can say that it
        waits, and try again. Errors as in `post`; a refusal is a `Refused`."""
        import httpx

        key = self._key()
        headers = dict(post.headers(key))
        limits = httpx.Timeout(idle_s, connect=min(idle_s, CONNECT_S_MAX))
        try:
            with (
                httpx.Client(follow_redirects=False, trust_env=self.host not in LOOPBACK) as client,
                client.stream(
                    "POST", post.address, json=post.payload, headers=headers, timeout=limits
                ) as response,
            ):
                if response.status_code != 200:
                    raise self._refusal(response, _read(response, deadline), key, _pause_s(1))
                yield from _bounded(response.iter_bytes(), deadline)
        except httpx.TimeoutException as error:
            reason = f"{self.host}: nothing came for {idle_s:.3g} s"
            raise Unavailable(reason, retry_after_s=_pause_s(1)) from error
        except httpx.HTTPError as error:
            raise self._broken(error, _pause_s(1)) from error

    def _broken(self, error: Exception, pause_s: float) -> Unavailable:
        reason = f"{self.host}: the connection failed or ended early ({type(error).__name__})"
        return Unavailable(reason, retry_after_s=pause_s)

    def _key(self) -> str:
        """The key. It must be there if it was named, and must not leave in the clear."""
        if not self._key_env:
            return ""
        key = os.environ.get(self._key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            hint = f"set {self._key_env} in the environment"
            raise Denied(f"{self._key_env} holds no key", hint=hint)
        if urlsplit(self.url).scheme != "https" and self.host not in LOOPBACK:
            reason = f"a key is not sent to {self.host} in the clear"
            raise Denied(reason, hint="use an https address")
        return key

    def _try(
        self, client: httpx.Client, post: Post, key: str, deadline: float, pause_s: float
    ) -> dict[str, Any]:
        """One try. `Unavailable` says after how long another is worth it, if it is."""
        import httpx

        left_s = min(self._timeout_s, deadline - time.monotonic())
        if left_s <= 0:
            raise Unavailable(f"{self.host}: the time for the call is over")
        headers = dict(post.headers(key))
        try:
            with client.stream(
                "POST", post.address, json=post.payload, headers=headers, timeout=left_s
            ) as response:
                content = _read(response, deadline)
        except httpx.TimeoutException as error:
            reason = f"{self.host}: no answer within {left_s:.3g} s"
            raise Unavailable(reason, retry_after_s=pause_s) from error
        except httpx.HTTPError as error:
            raise self._broken(error, pause_s) from error
        if response.status_code != 200:
            raise self._refusal(response, content, key, pause_s)
        return self._decoded(content)

    def _refusal(
        self, response: httpx.Response, content: bytes, key: str, pause_s: float
    ) -> RefoldError:
        """The error for a status that is not 200."""
        status = response.status_code
        if status in (401, 403):
            hint = f"check the key in {self._key_env or 'key_env'}"
            return Denied(f"{self.host} answered {status}", hint=hint)
        if 300 <= status < 400:
            reason = f"{self.host} answered {status}; no redirect is followed"
            return Invalid(reason, hint="give the final address")
        reason = f"{self.host} answered {status}: {_excerpt(content, key)}"
        if status == 429 or status >= 500:
            wait_s = retry_after_s(response.headers.get("retry-after"), pause_s)
            return Unavailable(reason, retry_after_s=wait_s)
        said = _one_line_body(content, key)[:REFUSAL_CHARS]
        return Refused(reason, body=said, hint="check the model's name and the address")

    def _decoded(self, content: bytes) -> dict[str, Any]:
        """The JSON object of an answer; `Unavailable` if it is not one."""
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            is_page = content.lstrip()[:1] == b"<"
            what = "a web page" if is_page else f"{len(content)} bytes that are not JSON"
            raise self._unreadable(what) from error
        if not isinstance(body, dict):
            raise self._unreadable("JSON that is not an object")
        return body

    def _unreadable(self, what: str) -> Unavailable:
        return Unavailable(f"{self.host} answered with {what}", hint="check the address")


def host_of(url: str) -> str:
    """The host of an address."""
    return urlsplit(url).hostname or ""


def check_address(url: str) -> str:
    """The address without a slash at its end; Invalid if it is not one, or holds a key."""
    if not isinstance(url, str):
        raise Invalid(f"an address is a text, not {quoted(url, 60)}", hint=ADDRESS_HINT)
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is read when it is asked for
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{redacted(url)!r} is not an address", hint=ADDRESS_HINT)
    if parts.username or parts.password or parts.query:
        reason = "an endpoint's address holds no key and no password"
        raise Invalid(reason, hint="name the variable in key_env")
    return url.rstrip("/")


def check_limits(*, timeout_s: float, deadline_s: float, tries: int) -> None:
    """Refuses limits that limit nothing, or that no call could keep."""
    for name, seconds in (("timeout_s", timeout_s), ("deadline_s", deadline_s)):
        if not _is_number(seconds) or not 0 < seconds <= DEADLINE_MAX_S:
            hint = f"give seconds, above 0 and at most {DEADLINE_MAX_S:,}"
            raise Invalid(f"{name} is {seconds!r}", hint=hint)
    if not isinstance(tries, int) or not 1 <= tries <= TRIES_MAX:
        raise Invalid(f"tries is {tries!r}", hint=f"give a number from 1 to {TRIES_MAX}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _excerpt(content: bytes, key: str) -> str:
    """The start of an answer."""
    return _one_line_body(content, key)[:EXCERPT_CHARS]


def _one_line_body(content: bytes, key: str) -> str:
    """What an answer says, on one line. A provider may echo the key it was given, even in part."""
    text = content.decode("utf-8", "replace")
    if key:
        text = text.replace(key, "[key]")
    return " ".join(redacted(text).split())


def _read(response: httpx.Response, deadline: float) -> bytes:
    """The whole body."""
    return b"".join(_bounded(response.iter_bytes(), deadline))


def _bounded(chunks: Iterable[bytes], deadline: float) -> Iterator[bytes]:
    """The chunks of a body, if it is not too large and does not trickle in forever."""
    size_bytes = 0
    for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > BODY_BYTES_MAX:
            raise Unavailable(f"an answer of more than {BODY_BYTES_MAX:,} bytes")
        if time.monotonic() > deadline:
            raise Unavailable("the answer did not end in time")
        yield chunk


# --- waiting ---


def retry_after_s(header: str | None, pause_s: float) -> float:
    """The seconds to wait that a server asks for, as a number or a date, capped; our own pause
    if it says nothing."""
    seconds = _header_seconds(header or "")
    if seconds is None or seconds != seconds:
        return pause_s
    return max(0.0, min(seconds, RETRY_AFTER_MAX_S))


def _header_seconds(header: str) -> float | None:
    """The seconds that a header names; None if it names none."""
    with suppress(ValueError):
        return float(header)
    with suppress(ValueError):
        return parsedate_to_datetime(header).timestamp() - time.time()
    return None


def _pause_s(number: int) -> float:
    """Longer from try to try, and different from client to client, so that not all come back at
    once."""
    return float(BACKOFF_S * random.uniform(0.5, 1.5) * 2 ** (number - 1))


def _wait(seconds: float | None, deadline: float) -> bool:
    """Waits before the next try; False if none is worth it, or it would be too late."""
    if seconds is None or time.monotonic() + seconds >= deadline:
        return False
    time.sleep(seconds)
    return True


END = "[DONE]"
FIELDS = ("data", "error")


def objects(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream, as they come. Unavailable for data that is no JSON object."""
    data: list[str] = []
    for line in _lines(chunks):
        name, _, value = line.partition(":")
        if name in FIELDS:
            data.append(value.removeprefix(" "))
        elif not line and data:
            if data == [END]:
                return
            yield _decoded("\n".join(data))
            data = []
    if data and data != [END]:
        # The empty line that ends an event is missing at the end of some streams.
        yield _decoded("\n".join(data))


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines of a stream of bytes; a line ends with LF or CRLF."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
    if rest:
        yield rest.removesuffix(b"\r").decode("utf-8", "replace")


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(text) from error
    if not isinstance(value, dict):
        raise _unreadable(text)
    return value


def _unreadable(text: str) -> Unavailable:
    reason = f"the stream holds {len(text):,} characters that are not a JSON object"
    return Unavailable(reason, hint="check the address and the kind of the endpoint")
