"""Calls of a team server: every wait, try and byte is bounded, and every answer becomes a value or
one of refold's errors.

Calls that are safe to repeat are retried when the server is busy or the connection breaks: reads,
and appends, which the chain of an event makes safe. The token goes to the one address it was given
for; redirects are not followed. After a refusal the token is read again, once: the user may have
logged in meanwhile.

A feed streams hints about changes. A hint guarantees nothing: a client finds missed changes by
comparing heads, and compares all after `is_all`, which the server sends at the start and when it no
longer knows the cursor. The server sends something every few seconds; silence means a lost
connection. Neighbours: `store` calls, `stores.hybrid.automatic_sync` listens.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

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
from refold.stores.checks import SEQ_MAX
from refold.stores.event_lines import LINE_BYTES_MAX
from refold.stores.protocol import NewHeads
from refold.system import process_fork
from refold.system.http_answer import (
    LOOPBACK,
    PACE_BYTES_S,
    Answer,
    Patience,
    asked,
    client_for,
    lines,
)

if TYPE_CHECKING:
    import httpx

CONNECT_S, READ_S, DEADLINE_S, CHECK_S = 5.0, 30.0, 30.0, 5.0
PAUSE_S, PAUSE_S_MAX, LAST_TRY_S = 0.2, 5.0, 0.1
# An answer has at least one event, whatever its size.
ANSWER_BYTES_MAX = LINE_BYTES_MAX + 1024 * 1024
CONTENT_BYTES_MAX = 1024 * 1024 * 1024  # what a server accepts
# The longest that an answer takes, and a content, which may be larger.
ANSWER_S_MAX, CONTENT_S_MAX = 600.0, 3_600.0
ANY, EVENTS = "*/*", "text/event-stream"
Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
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
    message: Annotated[str, Meta(max_length=10_000)]
    hint: Annotated[str, Meta(max_length=10_000)] = ""
    head: Seq = 0


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
        if token is None:
            # The first server that is opened, not the first that is called, owns the token of the
            # environment.
            logins.owner_of_token(place, os.environ)
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
            patience = self._patience(deadline - time.monotonic())
            try:
                return self._checked(self._request(method, path, query, body, patience))
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
        return self._decoded(self.call(method, path, **given), type)

    def send(
        self, path: str, chunks: Iterable[bytes], query: Mapping[str, str], type: type[T]
    ) -> T:
        """The decoded answer to chunks, which are posted as they come, once."""
        answer = self._request("POST", path, query, iter(chunks), self._patience(self.deadline_s))
        return self._decoded(self._checked(answer), type)

    def chunks(self, path: str) -> Iterator[bytes]:
        """The body of an answer, streamed. Errors are raised before the first chunk."""
        patience = self._patience(self.deadline_s, CONTENT_S_MAX)
        answer = self._open(path, None, ANY, patience)
        return answer.pieces(CONTENT_BYTES_MAX)

    def listen(self, path: str, cursor: str) -> Feed:
        """A stream of the changes after a cursor."""
        patience = Patience(inf, idle_s=READ_S)
        return Feed(self._open(path, {"after": cursor}, EVENTS, patience), cursor, self.place)

    def _patience(self, wait_s: float, wait_s_max: float = ANSWER_S_MAX) -> Patience:
        # Without a deadline there is one try, which has the time of any.
        wait_s = max(wait_s, LAST_TRY_S) if self.deadline_s else READ_S
        return Patience(
            wait_s,
            idle_s=min(wait_s, READ_S),
            pace_bytes_s=PACE_BYTES_S,
            wait_s_max=wait_s_max,
        )

    def _open(
        self, path: str, query: Mapping[str, str] | None, accept: str, patience: Patience
    ) -> Answer:
        """An open answer whose status is 200."""
        answer = self._request("GET", path, query, None, patience, accept)
        if answer.status != 200:
            self._checked(answer)
            raise self.not_understood(f"the status {answer.status}")
        return answer

    def _request(
        self,
        method: str,
        path: str,
        query: Any,
        content: Any,
        patience: Patience,
        accept: str = ANY,
    ) -> Answer:
        """The answer, after a second try if the user has logged in since the first."""
        token = self._known_token()
        answer = self.transmit(token, method, path, query, content, patience, accept)
        if answer.status != 401 or not isinstance(content, bytes | None):
            return answer
        self._token = None
        newer = self._known_token()
        if newer == token:
            return answer
        answer.close()
        return self.transmit(newer, method, path, query, content, patience, accept)

    def transmit(
        self,
        token: str,
        method: str,
        path: str,
        query: Any,
        content: Any,
        patience: Patience,
        accept: str,
    ) -> Answer:
        return asked(
            self._opened(),
            method,
            f"{self._base}/{path}",
            patience,
            place=self.place,
            params=query,
            content=content,
            headers={"Authorization": f"Bearer {token}", "Accept": accept},
            connect_s=CONNECT_S,
        )

    # --- the connection ---

    def _opened(self) -> httpx.Client:
        with self._lock:
            if self.http is None:
                self.http = client_for(self._host, connections=32)
                weakref.finalize(self, self.http.close)
            return self.http

    def _known_token(self) -> str:
        token = self._token or self._given or logins.token_for(self.place, os.environ)
        if token is None:
            message = f"not logged in to {self.place}"
            hint = f"refold login {self.place}, or REFOLD_TOKEN"
            if owner := logins.owner_of_token(self.place, os.environ):
                message += f"; REFOLD_TOKEN is for {owner}"
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

    def _checked(self, answer: Answer) -> bytes:
        """The body of a successful answer; raises the error of any other."""
        content = answer.whole(ANSWER_BYTES_MAX)
        if answer.status in (200, 204):
            return content
        raise self._failure(answer, content)

    def _decoded(self, content: bytes, type: type[T]) -> T:
        try:
            return decoding.decode(content, type)
        except msgspec.DecodeError as error:
            raise self.not_understood(error) from error

    def _failure(self, answer: Answer, content: bytes) -> RefoldError:
        try:
            failure = decoding.decode(content, Failure)
        except msgspec.DecodeError:
            return self._foreign_failure(answer)
        if failure.error == "conflict":
            return Conflict(failure.message, head=failure.head, hint=failure.hint)
        if failure.error == "unauthorized":
            return Denied(failure.message, hint=f"refold login {self.place}")
        kind = _ERRORS.get(failure.error)
        if kind is not None:
            return kind(failure.message, hint=failure.hint)
        if answer.status in (401, 403):
            return Denied(failure.message, hint=failure.hint)
        if _is_final(answer.status):
            return Invalid(failure.message, hint=failure.hint)
        wait_s = _retry_after_s(answer) if _can_pass(answer.status) else None
        unavailable = _Busy if answer.status == 429 else Unavailable
        return unavailable(failure.message, retry_after_s=wait_s, hint=failure.hint)

    def _foreign_failure(self, answer: Answer) -> RefoldError:
        """The error for an answer that is not from a refold server, but perhaps from a proxy."""
        message = f"{self.place} answered {answer.status}"
        if _can_pass(answer.status):
            return Unavailable(message, retry_after_s=_retry_after_s(answer))
        hint = "is that the address of a refold server?"
        if answer.status in (401, 403):
            return Denied(message, hint=f"{hint} A proxy on the way may have refused")
        if _is_final(answer.status):
            return Invalid(message, hint=f"{hint} A proxy on the way may refuse such calls")
        return Unavailable(message, hint=hint)

    def not_understood(self, why: object) -> Unavailable:
        """The error for an answer that no refold server gives."""
        message = f"{self.place} sent an answer that cannot be understood: {why}"
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


def _can_pass(status: int) -> bool:
    """Whether the same call may succeed a little later."""
    return status in (408, 425, 429) or status >= 500


def _is_final(status: int) -> bool:
    """Whether the same call can never succeed. A 404 may be a server that has not started, and a
    conflict ends after reading the new events."""
    return 400 <= status < 500 and status not in (404, 409) and not _can_pass(status)


def _retry_after_s(answer: Answer) -> float:
    value = answer.headers.get("retry-after", "1")
    return min(60.0, float(value)) if value.isascii() and value.isdecimal() else 1.0


# --- the feed of changes ---

HINT_BYTES_MAX = 2 * 1024 * 1024  # the longest that a server sends names 10,000 conversations
DATA = b"data: "


class _Change(Struct):
    conversation: str
    head: Seq


class _Changes(Struct, kw_only=True):
    cursor: Annotated[str, Meta(max_length=200)]
    changes: list[_Change]
    rescan: bool = False


class Feed:
    """The hints of one connection; another one can continue from `cursor`."""

    def __init__(self, answer: Answer, cursor: str, place: str) -> None:
        self._answer, self._place = answer, place
        self.cursor = cursor
        self.end = answer.end

    def __iter__(self) -> Iterator[NewHeads]:
        for line in lines(self._answer.pieces(inf), HINT_BYTES_MAX, self._place):
            if line.startswith(DATA + b"{"):
                yield self._hint(line.removeprefix(DATA))

    def _hint(self, data: bytes) -> NewHeads:
        try:
            changes = decoding.decode(data, _Changes)
        except msgspec.DecodeError as error:
            raise Unavailable(f"the feed is not understood: {error}") from error
        self.cursor = changes.cursor
        heads = {one.conversation: one.head for one in changes.changes}
        return NewHeads(heads=heads, is_all=changes.rescan)
