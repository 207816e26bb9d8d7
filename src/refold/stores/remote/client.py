"""Calls of a team server: every wait, try and byte is bounded, and every answer becomes a value or
one of refold's errors.

Calls that are safe to repeat are retried when the server is busy or the connection breaks: reads,
and appends, which the chain of an event makes safe. The token goes to the one address it was given
for; redirects are not followed. After a refusal the token is read again, once: the user may have
logged in meanwhile.

A feed streams hints about changes. A hint guarantees nothing: a client finds missed changes by
comparing heads, and compares all after `is_all`, which the server sends at the start and when it no
longer knows the cursor. The server sends something every few seconds; silence means a lost
connection. Neighbours: `store` calls, `stores.hybrid.worker` listens.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from refold import decoding
from refold.checked import quoted
from refold.errors import (
    Conflict,
    Corrupt,
    Denied,
    Invalid,
    NotFound,
    OverBudget,
    RefoldError,
    Unavailable,
)
from refold.settings import logins
from refold.stores.protocol import NewHeads
from refold.system import process_fork

if TYPE_CHECKING:
    import httpx

CONNECT_S, READ_S, DEADLINE_S, CHECK_S = 5.0, 30.0, 30.0, 5.0
PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
ANY, EVENTS = "*/*", "text/event-stream"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
T = TypeVar("T")

_ERRORS: dict[str, type[RefoldError]] = {
    "invalid": Invalid,
    "not-found": NotFound,
    "corrupt": Corrupt,
    "over-budget": OverBudget,
    "too-large": Invalid,
    "denied": Denied,
    "unauthorized": Denied,
}


class Failure(Struct, kw_only=True):
    """An error answer of the server."""

    error: str
    message: str
    hint: str = ""
    head: int = 0


class TokenAbout(Struct, kw_only=True):
    """The server's description of a token."""

    id: str
    scope: str
    expires_ms: int = 0


class _Busy(Unavailable):
    """The server is overloaded and did nothing."""


class Client:
    """Calls one organization's routes on one server, with the token of the user's login unless
    another is given."""

    def __init__(
        self, place: str, *, token: str | None = None, deadline_s: float = DEADLINE_S
    ) -> None:
        self.place = place
        self._given, self._token = token, token
        parts = urlsplit(place)
        self._org = parts.path.strip("/")
        self._base = f"{parts.scheme}://{parts.netloc}/api/v1/orgs/{self._org}/context"
        self._host = parts.hostname or ""
        self.deadline_s = deadline_s
        self._lock = threading.Lock()
        self.http: httpx.Client | None = None
        self._of_parents: list[httpx.Client] = []
        process_fork.watch(self)

    # --- calls ---

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        repeats: bool = True,
    ) -> bytes:
        """The body of the answer. A call that `repeats` is retried until the deadline after an
        `Unavailable` with a time for a retry; any other only if the server did nothing."""
        deadline = time.monotonic() + self.deadline_s
        number = 0
        while True:
            number += 1
            try:
                return self._checked(self._request(method, path, query, body, stream=False))
            except Unavailable as error:
                is_repeatable = repeats or isinstance(error, _Busy)
                if not is_repeatable or error.retry_after_s is None:
                    raise
                # Longer each time, and random, so that clients do not retry together.
                longest = min(PAUSE_S_MAX, PAUSE_S * 2**number)
                pause_s = max(error.retry_after_s, random.uniform(0, longest))
                if time.monotonic() + pause_s > deadline:
                    raise
                time.sleep(pause_s)

    def value(self, type: type[T], method: str, path: str, **given: Any) -> T:
        """The answer, decoded."""
        answer = self.call(method, path, **given)
        try:
            return decoding.decode(answer, type)
        except msgspec.DecodeError as error:
            raise self._not_understood(error) from error

    def send(self, path: str, chunks: Iterable[bytes], query: Mapping[str, str]) -> bytes:
        """Posts chunks as they come, once."""
        content = (bytes(chunk) for chunk in chunks)
        return self._checked(self._request("POST", path, query, content, stream=False))

    def chunks(self, path: str) -> Iterator[bytes]:
        """The body of an answer, streamed. Errors are raised before the first chunk."""
        return self._streamed(self._stream(path, None, ANY))

    def listen(self, path: str, cursor: str) -> Feed:
        """A stream of the changes after a cursor."""
        return Feed(self._stream(path, {"after": cursor}, EVENTS), cursor, self._translated)

    def _stream(self, path: str, query: Mapping[str, str] | None, accept: str) -> httpx.Response:
        """An open response whose status is 200."""
        response = self._request("GET", path, query, None, stream=True, accept=accept)
        if response.status_code != 200:
            with closing(response):
                self._translated(response.read)
                self._checked(response)
        return response

    def _streamed(self, response: httpx.Response) -> Iterator[bytes]:
        with closing(response):
            chunks = response.iter_bytes(256 * 1024)
            while (chunk := self._translated(lambda: next(chunks, None))) is not None:
                yield chunk

    def _request(
        self, method: str, path: str, query: Any, content: Any, *, stream: bool, accept: str = ANY
    ) -> httpx.Response:
        """The response, after a second try if the user has logged in since the first."""
        token = self._known_token()
        response = self.transmit(token, method, path, query, content, stream, accept)
        if response.status_code != 401 or not isinstance(content, bytes | None):
            return response
        self._token = None
        newer = self._known_token()
        if newer == token:
            return response
        response.close()
        return self.transmit(newer, method, path, query, content, stream, accept)

    def transmit(
        self,
        token: str,
        method: str,
        path: str,
        query: Any,
        content: Any,
        stream: bool,
        accept: str,
    ) -> httpx.Response:
        client = self._opened()
        request = client.build_request(
            method,
            f"{self._base}/{path}",
            params=query,
            content=content,
            headers={"Authorization": f"Bearer {token}", "Accept": accept},
        )
        return self._translated(lambda: client.send(request, stream=stream))

    # --- the connection ---

    def _opened(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self.http is None:
                self.http = httpx.Client(
                    timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
                    follow_redirects=False,
                    # It respects SSL_CERT_FILE, also without `trust_env`.
                    verify=httpx.create_ssl_context(),
                    # A proxy of the environment is not for this machine.
                    trust_env=self._host not in LOOPBACK,
                    limits=httpx.Limits(max_connections=32, max_keepalive_connections=8),
                )
                weakref.finalize(self, self.http.close)
            return self.http

    def _known_token(self) -> str:
        token = self._token or self._given or logins.token_for(self.place, os.environ)
        if token is None:
            message = f"not logged in to {self.place}"
            hint = f"refold login {self.place}, or REFOLD_TOKEN"
            if os.environ.get("REFOLD_TOKEN") and logins.is_of_another(self.place, os.environ):
                message += "; REFOLD_TOKEN is for the server that REFOLD_STORE names"
                hint = f"refold login {self.place}, or set REFOLD_STORE to it"
            raise Denied(message, hint=hint)
        if not token.isascii() or not token.isprintable() or " " in token:
            raise Invalid("that is not a token", hint="it begins with rft_")
        self._token = token
        return token

    def before_fork(self) -> None:
        """Nothing: the parent keeps its connections."""

    def after_fork(self, *, in_child: bool) -> None:
        """Lets the child open its own connections."""
        if in_child:
            self._lock = threading.Lock()
            if self.http is not None:
                self._of_parents.append(self.http)
                self.http = None

    def close(self) -> None:
        with self._lock:
            if self.http is not None:
                self.http.close()
                self.http = None

    # --- errors ---

    def _translated(self, work: Callable[[], T]) -> T:
        import httpx

        try:
            return work()
        except httpx.HTTPError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                message = f"the certificate of {self.place} is not trusted: {error}"
                hint = "SSL_CERT_FILE names a file with the authority of your team"
                raise Denied(message, hint=hint) from error
            reason = f"{self.place} cannot be reached: {str(error) or type(error).__name__}"
            hint = "what was appended before is kept; try again"
            raise Unavailable(reason, retry_after_s=1.0, hint=hint) from error

    def _checked(self, response: httpx.Response) -> bytes:
        """The body of a successful answer; raises the error of any other."""
        if len(response.content) > ANSWER_BYTES_MAX:
            raise self._not_understood(f"an answer of {len(response.content):,} bytes")
        if response.status_code in (200, 204):
            return response.content
        raise self._failure(response)

    def _failure(self, response: httpx.Response) -> RefoldError:
        try:
            failure = decoding.decode(response.content, Failure)
        except msgspec.DecodeError:
            return self._foreign_failure(response)
        if failure.error == "conflict":
            return Conflict(failure.message, head=failure.head, hint=failure.hint)
        if failure.error == "unauthorized":
            return Denied(failure.message, hint=f"refold login {self.place}")
        kind = _ERRORS.get(failure.error)
        if kind is not None:
            return kind(failure.message, hint=failure.hint)
        if response.status_code in (401, 403):
            return Denied(failure.message, hint=failure.hint)
        if _is_final(response):
            return Invalid(failure.message, hint=failure.hint)
        wait_s = _retry_after_s(response) if _can_pass(response) else None
        unavailable = _Busy if response.status_code == 429 else Unavailable
        return unavailable(failure.message, retry_after_s=wait_s, hint=failure.hint)

    def _foreign_failure(self, response: httpx.Response) -> RefoldError:
        """The error for an answer that is not from a refold server, but perhaps from a proxy."""
        message = f"{self.place} answered {response.status_code}"
        if _can_pass(response):
            return Unavailable(message, retry_after_s=_retry_after_s(response))
        hint = "is that the address of a refold server?"
        if response.status_code in (401, 403):
            return Denied(message, hint=f"{hint} A proxy on the way may have refused")
        if _is_final(response):
            return Invalid(message, hint=f"{hint} A proxy on the way may refuse such calls")
        return Unavailable(message, hint=hint)

    def _not_understood(self, why: object) -> Unavailable:
        message = f"{self.place} gave an answer that cannot be understood: {why}"
        return Unavailable(message, hint="is that the address of a refold server?")


def token_checked(place: str, token: str) -> TokenAbout:
    """The server's description of a token for a place. Denied if it refuses the token."""
    client = Client(place, token=token, deadline_s=CHECK_S)
    try:
        return client.value(TokenAbout, "GET", "token")
    finally:
        client.close()


def place_checked(url: str) -> str:
    """The address of an organization on a server: `https://HOST/ORG`. Plain HTTP is for this
    machine only, because a token would go in the clear."""
    parts = urlsplit(url)
    org = parts.path.strip("/")
    try:
        is_complete = bool(parts.hostname and org and "/" not in org and parts.port != 0)
    except ValueError:
        is_complete = False
    if not is_complete or parts.query or parts.fragment or parts.username or parts.password:
        hint = "https://refold.example.com/acme"
        raise Invalid(f"{quoted(url, 200)} is not the address of an organization", hint=hint)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise Invalid(f"a token is not sent to {parts.hostname} in the clear", hint="use https://")
    return f"{parts.scheme}://{parts.netloc}/{org}"


def _can_pass(response: httpx.Response) -> bool:
    """Whether the same call may succeed a little later."""
    return response.status_code in (408, 425, 429) or response.status_code >= 500


def _is_final(response: httpx.Response) -> bool:
    """Whether the same call can never succeed. A 404 may be a server that has not started, and a
    conflict ends after reading the new events."""
    is_refused = 400 <= response.status_code < 500
    return is_refused and response.status_code not in (404, 409) and not _can_pass(response)


def _retry_after_s(response: httpx.Response) -> float:
    value = response.headers.get("retry-after", "1")
    return min(60.0, float(value)) if value.isascii() and value.isdecimal() else 1.0


# --- the feed of changes ---

LINE_BYTES_MAX = 8 * 1024 * 1024
DATA = b"data: "


class _Change(Struct):
    conversation: str
    head: int


class _Changes(Struct, kw_only=True):
    cursor: str
    changes: list[_Change]
    rescan: bool = False


class Feed:
    """The hints of one connection; another one can continue from `cursor`."""

    def __init__(
        self,
        response: httpx.Response,
        cursor: str,
        translated: Callable[[Callable[[], bytes | None]], bytes | None],
    ) -> None:
        self._response, self._translated = response, translated
        self.cursor = cursor

    def __iter__(self) -> Iterator[NewHeads]:
        try:
            for line in self._lines():
                if line.startswith(DATA + b"{"):
                    yield self._hint(line.removeprefix(DATA))
        finally:
            self._response.close()

    def _hint(self, data: bytes) -> NewHeads:
        try:
            changes = decoding.decode(data, _Changes)
        except msgspec.DecodeError as error:
            raise Unavailable(f"the feed is not understood: {error}") from error
        self.cursor = changes.cursor
        heads = {one.conversation: one.head for one in changes.changes}
        return NewHeads(heads=heads, is_all=changes.rescan)

    def _lines(self) -> Iterator[bytes]:
        chunks = self._response.iter_bytes()
        rest = b""
        while (chunk := self._translated(lambda: next(chunks, None))) is not None:
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                raise Unavailable(f"a line of the feed is longer than {LINE_BYTES_MAX:,} bytes")
            yield from lines

    def end(self) -> None:
        """Ends the stream, from any thread, also while another waits for the next hint."""
        stream = self._response.extensions.get("network_stream")
        plain = stream.get_extra_info("socket") if stream is not None else None
        if plain is not None:
            with contextlib.suppress(OSError):
                plain.shutdown(socket.SHUT_RDWR)
