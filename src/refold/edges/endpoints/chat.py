"""A model over HTTP for an agent loop: `ChatEndpoint` sends a request and yields reply chunks.

    endpoint = ChatEndpoint(model_named("anthropic:claude-haiku-4-5", os.environ))
    for chunk in context.stream(endpoint.stream(context.request(**endpoint.call))):
        ...

One try per call, because the loop shows that it waits, and can be stopped. `pieces` gives the
texts, thoughts and call names in a chunk of any provider, for display only. Neighbours:
`model_names` finds a model's address, `client` posts and reads the stream, `dialects.streams`
assembles the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from refold.dialects.overflow import overflow_of
from refold.dialects.wire import objects_in
from refold.edges.endpoints.client import Client, Post, Refused, check_address, objects
from refold.edges.endpoints.model_names import NamedModel
from refold.edges.endpoints.writer import WIRES
from refold.errors import Unavailable
from refold.system.http_answer import Patience

IDLE_S = 120.0
# A reply may take `REPLY_S`, and longer the more it says: not if it says almost nothing, for ever.
REPLY_S, REPLY_S_MAX = 300.0, 3_600.0
REPLY_PACE_BYTES_S = 20.0  # of a model that takes ten seconds for a word
CALLS_MAX = 1_000  # of a reply: each is answered, and every answer is written
# Fields of the Gemini SDK's `config` that are top-level fields in REST; all others belong to
# `generationConfig`.
_GEMINI_FIELDS = {
    "system_instruction": "systemInstruction",
    "tools": "tools",
    "tool_config": "toolConfig",
    "safety_settings": "safetySettings",
    "cached_content": "cachedContent",
}
DIALECTS = {"openai": "openai_chat", "anthropic": "anthropic", "gemini": "gemini"}


class ChatEndpoint:
    """One model at one address. `call` has the arguments of `context.request` for it;
    `reply_tokens_max` limits the length of a reply."""

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
        """Arguments of `context.request` for a reply that is streamed and reports its usage."""
        dialect = DIALECTS[self.model.kind]
        arguments: dict[str, Any] = {"dialect": dialect, "model": self.model.name}
        if self.model.kind != "gemini":
            arguments["stream"] = True
        if self.model.kind == "openai":
            arguments["stream_options"] = {"include_usage": True}
        if self._reply_tokens_max and self.model.kind != "gemini":
            arguments[self._wire.limit(self._client.host)] = self._reply_tokens_max
        return arguments

    def stream(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of the reply. `Denied` without a valid key, `Unavailable` (with a time to wait
        before another try) for a passing failure, `Refused` for a permanent one."""
        address, payload = self._wire.path(self._client.url, self.model.name), request
        if self.model.kind == "gemini":
            address = address.removesuffix(":generateContent") + ":streamGenerateContent?alt=sse"
            payload = _gemini_body(request, self._reply_tokens_max)
        post = Post(address=address, payload=payload, headers=self._wire.headers)
        patience = Patience(
            REPLY_S,
            idle_s=self._idle_s,
            pace_bytes_s=REPLY_PACE_BYTES_S,
            wait_s_max=REPLY_S_MAX,
        )
        calls = dict[str, set[str]]()
        for number, chunk in enumerate(objects(self._client.stream(post, patience))):
            for kind, name in _calls_named(chunk, number):
                calls.setdefault(kind, set()).add(name)
            if any(len(names) > CALLS_MAX for names in calls.values()):
                reason = f"{self._client.host} sent a reply with more than {CALLS_MAX:,} tool calls"
                raise Unavailable(reason, hint="check the address")
            if error := chunk.get("error"):
                text = str(error.get("message") or error) if isinstance(error, dict) else str(error)
                reason = f"{self._client.host} ended the stream: {text[:200]}"
                if overflow_of(error) is not None:
                    raise Refused(reason, body=text)
                raise Unavailable(reason)
            yield chunk


def _calls_named(chunk: dict[str, Any], number: int) -> Iterator[tuple[str, str]]:
    """The calls of a chunk by their ids and by their places. A call comes in many chunks, and some
    servers give all calls one place, or none an id."""
    deltas = objects_in([choice.get("delta") for choice in objects_in(chunk.get("choices"))])
    for call in (call for delta in deltas for call in objects_in(delta.get("tool_calls"))):
        yield "place", str(call.get("index"))
        yield "id", str(call.get("id"))
    if chunk.get("type") == "content_block_start":
        yield "block", str(chunk.get("index"))
    for at, piece in enumerate(_all_pieces(chunk) if "candidates" in chunk else ()):
        if piece.kind == "call":
            yield "part", f"{number} {at}"


def _gemini_body(request: dict[str, Any], reply_tokens_max: int | None) -> dict[str, Any]:
    """The keyword arguments of Gemini's SDK as the body of the REST call."""
    body: dict[str, Any] = {"contents": request["contents"]}
    generation = {"maxOutputTokens": reply_tokens_max} if reply_tokens_max else {}
    for name, value in request.get("config", {}).items():
        if name in _GEMINI_FIELDS:
            body[_GEMINI_FIELDS[name]] = value
        else:
            generation[name] = value
    return {**body, "generationConfig": generation} if generation else body


PieceKind = Literal["text", "thinking", "call"]


class Piece(NamedTuple):
    """A piece of a reply's text or thinking, or the name of a tool that it calls."""

    kind: PieceKind
    text: str


def pieces(chunk: dict[str, Any]) -> Iterator[Piece]:
    """The pieces in a chunk, in order, without empty ones."""
    for piece in _all_pieces(chunk):
        if isinstance(piece.text, str) and piece.text:
            yield piece


def _all_pieces(chunk: dict[str, Any]) -> Iterator[Piece]:
    # Chat Completions
    deltas = [choice.get("delta") for choice in objects_in(chunk.get("choices"))]
    for delta in objects_in(deltas):
        yield Piece("thinking", delta.get("reasoning_content") or "")
        yield Piece("thinking", delta.get("reasoning") or "")
        yield Piece("text", delta.get("content") or "")
        for call in objects_in(delta.get("tool_calls")):
            function = call.get("function")
            if isinstance(function, dict):
                yield Piece("call", function.get("name") or "")
    # Gemini
    for candidate in objects_in(chunk.get("candidates"))[:1]:
        content = candidate.get("content")
        for part in objects_in(content.get("parts")) if isinstance(content, dict) else ():
            function = part.get("functionCall")
            if isinstance(function, dict):
                yield Piece("call", function.get("name") or "")
            else:
                kind: PieceKind = "thinking" if part.get("thought") else "text"
                yield Piece(kind, part.get("text") or "")
    # Anthropic
    blocks = {"content_block_start": "content_block", "content_block_delta": "delta"}
    for block in objects_in([chunk.get(blocks.get(str(chunk.get("type")), ""))]):
        if block.get("type") == "tool_use":
            yield Piece("call", block.get("name") or "")
        yield Piece("thinking", block.get("thinking") or "")
        yield Piece("text", block.get("text") or "")
