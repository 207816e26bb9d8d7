"""Streams of the four providers: assembles the chunks of a response.

A chunk may be an SDK's object or a plain dict. An interrupted stream makes a partial response with
the key `cut_off`. The last event of a Responses stream contains the complete response, which is
used as it is. Neighbours: `input` converts chunks to plain values, `dialects.reply` reads the
response.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any

from refold.checked import quoted, shown
from refold.core.laws import CUT_OFF
from refold.dialects.input import encoded, plain
from refold.dialects.wire import objects_in
from refold.display import failure
from refold.errors import Invalid

# Chunks of one response; a longer stream is considered endless.
CHUNKS_MAX = 1_000_000
_HINT = "pass a response, its stream, or the list of the stream's chunks"

Chunk = dict[str, Any]


def is_stream(value: Any) -> bool:
    """Whether this is a raw stream or a list of chunks: an iterable that is neither text nor an
    object with fields."""
    if isinstance(value, str | bytes | bytearray | Mapping) or hasattr(value, "model_dump"):
        return False
    is_finished = any(hasattr(value, f"get_final_{what}") for what in _FINAL)
    return isinstance(value, Iterable) and not is_finished and not isinstance(value, set)


def is_async_stream(value: Any) -> bool:
    """Whether this is a stream that must be awaited."""
    return isinstance(value, AsyncIterable) and not isinstance(value, Iterable)


async def awaited(value: Any) -> Any:
    """The response of an asynchronous stream, or the list of its chunks; other values unchanged."""
    for what in _FINAL:
        final = getattr(value, f"get_final_{what}", None)
        if callable(final) and is_async_stream(value):
            return await final()
    if not is_async_stream(value):
        return value
    chunks: list[Any] = []
    async for chunk in value:
        take_chunk(chunks, chunk)
    return chunks


def take_chunk(chunks: list[Any], chunk: Any) -> None:
    """Appends a chunk. Invalid if the stream seems endless."""
    if len(chunks) == CHUNKS_MAX:
        raise Invalid(f"a stream of more than {CHUNKS_MAX:,} chunks is not a response", hint=_HINT)
    chunks.append(chunk)


_FINAL = ("message", "completion", "response")
_ANTHROPIC_EVENTS = {"message_start", "content_block_start", "content_block_delta"}
_GEMINI_KEYS = {"candidates", "usageMetadata", "usage_metadata"}


def assemble(chunks: Iterable[Any]) -> Chunk:
    """The response made of a stream's chunks, as a plain object. Invalid if they are not chunks of
    one of the four providers."""
    wires: list[Chunk] = []
    for chunk in chunks:
        wire = plain(encoded(chunk))
        if not isinstance(wire, dict):
            raise Invalid(f"{shown(chunk)} is not a chunk of a response", hint=_HINT)
        wires.append(wire)
    if not wires:
        raise Invalid("a stream without a chunk is not a response", hint=_HINT)
    kinds = {_kind(wire) for wire in wires}
    keys = {key for wire in wires for key in wire}
    choices = [choice for wire in wires for choice in objects_in(wire.get("choices"))]
    is_chat = any(wire.get("object") == "chat.completion.chunk" for wire in wires)
    if any(kind.startswith("response.") for kind in kinds):
        assemble_chunks = _assemble_responses
    elif kinds & _ANTHROPIC_EVENTS:
        assemble_chunks = _assemble_anthropic
    elif is_chat or any("delta" in choice for choice in choices):
        assemble_chunks = _assemble_chat
    elif keys & _GEMINI_KEYS:
        assemble_chunks = _assemble_gemini
    else:
        raise Invalid(f"{quoted(wires[0], 80)} is not a chunk of a response", hint=_HINT)
    try:
        return assemble_chunks(wires)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"these chunks make no response: {failure(error)}"
        raise Invalid(what, hint=_HINT) from error


def _kind(chunk: Chunk) -> str:
    kind = chunk.get("type")
    return kind if isinstance(kind, str) else ""


def _add_text(holder: Chunk, key: str, text: Any) -> None:
    """Appends text to the field."""
    if isinstance(text, str):
        before = holder.get(key)
        holder[key] = before + text if isinstance(before, str) else text


def _without_nulls(fields: Chunk) -> Chunk:
    return {key: value for key, value in fields.items() if value is not None}


# --- Chat Completions ---


def _assemble_chat(chunks: Sequence[Chunk]) -> Chunk:
    response: Chunk = {"object": "chat.completion"}
    message: Chunk = {"role": "assistant", "content": None}
    finished = None
    for chunk in chunks:
        response.update({key: chunk[key] for key in ("id", "model", "usage") if chunk.get(key)})
        for choice in objects_in(chunk.get("choices")):
            if choice.get("index", 0) == 0:
                _add_delta(message, choice.get("delta"))
                finished = choice.get("finish_reason") or finished
    response["choices"] = [{"index": 0, "message": message, "finish_reason": finished}]
    return response if finished else {**response, CUT_OFF: True}


def _add_delta(message: Chunk, delta: Any) -> None:
    """Adds a chunk's delta to the message: text grows, and calls are found by their index."""
    if not isinstance(delta, dict):
        return
    for key, value in delta.items():
        if key == "tool_calls":
            _add_calls(message, objects_in(value))
        elif value is None:
            message.setdefault(key, None)
        elif isinstance(value, str) and key != "role":
            _add_text(message, key, value)
        elif isinstance(value, list) and isinstance(message.get(key), list):
            message[key] += value
        else:
            message[key] = value


def _add_calls(message: Chunk, pieces: list[Chunk]) -> None:
    if not pieces:
        return
    calls: list[Chunk] = message.setdefault("tool_calls", [])
    for piece in pieces:
        fields = _without_nulls(piece)
        index = fields.pop("index", None)
        call = calls[index] if isinstance(index, int) and 0 <= index < len(calls) else None
        # Some servers send each call complete, all under the same index or without one.
        if call is None or (piece.get("id") and call.get("id") and call["id"] != piece["id"]):
            calls.append(fields if "type" in fields else {"type": "function", **fields})
            continue
        for key, value in fields.items():
            if isinstance(value, dict):
                inner = call.setdefault(key, {})
                for name, text in value.items():
                    _add_text(inner, name, text)
            elif value:
                call[key] = value


# --- Responses ---

_ENDS = ("response.completed", "response.incomplete", "response.failed")


def _assemble_responses(chunks: Sequence[Chunk]) -> Chunk:
    for chunk in reversed(chunks):
        if _kind(chunk) in _ENDS and isinstance(chunk.get("response"), dict):
            response: Chunk = chunk["response"]
            return response
    partial = (chunk["response"] for chunk in chunks if isinstance(chunk.get("response"), dict))
    begun = {"object": "response", **next(partial, {}), "status": "incomplete"}
    return {**begun, "output": _finished_items(chunks), CUT_OFF: True}


def _finished_items(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The complete items, and the text of incomplete ones."""
    items: dict[int, Chunk] = {}
    texts: dict[int, str] = {}
    for chunk in chunks:
        index = chunk.get("output_index")
        if not isinstance(index, int):
            continue
        if _kind(chunk) == "response.output_item.done" and isinstance(chunk.get("item"), dict):
            items[index] = chunk["item"]
        elif _kind(chunk) == "response.output_text.delta":
            texts[index] = texts.get(index, "") + str(chunk.get("delta", ""))
    for index, text in texts.items():
        part = {"type": "output_text", "text": text, "annotations": []}
        items.setdefault(index, {"type": "message", "role": "assistant", "content": [part]})
    ordered = [items[index] for index in sorted(items)]
    while ordered and _kind(ordered[-1]) == "reasoning":
        ordered.pop()  # its answer did not arrive
    return ordered


# --- Anthropic ---

_BLOCK_FIELDS = {
    "text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature",
    "input_json_delta": "partial_json",
}  # fmt: skip


def _assemble_anthropic(chunks: Sequence[Chunk]) -> Chunk:
    response: Chunk = {"type": "message", "role": "assistant", "content": []}
    blocks: dict[Any, Chunk] = {}
    has_ended = False
    for chunk in chunks:
        match _kind(chunk):
            case "message_start" if isinstance(chunk.get("message"), dict):
                response.update(chunk["message"])
            case "content_block_start" if isinstance(chunk.get("content_block"), dict):
                blocks[chunk.get("index")] = chunk["content_block"]
            case "content_block_delta":
                _add_block_delta(blocks.setdefault(chunk.get("index"), {}), chunk.get("delta"))
            case "message_delta":
                has_ended = True
                delta, usage = chunk.get("delta"), chunk.get("usage")
                if isinstance(delta, dict):
                    response.update(_without_nulls(delta))
                if isinstance(usage, dict):
                    before = response.get("usage")
                    counts = before if isinstance(before, dict) else {}
                    response["usage"] = {**counts, **_without_nulls(usage)}
    response["content"] = [block for block in blocks.values() if block]
    for block in response["content"]:
        if text := block.pop("partial_json", ""):
            block["input"] = _object_or_text(text)
    return response if has_ended else {**response, CUT_OFF: True}


def _add_block_delta(block: Chunk, delta: Any) -> None:
    if not isinstance(delta, dict):
        return
    kind = _kind(delta)
    field = _BLOCK_FIELDS.get(kind)
    if field is not None:
        block.setdefault("type", "text")
        _add_text(block, field, delta.get(field))
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
    elif kind == "compaction_delta":
        _add_text(block, "content", delta.get("content"))


def _object_or_text(text: str) -> Any:
    """The input of a call; text if it is incomplete."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


# --- Gemini ---


def _assemble_gemini(chunks: Sequence[Chunk]) -> Chunk:
    response: Chunk = {}
    parts: list[Chunk] = []
    candidate: Chunk = {}
    for chunk in chunks:
        fields = _without_nulls(chunk)
        fields.pop("candidates", None)
        response.update(fields)
        for piece in objects_in(chunk.get("candidates"))[:1]:
            candidate.update(_without_nulls(piece))
            content = piece.get("content")
            if isinstance(content, dict):
                parts += objects_in(content.get("parts"))
    joined = joined_parts(parts)
    response["candidates"] = [{**candidate, "content": {"role": "model", "parts": joined}}]
    has_ended = any(candidate.get(key) for key in ("finishReason", "finish_reason"))
    return response if has_ended or not joined else {**response, CUT_OFF: True}


def joined_parts(parts: Iterable[Chunk]) -> list[Chunk]:
    """Gemini's parts, with the pieces of one text joined: parts with nothing but text, all of them
    thoughts or none."""
    joined: list[Chunk] = []
    for part in map(_without_nulls, parts):
        last = joined[-1] if joined else {}
        is_text = "text" in part and part.keys() <= {"text", "thought"}
        if is_text and last.keys() == part.keys() and last.get("thought") == part.get("thought"):
            last["text"] += part["text"]
        elif part != {"text": ""}:
            joined.append(part)
    return joined
