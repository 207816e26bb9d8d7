"""Streams of the four providers, put together: the chunks of a response become the response.

A chunk may be an SDK's object or a plain dict. A stream that was cut off gives what came, and says
so under `cut_off`. Nothing is assembled that came whole: the event that ends a Responses stream has
the response in it. Neighbours: `outside` makes chunks plain, `dialects.reply` reads what is put
together here.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any

from refold.checked import quoted, shown
from refold.dialects.input import encoded, plain
from refold.dialects.wire import objects_in
from refold.display import failure
from refold.errors import Invalid

CUT_OFF = "cut_off"
# Chunks of one response; a stream that gives more has no end.
CHUNKS_MAX = 1_000_000
_HINT = "pass a response, its stream, or the list of the stream's chunks"

Chunk = dict[str, Any]


def is_stream(value: Any) -> bool:
    """Whether this is a raw stream or a list of chunks: what can be walked, and is neither text nor
    an object with fields."""
    if isinstance(value, str | bytes | bytearray | Mapping) or hasattr(value, "model_dump"):
        return False
    is_finished = any(hasattr(value, f"get_final_{what}") for what in _FINAL)
    return isinstance(value, Iterable) and not is_finished and not isinstance(value, set)


def is_async_stream(value: Any) -> bool:
    """Whether this is a stream that must be awaited."""
    return isinstance(value, AsyncIterable) and not isinstance(value, Iterable)


async def awaited(value: Any) -> Any:
    """What an asynchronous stream became, or the list of its chunks; any other value as it is."""
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
    """Keeps a chunk with those before it. Invalid if the stream has no end."""
    if len(chunks) == CHUNKS_MAX:
        raise Invalid(f"a stream of more than {CHUNKS_MAX:,} chunks is not a response", hint=_HINT)
    chunks.append(chunk)


_FINAL = ("message", "completion", "response")


def assemble(chunks: Iterable[Any]) -> Chunk:
    """The response that the chunks of a stream make, as a plain object. Invalid if they are not
    chunks of one of the four providers."""
    wires = [_plain_chunk(chunk) for chunk in chunks]
    if not wires:
        raise Invalid("a stream without a chunk is not a response", hint=_HINT)
    for is_ours, make in _MAKERS:
        if any(map(is_ours, wires)):
            try:
                return make(wires)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                said = f"these chunks make no response: {failure(error)}"
                raise Invalid(said, hint=_HINT) from error
    raise Invalid(f"{quoted(wires[0], 80)} is not a chunk of a response", hint=_HINT)


def _plain_chunk(chunk: Any) -> Chunk:
    wire = plain(encoded(chunk))
    if not isinstance(wire, dict):
        raise Invalid(f"{shown(chunk)} is not a chunk of a response", hint=_HINT)
    return wire


def _kind(chunk: Chunk) -> str:
    kind = chunk.get("type")
    return kind if isinstance(kind, str) else ""


def _add_text(holder: Chunk, key: str, text: Any) -> None:
    """Puts a text after the one that is there."""
    if isinstance(text, str):
        before = holder.get(key)
        holder[key] = before + text if isinstance(before, str) else text


def _known(fields: Chunk) -> Chunk:
    return {key: value for key, value in fields.items() if value is not None}


# --- Chat Completions ---


def _is_chat(chunk: Chunk) -> bool:
    return chunk.get("object") == "chat.completion.chunk" or any(
        "delta" in choice for choice in objects_in(chunk.get("choices"))
    )


def _assemble_chat(chunks: Sequence[Chunk]) -> Chunk:
    made: Chunk = {"object": "chat.completion"}
    message: Chunk = {"role": "assistant", "content": None}
    finished = None
    for chunk in chunks:
        made.update({key: chunk[key] for key in ("id", "model", "usage") if chunk.get(key)})
        for choice in objects_in(chunk.get("choices")):
            if choice.get("index", 0) == 0:
                _add_delta(message, choice.get("delta"))
                finished = choice.get("finish_reason") or finished
    made["choices"] = [{"index": 0, "message": message, "finish_reason": finished}]
    return made if finished else {**made, CUT_OFF: True}


def _add_delta(message: Chunk, delta: Any) -> None:
    """Adds what a chunk says to the message: texts grow, calls are found by their index."""
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
        begun = _open_call(calls, piece)
        if begun is None:
            calls.append(_new_call(piece))
        else:
            _add_piece(begun, piece)


def _open_call(calls: list[Chunk], piece: Chunk) -> Chunk | None:
    """The call that a piece goes on with. Some servers send each call whole, and every one under
    the same index, or under none."""
    index = piece.get("index")
    if not isinstance(index, int) or not 0 <= index < len(calls):
        return None
    known = calls[index].get("id")
    is_other = piece.get("id") and known and known != piece["id"]
    return None if is_other else calls[index]


def _new_call(piece: Chunk) -> Chunk:
    call = {key: value for key, value in _known(piece).items() if key != "index"}
    return {"type": "function", **call} if "type" not in call else call


def _add_piece(call: Chunk, piece: Chunk) -> None:
    for key, value in _known(piece).items():
        if isinstance(value, dict):
            inner = call.setdefault(key, {})
            for name, text in value.items():
                _add_text(inner, name, text)
        elif key != "index" and value:
            call[key] = value


# --- Responses ---

_ENDS = ("response.completed", "response.incomplete", "response.failed")


def _is_responses(chunk: Chunk) -> bool:
    return _kind(chunk).startswith("response.")


def _assemble_responses(chunks: Sequence[Chunk]) -> Chunk:
    for chunk in reversed(chunks):
        if _kind(chunk) in _ENDS and isinstance(chunk.get("response"), dict):
            response: Chunk = chunk["response"]
            return response
    begun = (chunk["response"] for chunk in chunks if isinstance(chunk.get("response"), dict))
    made = {"object": "response", **next(begun, {}), "status": "incomplete"}
    return {**made, "output": _finished_items(chunks), CUT_OFF: True}


def _finished_items(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The items that came whole, and the text of one that did not."""
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
        ordered.pop()  # what it led to did not come
    return ordered


# --- Anthropic ---

_BLOCK_FIELDS = {
    "text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature",
    "input_json_delta": "partial_json",
}  # fmt: skip


def _is_anthropic(chunk: Chunk) -> bool:
    return _kind(chunk) in ("message_start", "content_block_start", "content_block_delta")


def _assemble_anthropic(chunks: Sequence[Chunk]) -> Chunk:
    made: Chunk = {"type": "message", "role": "assistant", "content": []}
    blocks: dict[Any, Chunk] = {}
    has_ended = False
    for chunk in chunks:
        match _kind(chunk):
            case "message_start" if isinstance(chunk.get("message"), dict):
                made.update(chunk["message"])
            case "content_block_start" if isinstance(chunk.get("content_block"), dict):
                blocks[chunk.get("index")] = chunk["content_block"]
            case "content_block_delta":
                _add_block_delta(blocks.setdefault(chunk.get("index"), {}), chunk.get("delta"))
            case "message_delta":
                has_ended = True
                _end_message(made, chunk)
    made["content"] = [_finished_block(block) for block in blocks.values() if block]
    return made if has_ended else {**made, CUT_OFF: True}


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


def _finished_block(block: Chunk) -> Chunk:
    """The block with the input of its call, as text where that did not come whole."""
    text = block.pop("partial_json", "")
    if text:
        block["input"] = _json_in(text)
    return block


def _json_in(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _end_message(made: Chunk, chunk: Chunk) -> None:
    delta, usage = chunk.get("delta"), chunk.get("usage")
    if isinstance(delta, dict):
        made.update(_known(delta))
    if isinstance(usage, dict):
        before = made.get("usage")
        made["usage"] = {**(before if isinstance(before, dict) else {}), **_known(usage)}


# --- Gemini ---


def _is_gemini(chunk: Chunk) -> bool:
    return any(key in chunk for key in ("candidates", "usageMetadata", "usage_metadata"))


def _assemble_gemini(chunks: Sequence[Chunk]) -> Chunk:
    made: Chunk = {}
    parts: list[Chunk] = []
    candidate: Chunk = {}
    for chunk in chunks:
        made.update({key: value for key, value in _known(chunk).items() if key != "candidates"})
        for given in objects_in(chunk.get("candidates"))[:1]:
            candidate.update(_known(given))
            content = given.get("content")
            if isinstance(content, dict):
                _add_parts(parts, objects_in(content.get("parts")))
    made["candidates"] = [{**candidate, "content": {"role": "model", "parts": parts}}]
    has_ended = any(candidate.get(key) for key in ("finishReason", "finish_reason"))
    return made if has_ended or not parts else {**made, CUT_OFF: True}


def joined_parts(parts: Iterable[Chunk]) -> list[Chunk]:
    """Parts of Gemini's, with pieces of one text as that text."""
    joined: list[Chunk] = []
    _add_parts(joined, list(parts))
    return joined


def _add_parts(parts: list[Chunk], new: list[Chunk]) -> None:
    """Adds parts; a text goes on with the text before it, if nothing but words tells them apart."""
    for part in map(_known, new):
        if parts and _goes_on(parts[-1], part):
            parts[-1]["text"] += part["text"]
        elif part != {"text": ""}:
            parts.append(part)


def _goes_on(last: Chunk, part: Chunk) -> bool:
    """Whether two parts are pieces of one text."""
    if "text" not in part or not part.keys() <= {"text", "thought"}:
        return False
    return last.keys() == part.keys() and last.get("thought") == part.get("thought")


_MAKERS: tuple[tuple[Callable[[Chunk], bool], Callable[[Sequence[Chunk]], Chunk]], ...] = (
    (_is_responses, _assemble_responses),
    (_is_anthropic, _assemble_anthropic),
    (_is_chat, _assemble_chat),
    (_is_gemini, _assemble_gemini),
)
