"""An HTTP client that posts JSON to one host: every try, wait and byte is bounded.

The key comes from the environment, is read again for every call, is sent only to the named host,
and appears in no error or log. Redirects are not followed. `objects` reads server-sent events, in
which providers stream their replies. Neighbours: `writer`, `embedder` and `chat` send the posts and
read the answers.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from refold import decoding
from refold.checked import quoted
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from refold.redaction import redacted
from refold.system.http_answer import (
    LOOPBACK,
    Answer,
    Patience,
    Unanswered,
    asked,
    client_for,
    lines,
)

RETRY_AFTER_MAX_S = 60.0
BACKOFF_S = 0.5
BODY_BYTES_MAX = 8 * 1024 * 1024
EXCERPT_CHARS = 200
REFUSAL_CHARS = 4_000
ADDRESS_HINT = "use one such as https://api.openai.com/v1"
DEADLINE_MAX_S = 86_400
TRIES_MAX = 100


class Post(Struct, frozen=True, kw_only=True):
    """One POST: its address, its JSON, and headers made from the key."""

    address: str
    payload: dict[str, Any]
    headers: Callable[[str], Mapping[str, str]]


class Refused(Invalid):
    """A request that the provider does not accept. `body` has its answer, in which
    `dialects.overflow` recognizes a page that is too long."""

    def __init__(self, message: str, *, body: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.body = body


class Client:
    """Posts to one host. `key_env` names the variable with the key; empty if none is sent."""

    def __init__(self, url: str, *, key_env: str, timeout_s: float, tries: int) -> None:
        self.url = url
        self.host = host_of(url)
        self._key_env, self._timeout_s, self._tries = key_env, timeout_s, tries

    def post(self, post: Post, deadline: float) -> dict[str, Any]:
        """The answer, a JSON object. `Unavailable` if there is none by the deadline (on the
        monotonic clock), `Denied` without a valid key."""
        key = self._key()
        with client_for(self.host) as client:
            for number in range(1, self._tries + 1):
                try:
                    return self._try(client, post, key, deadline, _pause_s(number))
                except Unavailable as error:
                    pause_s = error.retry_after_s
                    if number == self._tries or pause_s is None:
                        raise
                    if time.monotonic() + pause_s >= deadline:
                        raise
                time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def stream(self, post: Post, patience: Patience) -> Iterator[bytes]:
        """The bytes of an answer as they arrive, in one try: a caller that shows them can try again
        itself. Errors as in `post`; a refusal is a `Refused`."""
        key = self._key()
        with client_for(self.host) as client:
            try:
                answer = self._asked(client, post, key, patience)
                if answer.status != 200:
                    raise self._refusal(answer, answer.whole(BODY_BYTES_MAX), key, _pause_s(1))
                yield from answer.pieces(BODY_BYTES_MAX)
            except Unanswered as error:
                error.retry_after_s = _pause_s(1)
                raise

    def _asked(self, client: Any, post: Post, key: str, patience: Patience) -> Answer:
        headers = post.headers(key)
        return asked(
            client,
            "POST",
            post.address,
            patience,
            place=self.host,
            json=post.payload,
            headers=headers,
        )

    def _key(self) -> str:
        """The key. Denied if its variable is empty, or if it would be sent unencrypted."""
        if not self._key_env:
            return ""
        key = os.environ.get(self._key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            hint = f"set {self._key_env} in the environment"
            raise Denied(f"{self._key_env} has no valid key", hint=hint)
        if urlsplit(self.url).scheme != "https" and self.host not in LOOPBACK:
            reason = f"a key is not sent to {self.host} in the clear"
            raise Denied(reason, hint="use an https address")
        return key

    def _try(
        self, client: Any, post: Post, key: str, deadline: float, pause_s: float
    ) -> dict[str, Any]:
        """One try. `Unavailable` has the time to wait if another try is worth it."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise Unavailable(f"{self.host}: the time for the call is over")
        try:
            patience = Patience(left_s, idle_s=min(self._timeout_s, left_s))
            answer = self._asked(client, post, key, patience)
            content = answer.whole(BODY_BYTES_MAX)
        except Unanswered as error:
            error.retry_after_s = pause_s
            raise
        if answer.status != 200:
            raise self._refusal(answer, content, key, pause_s)
        try:
            body = decoding.foreign_value(content)
        except msgspec.DecodeError as error:
            is_page = content.lstrip()[:1] == b"<"
            what = "a web page" if is_page else f"{len(content)} bytes that are not JSON"
            raise self._unreadable(what) from error
        if not isinstance(body, dict):
            raise self._unreadable("JSON that is not an object")
        return body

    def _refusal(self, answer: Answer, content: bytes, key: str, pause_s: float) -> RefoldError:
        """The error for a status that is not 200."""
        status = answer.status
        if status in (401, 403):
            hint = f"check the key in {self._key_env or 'key_env'}"
            return Denied(f"{self.host} answered {status}", hint=hint)
        if 300 <= status < 400:
            reason = f"{self.host} answered {status}; no redirect is followed"
            return Invalid(reason, hint="pass the final address")
        text = content.decode("utf-8", "replace")
        if key:  # a provider may echo the key
            text = text.replace(key, "[key]")
        line = " ".join(redacted(text).split())
        reason = f"{self.host} answered {status}: {line[:EXCERPT_CHARS]}"
        if status == 429 or status >= 500:
            wait_s = retry_after_s(answer.headers.get("retry-after"), pause_s)
            return Unavailable(reason, retry_after_s=wait_s)
        hint = "check the model's name and the address"
        return Refused(reason, body=line[:REFUSAL_CHARS], hint=hint)

    def _unreadable(self, what: str) -> Unavailable:
        return Unavailable(f"{self.host} answered with {what}", hint="check the address")


def host_of(url: str) -> str:
    """The host of an address."""
    return urlsplit(url).hostname or ""


def check_address(url: str) -> str:
    """The address without a trailing slash. Invalid if it is not one, or contains a key."""
    if not isinstance(url, str):
        raise Invalid(f"an address is a string, not {quoted(url, 60)}", hint=ADDRESS_HINT)
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - this parses the port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{redacted(url)!r} is not an address", hint=ADDRESS_HINT)
    if parts.username or parts.password or parts.query:
        reason = "an endpoint's address holds no key and no password"
        raise Invalid(reason, hint="name the variable in key_env")
    return url.rstrip("/")


def check_limits(*, timeout_s: float, deadline_s: float, tries: int) -> None:
    """Raises Invalid for limits that are not numbers, or out of range."""
    for name, seconds in (("timeout_s", timeout_s), ("deadline_s", deadline_s)):
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 < seconds <= DEADLINE_MAX_S:
            hint = f"pass seconds, above 0 and at most {DEADLINE_MAX_S:,}"
            raise Invalid(f"{name} is {seconds!r}", hint=hint)
    if not isinstance(tries, int) or not 1 <= tries <= TRIES_MAX:
        raise Invalid(f"tries is {tries!r}", hint=f"pass a number from 1 to {TRIES_MAX}")


# --- waiting ---


def retry_after_s(header: str | None, pause_s: float) -> float:
    """Seconds to wait by a server's header, a number or a date, capped; `pause_s` if it has
    neither."""
    try:
        seconds = float(header or "")
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header or "").timestamp() - time.time()
        except (ValueError, OverflowError):
            return pause_s
    is_number = seconds == seconds  # NaN is not equal to itself
    return max(0.0, min(seconds, RETRY_AFTER_MAX_S)) if is_number else pause_s


def _pause_s(number: int) -> float:
    """A pause that grows with each try, and differs between clients, so that they spread out."""
    return float(BACKOFF_S * random.uniform(0.5, 1.5) * 2 ** (number - 1))


# --- server-sent events ---

END = "[DONE]"
FIELDS = ("data", "error")  # llama.cpp sends errors in a field of their own


def objects(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream, as they arrive. Unavailable for data that is not a JSON object."""
    data: list[str] = []
    # The lengths of all lines together are bounded, as `chunks` are.
    for raw in lines(chunks, BODY_BYTES_MAX, "the endpoint"):
        line = raw.removesuffix(b"\r").decode("utf-8", "replace")
        name, _, value = line.partition(":")
        if name in FIELDS:
            data.append(value.removeprefix(" "))
        elif not line and data:
            if data == [END]:
                return
            yield _decoded("\n".join(data))
            data = []
    if data and data != [END]:
        # Some streams end without the empty line that ends an event.
        yield _decoded("\n".join(data))


def _decoded(text: str) -> dict[str, Any]:
    value, cause = None, None
    try:
        value = decoding.foreign_value(text.encode())
    except msgspec.DecodeError as error:
        cause = error
    if not isinstance(value, dict):
        reason = f"the stream has {len(text):,} characters that are not a JSON object"
        hint = "check the address and the kind of the endpoint"
        raise Unavailable(reason, hint=hint) from cause
    return value
