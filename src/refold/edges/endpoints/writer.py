"""A writer over HTTP: `endpoint(url, model)` gives a callable that asks a real model.

    writer = endpoint("https://api.anthropic.com", "claude-haiku-4-5", kind="anthropic")
    context = refold.open("work", writer=writer)

One call at a time. Neighbours: `client` posts, `wires` has the formats, `refold.writer` calls it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from msgspec.structs import asdict, replace

from refold.checked import checked
from refold.display import suggestion
from refold.edges.endpoints.client import Client, Post, check_address, check_limits, host_of
from refold.edges.endpoints.wires import WIRES, Kind
from refold.errors import Invalid, Unavailable
from refold.redaction import redacted
from refold.settings.writer import writer_loaded
from refold.tokens.models import model_info
from refold.writer.asker import Answer, Request
from refold.writer.exchange import WINDOW_DEFAULT

HOUR_S = 3_600.0


@checked
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
        hint = suggestion(str(kind), WIRES)
        raise Invalid(f"there is no kind of endpoint {kind!r}", hint=hint)
    if window is None:
        known = model_info(model)
        window = known.window if known.known else WINDOW_DEFAULT
    check_limits(timeout_s=timeout_s, deadline_s=deadline_s, tries=tries)
    if not isinstance(window, int) or window < 1:
        raise Invalid(f"window is {window!r}", hint="give the tokens that the model can read")
    return Endpoint(
        check_address(url),
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
    given here wins. None if nothing names one. It is never used automatically: a conversation
    leaves this machine only where a caller says so."""
    settings = asdict(writer_loaded(given))
    url, model = settings.pop("url"), settings.pop("model")
    if not url:
        return None
    if not model:
        hint = "name it: model, or --writer-model"
        raise Invalid(f"the writer at {redacted(url)!r} has no model", hint=hint)
    return endpoint(url, model, **settings)


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
        self.host = host_of(url)
        self.output_max = model_info(model).output
        self._wire, self._deadline_s = WIRES[kind], deadline_s
        key_env = key_env or self._wire.usual_key_env(self.host)
        self._client = Client(url, key_env=key_env, timeout_s=timeout_s, tries=tries)
        self._calls_per_hour, self._calls = calls_per_hour, deque[float]()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"endpoint({self.host!r}, {self.model!r}, kind={self.kind!r})"

    def __call__(self, request: Request) -> Answer:
        """Asks. `Unavailable` if there is no answer in time, `Denied` without a valid key."""
        wait_s = min(self._deadline_s, request.wait_s)
        deadline = time.monotonic() + wait_s
        if not self._lock.acquire(timeout=max(0.0, wait_s)):
            reason = f"{self.host}: another call is in flight"
            raise Unavailable(reason, hint="one call at a time; try again")
        try:
            self._count_call()
            return self._wire.answer(self._client.post(self._post(request), deadline))
        finally:
            self._lock.release()

    def _post(self, request: Request) -> Post:
        """The request in the provider's words."""
        if self.output_max:
            most = min(request.max_tokens, self.output_max)
            request = replace(request, max_tokens=most)
        return Post(
            address=self._wire.path(self.url, self.model),
            payload=self._wire.payload(request, self.model, self.host),
            headers=self._wire.headers,
        )

    def _count_call(self) -> None:
        """Keeps to the calls per hour."""
        now = time.monotonic()
        while self._calls and now - self._calls[0] > HOUR_S:
            self._calls.popleft()
        if 0 < self._calls_per_hour <= len(self._calls):
            reason = f"{self.host}: {self._calls_per_hour} calls in this hour are used up"
            raise Unavailable(reason, retry_after_s=HOUR_S - (now - self._calls[0]))
        self._calls.append(now)
