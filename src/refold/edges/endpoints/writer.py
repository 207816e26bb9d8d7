"""A writer over HTTP: `endpoint(url, model)` returns a callable that asks a real model.

    writer = endpoint("https://api.anthropic.com", "claude-haiku-4-5", kind="anthropic")
    context = refold.open("work", writer=writer)

One call at a time. `WIRES` has the three formats: their addresses, payloads and answers. Only text
is sent, never a tool. An answer in an unexpected shape is `Unavailable`, and the error names the
shape without any content. Neighbours: `client` posts, `refold.writer` calls it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict, replace

from refold.checked import checked
from refold.config import NUMBER_MAX
from refold.core.model import Usage
from refold.dialects.wire import objects_in
from refold.display import suggestion
from refold.edges.endpoints.client import Client, Post, check_address, check_limits, host_of
from refold.errors import Invalid, Unavailable
from refold.redaction import redacted
from refold.settings.sources import writer_loaded
from refold.tokens.models import model_info
from refold.writer.asker import WINDOW_DEFAULT, Answer, Request

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
    """A writer that asks the model at this address. `key_env` names the variable with the key; by
    default the provider's usual one, for the provider's own host only. `window` is the model's; by
    default its known window, or 32,000. 0 calls per hour means no limit."""
    if kind not in WIRES:
        hint = suggestion(str(kind), WIRES)
        raise Invalid(f"there is no kind of endpoint {kind!r}", hint=hint)
    if window is None:
        info = model_info(model)
        window = info.window if info.known else WINDOW_DEFAULT
    check_limits(timeout_s=timeout_s, deadline_s=deadline_s, tries=tries)
    if not isinstance(window, int) or window < 1:
        raise Invalid(f"window is {window!r}", hint="pass the model's window in tokens")
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
    """The writer that the settings name (`[writer]` in refold.toml, `REFOLD_WRITER_*`), with these
    arguments taking precedence; None if they name none. It is never used automatically: a
    conversation leaves this machine only if a caller says so."""
    settings = asdict(writer_loaded(given))
    url, model = settings.pop("url"), settings.pop("model")
    if not url:
        return None
    if not model:
        hint = "name it: model in [writer] of refold.toml, or REFOLD_WRITER_MODEL"
        raise Invalid(f"the writer at {redacted(url)!r} has no model", hint=hint)
    return endpoint(url, model, **settings)


class Endpoint:
    """The callable that `endpoint` makes. Its representation does not contain the key."""

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
        """The model's answer. `Unavailable` if there is none in time, `Denied` without a valid
        key."""
        wait_s = min(self._deadline_s, request.wait_s)
        deadline = time.monotonic() + wait_s
        if not self._lock.acquire(timeout=max(0.0, wait_s)):
            reason = f"{self.host}: another call is in flight"
            raise Unavailable(reason, hint="one call at a time; try again")
        try:
            self._count_call()
            if self.output_max:
                output_max = min(request.max_tokens, self.output_max)
                request = replace(request, max_tokens=output_max)
            post = Post(
                address=self._wire.path(self.url, self.model),
                payload=self._wire.payload(request, self.model, self.host),
                headers=self._wire.headers,
            )
            return self._wire.answer(self._client.post(post, deadline))
        finally:
            self._lock.release()

    def _count_call(self) -> None:
        """Counts a call. Unavailable if the calls of this hour are used up."""
        now = time.monotonic()
        while self._calls and now - self._calls[0] > HOUR_S:
            self._calls.popleft()
        if 0 < self._calls_per_hour <= len(self._calls):
            reason = f"{self.host}: {self._calls_per_hour} calls in this hour are used up"
            raise Unavailable(reason, retry_after_s=HOUR_S - (now - self._calls[0]))
        self._calls.append(now)


Kind = Literal["openai", "anthropic", "gemini"]

_STOPS = {
    # the providers' finish reasons, and ours
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "STOP": "stop",
    "length": "length", "max_tokens": "length", "MAX_TOKENS": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool", "function_call": "tool", "tool_use": "tool",
    "content_filter": "refusal", "refusal": "refusal", "SAFETY": "refusal",
}  # fmt: skip


class Wire(Struct, frozen=True, kw_only=True):
    """One format. `host` is the provider's own, `key_env` the usual variable for its key."""

    host: str
    key_env: str
    path: Callable[[str, str], str]
    headers: Callable[[str], dict[str, str]]
    payload: Callable[[Request, str, str], dict[str, Any]]
    answer: Callable[[dict[str, Any]], Answer]

    def limit(self, host: str) -> str:
        """The name of the answer's token limit at a host. OpenAI's own newer models refuse the old
        name; other servers know only the old one."""
        return "max_completion_tokens" if host == "api.openai.com" else "max_tokens"

    def usual_key_env(self, host: str) -> str:
        """The variable of the key for a host: the usual one for the provider's own, else empty."""
        return self.key_env if host == self.host else ""


# --- answers of any shape ---


def _finish(reason: object) -> str:
    """The reason why an answer ended, in our terms."""
    if not isinstance(reason, str) or not reason:
        return "nothing"
    return _STOPS.get(reason, reason)


def _missing(what: str) -> Unavailable:
    hint = "check the address and the kind of the endpoint"
    return Unavailable(f"the writer's endpoint returned no {what}", hint=hint)


def _table(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _missing(what)
    return value


def _first(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, list) or not value:
        raise _missing(what)
    return _table(value[0], what)


def _usage(body: dict[str, Any], table: str, input: str, output: str) -> Usage:
    """The token counts that an answer reports under these names; 0 if it reports none."""
    usage = body.get(table)
    if not isinstance(usage, dict):
        return Usage()
    return Usage(input=_number(usage.get(input)), output=_number(usage.get(output)))


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 < value <= NUMBER_MAX else 0


def _joined(texts: Iterable[object]) -> str:
    return "".join(text for text in texts if isinstance(text, str))


# --- OpenAI-compatible chat completions ---


def _chat_payload(request: Request, model: str, host: str) -> dict[str, Any]:
    limit = WIRES["openai"].limit(host)
    messages = [
        {"role": "system", "content": request.system},
        {"role": "user", "content": request.prompt},
    ]
    return {"model": model, "messages": messages, limit: request.max_tokens, "stream": False}


def _chat_answer(body: dict[str, Any]) -> Answer:
    choice = _first(body.get("choices"), "choices")
    message = _table(choice.get("message"), "message")
    content = message.get("content")
    if not isinstance(content, str):
        content = _joined(part.get("text") for part in objects_in(content))
    finished = "tool" if message.get("tool_calls") else _finish(choice.get("finish_reason"))
    return Answer(
        text=content,
        finished="refusal" if message.get("refusal") else finished,
        reasoning=str(message.get("reasoning_content") or message.get("reasoning") or ""),
        usage=_usage(body, "usage", "prompt_tokens", "completion_tokens"),
    )


# --- Anthropic messages ---


def _messages_payload(request: Request, model: str, host: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": request.prompt}]
    return {
        "model": model,
        "system": request.system,
        "messages": messages,
        "max_tokens": request.max_tokens,
    }


def _messages_answer(body: dict[str, Any]) -> Answer:
    if not isinstance(body.get("content"), list):
        raise _missing("content")
    parts = objects_in(body["content"])
    return Answer(
        text=_joined(part.get("text") for part in parts if part.get("type") == "text"),
        finished=_finish(body.get("stop_reason")),
        reasoning=_joined(part.get("thinking") for part in parts),
        usage=_usage(body, "usage", "input_tokens", "output_tokens"),
    )


# --- Gemini generateContent ---


def _generate_path(base: str, model: str) -> str:
    base = base if base.endswith(("/v1beta", "/v1")) else f"{base}/v1beta"
    return f"{base}/models/{quote(model.removeprefix('models/'), safe='')}:generateContent"


def _generate_payload(request: Request, model: str, host: str) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": request.system}]},
        "contents": [{"role": "user", "parts": [{"text": request.prompt}]}],
        "generationConfig": {"maxOutputTokens": request.max_tokens},
    }


def _generate_answer(body: dict[str, Any]) -> Answer:
    feedback = body.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        return Answer(finished="refusal")
    candidate = _first(body.get("candidates"), "candidates")
    content = candidate.get("content")
    parts = objects_in(content.get("parts")) if isinstance(content, dict) else []
    is_call = any("functionCall" in part for part in parts)
    return Answer(
        text=_joined(part.get("text") for part in parts if not part.get("thought")),
        finished="tool" if is_call else _finish(candidate.get("finishReason")),
        reasoning=_joined(part.get("text") for part in parts if part.get("thought")),
        usage=_usage(body, "usageMetadata", "promptTokenCount", "candidatesTokenCount"),
    )


# --- the table ---


_VERSION = {"anthropic-version": "2023-06-01"}

WIRES: dict[str, Wire] = {
    "openai": Wire(
        host="api.openai.com",
        key_env="OPENAI_API_KEY",
        path=lambda base, _: f"{base.removesuffix('/chat/completions')}/chat/completions",
        headers=lambda key: {"authorization": f"Bearer {key}"} if key else {},
        payload=_chat_payload,
        answer=_chat_answer,
    ),
    "anthropic": Wire(
        host="api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        path=lambda base, _: (
            base if base.endswith("/messages") else f"{base.removesuffix('/v1')}/v1/messages"
        ),
        headers=lambda key: {**_VERSION, "x-api-key": key} if key else dict(_VERSION),
        payload=_messages_payload,
        answer=_messages_answer,
    ),
    "gemini": Wire(
        host="generativelanguage.googleapis.com",
        key_env="GEMINI_API_KEY",
        path=_generate_path,
        headers=lambda key: {"x-goog-api-key": key} if key else {},
        payload=_generate_payload,
        answer=_generate_answer,
    ),
}
