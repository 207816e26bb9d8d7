"""Several answers seen as one: whole or streamed, cut anywhere, the client has the same, and never
a word of ours; an answer without a call of ours is the bytes that came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.dialects import assemble, tool_calls
from refold.edges.endpoints.client import objects
from refold.edges.proxy.own_tools.events import Cutter, summed
from refold.edges.proxy.own_tools.rounds import SHAPES
from tests.real.proxy.strict.anthropic_stream import events_of
from tests.real.proxy.strict.chat_service import _chunks
from tests.real.proxy.strict.responses_service import _events

Json = dict[str, Any]
USAGE = {
    "gemini": {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10},
    "anthropic": {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 5},
    "openai_chat": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    "openai_responses": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
}
# A part of an answer: what it is, and what it says.
texts = st.text('ab \n\u2028é"\\{}:', min_size=1, max_size=12)
parts = st.lists(
    st.tuples(st.sampled_from(["text", "thought", "call", "own"]), texts), min_size=1, max_size=5
)
rounds = st.lists(parts, min_size=1, max_size=4)
DIALECTS = sorted(SHAPES)


def response_of(dialect: str, said: list[tuple[str, str]], number: int) -> Json:
    """An answer of the dialect that says this."""
    if dialect == "anthropic":
        return _anthropic(said, number)
    if dialect == "gemini":
        return _gemini(said, number)
    return _chat(said, number) if dialect == "openai_chat" else _responses(said, number)


def _anthropic(said: list[tuple[str, str]], number: int) -> Json:
    blocks = [_block(kind, text, f"t{number}_{at}") for at, (kind, text) in enumerate(said)]
    calls = any(one["type"] == "tool_use" for one in blocks)
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m",
        "content": blocks, "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None, "usage": USAGE["anthropic"],
    }  # fmt: skip


def _gemini(said: list[tuple[str, str]], number: int) -> Json:
    parts = [_part(kind, text, number) for kind, text in said]
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": USAGE["gemini"], "responseId": f"g{number}"}


def _part(kind: str, text: str, number: int) -> Json:
    if kind in ("text", "thought"):
        return {"text": text, **({"thought": True} if kind == "thought" else {})}
    name = "refold_unfold" if kind == "own" else "read"
    call = {"functionCall": {"name": name, "args": {"handle": text}}}
    return call | ({"thoughtSignature": "YWJj"} if number % 2 else {})


def gemini_chunks(response: Json) -> list[Json]:
    """A chunk for each part; the last says why it ends."""
    candidate = response["candidates"][0]
    parts = candidate["content"]["parts"]
    made = []
    for at, part in enumerate(parts):
        ended = {"finishReason": "STOP"} if at == len(parts) - 1 else {}
        content = {"role": "model", "parts": [part]}
        made.append({**response, "candidates": [{"content": content, "index": 0, **ended}]})
    return made


def _block(kind: str, text: str, id: str) -> Json:
    if kind == "text":
        return {"type": "text", "text": text}
    if kind == "thought":
        return {"type": "thinking", "thinking": text, "signature": f"s{id}"}
    name = "refold_unfold" if kind == "own" else "read"
    return {"type": "tool_use", "id": id, "name": name, "input": {"handle": text}}


def _chat(said: list[tuple[str, str]], number: int) -> Json:
    calls = [
        {
            "id": f"t{number}_{at}",
            "type": "function",
            "function": {
                "name": "refold_unfold" if kind == "own" else "read",
                "arguments": json.dumps({"handle": text}),
            },
        }
        for at, (kind, text) in enumerate(said)
        if kind in ("own", "call")
    ]
    text = "".join(text for kind, text in said if kind == "text")
    message = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": calls} if calls else {}
    reason = "tool_calls" if calls else "stop"
    return {
        "id": f"chat_{number}", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": USAGE["openai_chat"],
    }  # fmt: skip


def _responses(said: list[tuple[str, str]], number: int) -> Json:
    items = [_item(kind, text, f"{number}_{at}") for at, (kind, text) in enumerate(said)]
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "model": "m",
        "status": "completed", "output": items, "usage": USAGE["openai_responses"],
    }  # fmt: skip


def _item(kind: str, text: str, id: str) -> Json:
    if kind == "text":
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": f"m{id}", "role": "assistant", "status": "completed",
                "content": content}  # fmt: skip
    if kind == "thought":
        return {"type": "reasoning", "id": f"r{id}", "summary": [], "encrypted_content": text}
    name = "refold_unfold" if kind == "own" else "read"
    return {"type": "function_call", "id": f"f{id}", "call_id": f"c{id}", "name": name,
            "arguments": json.dumps({"handle": text}), "status": "completed"}  # fmt: skip


def streamed(dialect: str, response: Json) -> bytes:
    if dialect == "anthropic":
        events = events_of(response)
    elif dialect == "openai_chat":
        head = {key: response[key] for key in ("id", "created", "model")}
        message = response["choices"][0]["message"]
        events = _chunks(head, message, response["usage"])
    elif dialect == "gemini":
        events = gemini_chunks(response)
    else:
        events = _events(response)
    named = dialect not in ("openai_chat", "gemini")
    raw = b"".join(
        (f"event: {one['type']}\n" if named else "").encode()
        + b"data: " + json.dumps(one).encode() + b"\n\n"
        for one in events
    )  # fmt: skip
    return raw if dialect != "openai_chat" else raw + b"data: [DONE]\n\n"


def seen_stream(dialect: str, answers: list[Json], size: int, as_stream: Any = streamed) -> bytes:
    """What the client has of these answers, which come in pieces of this size."""
    shape = SHAPES[dialect]
    stream, seen = shape.stream(), b""
    for answer in answers:
        stream.begin()
        cutter, raw = Cutter(), as_stream(dialect, answer)
        for begin in range(0, len(raw), size):
            for event in cutter.feed(raw[begin : begin + size]):
                seen += stream.take(event)
        seen += b"".join(map(stream.take, cutter.rest()))
    is_changed = len(answers) > 1 or "refold_" in str(answers)
    return seen + stream.end(shape.one(answers) if is_changed else None)


def plain(dialect: str, response: Json) -> Any:
    """What counts of a response."""
    if dialect == "anthropic":
        return response["content"], response["stop_reason"], response["usage"], response["id"]
    if dialect == "openai_chat":
        message = response["choices"][0]["message"]
        said = message.get("content") or "", message.get("tool_calls") or []
        return said, response["choices"][0]["finish_reason"], response["usage"], response["id"]
    if dialect == "gemini":
        candidate = response["candidates"][0]
        said = _texts_joined(candidate["content"]["parts"])
        return said, candidate["finishReason"], response["usageMetadata"], response["responseId"]
    return response["output"], response["status"], response["usage"], response["id"]


def _texts_joined(parts: list[Json]) -> list[Json]:
    """The parts, with neighbours of one kind as one: how they are cut means nothing."""
    joined: list[Json] = []
    for part in parts:
        before = joined[-1] if joined else {}
        if "text" in part and "text" in before and part.keys() == before.keys():
            joined[-1] = {**part, "text": before["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


@pytest.mark.parametrize("dialect", DIALECTS)
@given(rounds, st.integers(1, 400))
def test_a_stream_of_several_answers_is_the_one_answer(
    dialect: str, said: list[list[tuple[str, str]]], size: int
) -> None:
    answers = [response_of(dialect, one, number) for number, one in enumerate(said)]
    raw = seen_stream(dialect, answers, size)
    assert b"refold_" not in raw
    one = SHAPES[dialect].one(answers)
    assert not any(call.name.startswith("refold_") for call in tool_calls(one))
    got = assemble(objects([raw]))
    assert plain(dialect, got) == plain(dialect, one)


@given(rounds, st.integers(1, 400))
def test_a_server_may_say_its_last_words_in_the_chunk_that_ends(
    said: list[list[tuple[str, str]]], size: int
) -> None:
    answers = [response_of("openai_chat", one, number) for number, one in enumerate(said)]

    def in_the_end(_: str, response: Json) -> bytes:
        message = response["choices"][0]["message"]
        calls = [{"index": at, **one} for at, one in enumerate(message.get("tool_calls") or [])]
        delta = {**message, **({"tool_calls": calls} if calls else {})}
        last = {**response["choices"][0], "delta": delta}
        del last["message"]
        empty = {"index": 0, "delta": {}, "finish_reason": None}
        chunks = [{**response, "choices": [one], "usage": None} for one in (empty, last)]
        chunks.append({**response, "choices": []})
        return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks)

    raw = seen_stream("openai_chat", answers, size, in_the_end)
    got, one = assemble(objects([raw])), SHAPES["openai_chat"].one(answers)
    assert plain("openai_chat", got) == plain("openai_chat", one)
    if len(answers) == 1 and "refold_" not in str(answers):
        assert raw == in_the_end("", answers[0])


@pytest.mark.parametrize("dialect", DIALECTS)
@given(parts.filter(lambda said: all(kind != "own" for kind, _ in said)), st.integers(1, 400))
def test_an_answer_without_a_call_of_ours_is_the_bytes_that_came(
    dialect: str, said: list[tuple[str, str]], size: int
) -> None:
    answer = response_of(dialect, said, 0)
    assert seen_stream(dialect, [answer], size) == streamed(dialect, answer)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(rounds)
def test_everything_that_was_said_has_a_place_in_the_clients_list(
    dialect: str, said: list[list[tuple[str, str]]]
) -> None:
    shape = SHAPES[dialect]
    answers = [response_of(dialect, one, number) for number, one in enumerate(said)]
    parts_said = [shape.messages(one) for one in answers]
    inside = shape.inside(parts_said, shape.one(answers))
    laid_out = [
        one
        for at, seen in enumerate(inside.seen)
        for one in inside.inner.get(at, [seen])
    ]  # fmt: skip
    if inside.seen:
        assert laid_out == [one for part in parts_said for one in part]
    assert "refold_" not in json.dumps(inside.seen)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_usage_is_that_of_all_rounds(dialect: str) -> None:
    answers = [response_of(dialect, [("own", "#1"), ("text", "a")], one) for one in range(3)]
    counts = SHAPES[dialect].one(answers)["usageMetadata" if dialect == "gemini" else "usage"]
    assert counts == {name: 3 * count for name, count in USAGE[dialect].items()}


def test_counts_are_added_at_any_depth_and_words_are_the_last() -> None:
    one = {"a": 1, "in": {"b": 2, "c": None}, "tier": "x", "is": True}
    assert summed([one, None, one]) == {"a": 2, "in": {"b": 4, "c": None}, "tier": "x", "is": True}
