"""A model over HTTP that an agent loop talks to: `ChatEndpoint` sends a request as the context
gives it, and hands on the chunks of the reply.

    endpoint = ChatEndpoint(model_named("anthropic:claude-haiku-4-5", os.environ))
    for chunk in context.stream(endpoint.stream(context.request(**endpoint.call))):
        ...

One try per call: the loop shows that it waits, and can be stopped. Neighbours: `model_names` says
where a model is, `client` posts, `server_events` reads the stream, `pieces` what a chunk says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from refold.dialects.overflow import overflow_of
from refold.edges.endpoints.client import Client, Post, Refused, check_address
from refold.edges.endpoints.model_names import NamedModel
from refold.edges.endpoints.server_events import objects
from refold.edges.endpoints.wires import WIRES
from refold.errors import Unavailable

IDLE_S = 120.0
REPLY_S_MAX = 3_600.0
# In REST, what the SDK of Gemini takes inside `config` stands beside the contents, and the rest of
# it under another name.
_GEMINI_BESIDE = {
    "system_instruction": "systemInstruction",
    "tools": "tools",
    "tool_config": "toolConfig",
    "safety_settings": "safetySettings",
    "cached_content": "cachedContent",
}
DIALECTS = {"openai": "openai_chat", "anthropic": "anthropic", "gemini": "gemini"}


class ChatEndpoint:
    """One model at one address. `call` has the arguments of `context.request` for it;
    `reply_tokens_max` is how long a reply may be, if that is to be said."""

    def __init__(
        self, model: NamedModel, *, reply_tokens_max: int | None = None, idle_s: float = IDLE_S
    ) -> None:
        self.model, self._idle_s, self._reply_tokens_max = model, idle_s, reply_tokens_max
        self._wire = WIRES[model.kind]
        self._client = Client(
            check_address(model.url), key_env=model.key_env, timeout_s=idle_s, tries=1
        )

    def __repr__(self) -> str:
        return f"ChatEndpoint({self._client.host!r}, {self.model.name!r})"

    @property
    def call(self) -> dict[str, Any]:
        """What `context.request` is to be called with, so that the reply is streamed and says
        what it cost."""
        dialect = DIALECTS[self.model.kind]
        given: dict[str, Any] = {"dialect": dialect, "model": self.model.name}
        if self.model.kind != "gemini":
            given["stream"] = True
        if self.model.kind == "openai":
            given["stream_options"] = {"include_usage": True}
        if self._reply_tokens_max and self.model.kind != "gemini":
            given[self._wire.limit(self._client.host)] = self._reply_tokens_max
        return given

    def stream(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of the reply. `Denied` without a valid key, `Unavailable` (with a time after
        which another try is worth it) for what may pass, `Refused` for what will not."""
        is_gemini = self.model.kind == "gemini"
        post = Post(
            address=self._address(),
            payload=_gemini_body(request, self._reply_tokens_max) if is_gemini else request,
            headers=self._wire.headers,
        )
        deadline = time.monotonic() + REPLY_S_MAX
        for chunk in objects(self._client.stream(post, idle_s=self._idle_s, deadline=deadline)):
            if chunk.get("error"):
                raise self._failure(chunk["error"])
            yield chunk

    def _address(self) -> str:
        address = self._wire.path(self._client.url, self.model.name)
        if self.model.kind == "gemini":
            return address.removesuffix(":generateContent") + ":streamGenerateContent?alt=sse"
        return address

    def _failure(self, error: Any) -> Refused | Unavailable:
        """What went wrong after the answer had begun."""
        words = str(error.get("message") or error) if isinstance(error, dict) else str(error)
        reason = f"{self._client.host} ended the stream: {words[:200]}"
        if overflow_of(error) is not None:
            return Refused(reason, body=words)
        return Unavailable(reason)


def _gemini_body(request: dict[str, Any], reply_tokens_max: int | None) -> dict[str, Any]:
    """The keyword arguments of Gemini's SDK as the body of the call itself."""
    body: dict[str, Any] = {"contents": request["contents"]}
    generation = {"maxOutputTokens": reply_tokens_max} if reply_tokens_max else {}
    for name, value in request.get("config", {}).items():
        if name in _GEMINI_BESIDE:
            body[_GEMINI_BESIDE[name]] = value
        else:
            generation[name] = value
    return {**body, "generationConfig": generation} if generation else body
