"""A model over HTTP that an agent loop talks to: `ChatEndpoint` sends a request as the context
gives it, and hands on the chunks of the reply.

    endpoint = ChatEndpoint(model_named("anthropic:claude-haiku-4-5", os.environ))
    for chunk in context.stream(endpoint.stream(context.request(**endpoint.call))):
        ...

One try per call: the loop shows that it waits, and can be stopped. Neighbours: `model_names` says
where a model is, `client` posts, `server_events` reads the stream, `pieces` what a chunk says.

What a chunk of a stream says, for whoever shows a reply as it comes: words, thoughts, the names
of calls.

A chunk is any of the four providers' as a plain object. What it does not say is left out; nothing
here decides what is recorded. Neighbours: `chat` gives the chunks, `dialects.streams` puts them
together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from refold.dialects.overflow import overflow_of
from refold.dialects.wire import objects_in
from refold.edges.endpoints.client import Client, Post, Refused, check_address, objects
from refold.edges.endpoints.model_names import NamedModel
from refold.edges.endpoints.writer import WIRES
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


PieceKind = Literal["text", "thinking", "call"]
_THOUGHTS = ("reasoning_content", "reasoning")


class Piece(NamedTuple):
    """Some words of a reply, or the name of a tool that it calls."""

    kind: PieceKind
    text: str


def pieces(chunk: dict[str, Any]) -> Iterator[Piece]:
    """What a chunk says, in its order."""
    for piece in _found(chunk):
        if isinstance(piece.text, str) and piece.text:
            yield piece


def _found(chunk: dict[str, Any]) -> Iterator[Piece]:
    for choice in objects_in(chunk.get("choices")):
        yield from _chat(choice.get("delta"))
    for candidate in objects_in(chunk.get("candidates"))[:1]:
        content = candidate.get("content")
        if isinstance(content, dict):
            yield from map(_gemini, objects_in(content.get("parts")))
    match chunk.get("type"):
        case "content_block_start":
            yield from _block(chunk.get("content_block"))
        case "content_block_delta":
            yield from _block(chunk.get("delta"))


def _chat(delta: Any) -> Iterator[Piece]:
    """The pieces of a chunk of Chat Completions."""
    if not isinstance(delta, dict):
        return
    for name in _THOUGHTS:
        yield Piece("thinking", delta.get(name) or "")
    yield Piece("text", delta.get("content") or "")
    for call in objects_in(delta.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            yield Piece("call", function.get("name") or "")


def _gemini(part: dict[str, Any]) -> Piece:
    """The piece that a part is."""
    call = part.get("functionCall")
    if isinstance(call, dict):
        return Piece("call", call.get("name") or "")
    return Piece("thinking" if part.get("thought") else "text", part.get("text") or "")


def _block(block: Any) -> Iterator[Piece]:
    """The pieces of a block of Anthropic's, or of what is added to one."""
    if not isinstance(block, dict):
        return
    if block.get("type") == "tool_use":
        yield Piece("call", block.get("name") or "")
    yield Piece("thinking", block.get("thinking") or "")
    yield Piece("text", block.get("text") or "")
