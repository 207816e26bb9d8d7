"""What a chunk of a stream says, for whoever shows a reply as it comes: words, thoughts, the names
of calls.

A chunk is any of the four providers' as a plain object. What it does not say is left out; nothing
here decides what is recorded. Neighbours: `chat` gives the chunks, `dialects.streams` puts them
together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from refold.dialects.wire import objects_in

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
