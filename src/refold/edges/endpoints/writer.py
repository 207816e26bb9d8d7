"""A writer over HTTP: `endpoint(url, model)` gives a callable that asks a real model.

    context = refold.open("work", writer=endpoint("https://api.anthropic.com", "claude-haiku-4-5", kind="anthropic"))

One call at a time; every try, wait and byte is bounded. The key comes from the environment, goes to
no other host than the one named, and into no error or log. Redirects are not followed. Neighbours:
`writer_wire` has the formats, `asking` calls it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from refold.edges.endpoints.wires import WIRES, Kind
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from refold.redaction import redacted
from refold.settings.sources import writer_loaded
from refold.tokens.models import model_info
from refold.writer.asker import WINDOW_DEFAULT, Answer, Request

if TYPE_CHECKING:
    import httpx

RETRY_AFTER_MAX_S = 60.0
BACKOFF_S = 0.5
BODY_BYTES_MAX = 8 * 1024 * 1024
HOUR_S = 3_600.0
EXCERPT_CHARS = 200
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def endpoint(
    url: str,
    model: str,
    *,
    kind: Kind = "openai",
    key_env: str = "",
    timeout_s: float = 30.0,
    tries: int = 3,
    window: int | None = None,
    deadline_s: float = 120.0,
    calls_per_hour: int = 0,
) -> Endpoint:
    """A writer that asks the model at this address. `key_env` names the variable that holds the
    key; without it, the provider's usual one, for the provider's own host only. `window` is the
    model's; by default what is known of it, or 32,000. 0 calls per hour: no limit."""
    if kind not in WIRES:
        raise Invalid(f"there is no kind of endpoint {kind!r}", hint="known: " + ", ".join(WIRES))
    known = model_info(model)
    window = (known.window if known.known else WINDOW_DEFAULT) if window is None else window
    if timeout_s <= 0 or deadline_s <= 0 or tries < 1 or window < 1:
        raise Invalid(
            "an endpoint needs a timeout, a deadline, a try and a window",
            hint="give positive numbers",
        )
    return Endpoint(
        _checked(url),
        model,
        kind=kind,
        key_env=key_env,
        timeout_s=timeout_s,
        tries=tries,
        window=window,
        deadline_s=deadline_s,
        calls_per_hour=calls_per_hour,
    )


def configured(**given: Any) -> Endpoint | None:
    """The writer that the settings name (`[writer]` in refold.toml, `REFOLD_WRITER_*`); what is
    given here wins. None if nothing names one. It is never used by itself: history leaves the
    house only where a caller says so."""
    settings = writer_loaded(given)
    if not settings.url:
        return None
    if not settings.model:
        raise Invalid(
            f"the writer at {redacted(settings.url)!r} has no model",
            hint="name it: model, or --writer-model",
        )
    values = {
        name: getattr(settings, name)
        for name in settings.__struct_fields__
        if name not in ("url", "model")
    }
    return endpoint(settings.url, settings.model, **values)


class Endpoint:
    """The callable that `endpoint` makes. It shows itself without its key."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        kind: Kind,
        key_env: str,
        timeout_s: float,
        tries: int,
        window: int,
        deadline_s: float,
        calls_per_hour: int,
    ) -> None:
        self.url, self.model, self.kind, self.window = url, model, kind, window
        self.host = urlsplit(url).hostname or ""
        self.output_max = model_info(model).output
        self._wire = WIRES[kind]
        self._key_env = key_env or (self._wire.key_env if self.host == self._wire.host else "")
        self._timeout_s, self._tries, self._deadline_s = timeout_s, tries, deadline_s
        self._calls_per_hour, self._called = calls_per_hour, deque[float]()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"endpoint({self.host!r}, {self.model!r}, kind={self.kind!r})"

    def __call__(self, request: Request) -> Answer:
        """Asks. `Unavailable` if there is no answer in time, `Denied` without a valid key."""
        request = replace(
            request, max_tokens=min(request.max_tokens, self.output_max or request.max_tokens)
        )
        deadline = time.monotonic() + min(self._deadline_s, request.wait_s)
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unavailable(
                f"{self.host}: another call is in flight", hint="one call at a time; try again"
            )
        try:
            self._spend()
            return self._wire.answer(self._body(request, deadline))
        finally:
            self._lock.release()

    def _spend(self) -> None:
        """Keeps to the calls per hour."""
        now = time.monotonic()
        while self._called and now - self._called[0] > HOUR_S:
            self._called.popleft()
        if 0 < self._calls_per_hour <= len(self._called):
            wait = HOUR_S - (now - self._called[0])
            raise Unavailable(
                f"{self.host}: {self._calls_per_hour} calls in this hour are used up",
                retry_after_s=wait,
            )
        self._called.append(now)

    def _key(self) -> str:
        """The key, read anew for every call. It must be there if it was named, and must not
        leave in the clear."""
        if not self._key_env:
            return ""
        key = os.environ.get(self._key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise Denied(
                f"{self._key_env} holds no key", hint=f"set {self._key_env} in the environment"
            )
        if urlsplit(self.url).scheme != "https" and self.host not in LOOPBACK:
            raise Denied(
                f"a key is not sent to {self.host} in the clear", hint="use an https address"
            )
        return key

    # --- tries ---

    def _body(self, request: Request, deadline: float) -> dict[str, Any]:
        import httpx

        key = self._key()
        # A proxy of the environment has no business between this process and a server on the same
        # machine.
        with httpx.Client(follow_redirects=False, trust_env=self.host not in LOOPBACK) as client:
            for number in range(1, self._tries + 1):
                try:
                    return self._tried(client, request, key, deadline, pause_s=_pause(number))
                except Unavailable as error:
                    last = number == self._tries or error.retry_after_s is None
                    if last or not _slept(error.retry_after_s or 0.0, deadline):
                        raise
        raise AssertionError("the last try returns or raises")

    def _tried(
        self, client: httpx.Client, request: Request, key: str, deadline: float, *, pause_s: float
    ) -> dict[str, Any]:
        """One try. `Unavailable` says after how long another is worth it, if it is."""
        import httpx

        left = min(self._timeout_s, deadline - time.monotonic())
        if left <= 0:
            raise Unavailable(f"{self.host}: the time for the call is over")
        address = self._wire.path(self.url, self.model)
        payload = self._wire.payload(request, self.model, self.host)
        try:
            with client.stream(
                "POST", address, json=payload, headers=self._wire.headers(key), timeout=left
            ) as response:
                content = _read(response, deadline)
        except httpx.TimeoutException as error:
            raise Unavailable(
                f"{self.host}: no answer within {left:.3g} s", retry_after_s=pause_s
            ) from error
        except httpx.HTTPError as error:
            reason = f"{self.host}: the connection failed or ended early ({type(error).__name__})"
            raise Unavailable(reason, retry_after_s=pause_s) from error
        if response.status_code != 200:
            raise self._refused(response, content, key, pause_s)
        return self._decoded(content)

    def _refused(
        self, response: httpx.Response, content: bytes, key: str, pause_s: float
    ) -> RefoldError:
        """The error for a status that is not 200. A provider may echo the key it was given, even
        in part."""
        status, text = response.status_code, content.decode("utf-8", "replace")
        text = redacted(text.replace(key, "[key]") if key else text)
        reason = f"{self.host} answered {status}: {' '.join(text.split())[:EXCERPT_CHARS]}"
        if status == 429 or status >= 500:
            return Unavailable(
                reason, retry_after_s=_retry_after(response.headers.get("retry-after"), pause_s)
            )
        if status in (401, 403):
            return Denied(
                f"{self.host} answered {status}",
                hint=f"check the key in {self._key_env or 'key_env'}",
            )
        if 300 <= status < 400:
            return Invalid(
                f"{self.host} answered {status}; no redirect is followed",
                hint="give the final address",
            )
        return Invalid(reason, hint="check the model's name and the address")

    def _decoded(self, content: bytes) -> dict[str, Any]:
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = (
                "a web page"
                if content.lstrip()[:1] == b"<"
                else f"{len(content)} bytes that are not JSON"
            )
            raise Unavailable(
                f"{self.host} answered with {what}", hint="check the address"
            ) from error
        if not isinstance(body, dict):
            raise Unavailable(
                f"{self.host} answered with JSON that is not an object", hint="check the address"
            )
        return body


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(
            f"{redacted(url)!r} is not an address",
            hint="give one such as https://api.openai.com/v1",
        )
    if parts.username or parts.password or parts.query:
        raise Invalid(
            "an endpoint's address holds no key and no password",
            hint="name the variable in key_env",
        )
    return url.rstrip("/")


def _read(response: httpx.Response, deadline: float) -> bytes:
    """The whole body, if it is not too large and does not trickle in for ever."""
    content = b""
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > BODY_BYTES_MAX:
            raise Unavailable(f"an answer of more than {BODY_BYTES_MAX:,} bytes")
        if time.monotonic() > deadline:
            raise Unavailable("the answer did not end in time")
    return content


def _retry_after(header: str | None, pause_s: float) -> float:
    """The seconds to wait that a server asks for, as a number or a date, capped; our own pause
    if it says nothing."""
    if not header:
        return pause_s
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return pause_s
    return max(0.0, min(seconds, RETRY_AFTER_MAX_S)) if seconds == seconds else pause_s


def _pause(number: int) -> float:
    """Longer from try to try, and different from client to client, so that not all come back at
    once."""
    return float(BACKOFF_S * random.uniform(0.5, 1.5) * 2 ** (number - 1))


def _slept(seconds: float, deadline: float) -> bool:
    """Waits before the next try, unless that would be too late."""
    if time.monotonic() + seconds >= deadline:
        return False
    time.sleep(seconds)
    return True
