"""The chunks of a stream make the response that would have come whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import aio, dialects
from refold.core.codec import decode
from refold.core.model import Message, Usage
from refold.dialects.input import plain_value
from refold.dialects.streams import CUT_OFF
from tests.dialects.shapes import scalars


def piece(*deltas: dict[str, Any], finish: str | None = None, **beside: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish} for delta in deltas]
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-5"}
    return {**chunk, "choices": choices, **beside}


def called(index: int, **function: Any) -> dict[str, Any]:
    more = {"id": f"c{index}", "type": "function"} if "name" in function else {}
    return {"tool_calls": [{"index": index, **more, "function": function}]}


CHAT = [
    piece({"role": "assistant", "content": ""}),
    piece({"content": "Read"}),
    piece({"content": "ing."}),
    piece(called(0, name="read", arguments="")),
    piece(called(0, arguments='{"path": ')),
    piece(called(0, arguments='"a.py"}')),
    piece(called(1, name="read", arguments='{"path": "b.py"}')),
    piece({}, finish="tool_calls"),
    piece(usage={"prompt_tokens": 100, "completion_tokens": 20}),
]
CLAUDE = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [],
            "usage": {"input_tokens": 100, "output_tokens": 1},
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Hm."},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "c2ln"},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "ping"},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "text_delta", "text": "Reading."},
    },
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t1", "name": "read", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"path": "a.'},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": 'py"}'},
    },
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
    {"type": "message_stop"},
]
OUTPUT = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Reading.", "annotations": []}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}"},
]
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-5",
    "output": OUTPUT,
    "usage": {"input_tokens": 100, "output_tokens": 20},
}
RESPONSES = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
    *(
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(OUTPUT)
    ),
    {"type": "response.completed", "response": RESPONSE},
]
GEMINI = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Read"}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "ing."}]}}]},
    {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "read", "args": {"path": "a.py"}}}],
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20},
        "responseId": "g1",
    },
]
STREAMS = {
    "openai_chat": CHAT,
    "anthropic": CLAUDE,
    "openai_responses": RESPONSES,
    "gemini": GEMINI,
}
each = pytest.mark.parametrize("name", STREAMS)


def opened(name: str) -> refold.Context:
    config = refold.Config(dialect=name)
    context = refold.open("x", store="memory:", embedder=False, config=config)
    context.append({"role": "user", "content": "q"})
    context.request()
    return context


def bodies(events: list[Any]) -> list[Any]:
    return [decode(event) for event in events]


@each
def test_a_stream_says_what_its_response_would(name: str) -> None:
    reply = dialects.reply(STREAMS[name], name)
    assert "Reading." in str(reply.message.blocks)
    assert (reply.usage.input, reply.usage.output) == (100, 20)
    calls = dialects.tool_calls(STREAMS[name])
    assert [call.name for call in calls] == ["read"] * len(calls) and calls
    assert reply.finished != CUT_OFF


@each
@pytest.mark.parametrize("make", [list, tuple, iter], ids=["list", "tuple", "stream"])
def test_a_stream_is_recorded_and_the_next_request_is_valid(name: str, make: Any) -> None:
    context = opened(name)
    message, usage = bodies(context.record(make(STREAMS[name])))
    assert not usage.estimated and not message.metadata
    for call in dialects.tool_calls(STREAMS[name]):
        context.append_result(call.id, "r")
    assert dialects.dialect(name).check(context.request()) == []


@each
def test_a_stream_that_was_cut_off_is_recorded_as_such(name: str) -> None:
    for count in range(2, len(STREAMS[name]) - 1):
        context = opened(name)
        events = bodies(context.record(STREAMS[name][:count]))
        if not STREAMS[name][count - 1].get("usage") and "finish" not in str(STREAMS[name][:count]):
            said = [event for event in events if isinstance(event, Message)]
            assert all(event.metadata == {CUT_OFF: True} for event in said)
        context.append({"role": "user", "content": "go on"})
        assert dialects.dialect(name).check(context.request()) == []
        assert "(empty)" not in str(context.request())


START = {
    "type": "message_start",
    "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [], "usage": {"input_tokens": 40, "output_tokens": 1},
    },
}  # fmt: skip


THINKS = {
    "type": "content_block_start", "index": 0,
    "content_block": {"type": "thinking", "thinking": "", "signature": ""},
}  # fmt: skip


def delta(kind: str, **fields: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


@pytest.mark.parametrize(
    "chunks",
    [[], [delta("text_delta", text=" ")], [THINKS, delta("thinking_delta", thinking="Hm")]],
    ids=["nothing", "blank", "thinking"],
)
def test_a_stream_cut_off_before_its_answer_records_only_its_usage(chunks: list[Any]) -> None:
    context = opened("anthropic")
    before = context.request()
    for _ in range(2):
        context.record([START, *chunks])
    assert [event.kind for event in context.log.events()] == ["message", "usage"]
    assert context.stats().billed.calls == 1 and context.request() == before
    silent = opened("openai_chat")
    assert silent.record([{"choices": [{"index": 0, "delta": {"role": "assistant"}}]}]) == []
    assert len(silent.view.slots) == 1


def test_the_output_of_an_anthropic_stream_that_was_cut_off_is_estimated() -> None:
    context = opened("anthropic")
    message, usage = bodies(context.record([START, delta("text_delta", text="word " * 200)]))
    assert isinstance(message, Message) and usage.input == 40
    assert usage.estimated and 150 < usage.output < 600
    assert context.request()["messages"][-1] == {"role": "user", "content": "(go on)"}


def test_usage_that_a_stream_leaves_out_is_estimated_and_marked() -> None:
    context = opened("openai_chat")
    message, usage = bodies(context.record(CHAT[:-1]))
    assert isinstance(message, Message) and isinstance(usage, Usage)
    assert usage.estimated and usage.input > 0 and usage.output > 0
    assert context.view.anchor is None, "our own estimate is no report"


@each
def test_chunks_are_handed_on_while_they_are_put_together(name: str) -> None:
    context = opened(name)
    handed = list(context.stream(iter(STREAMS[name])))
    assert handed == STREAMS[name]
    assert context.view.slots[-1].message.role == "assistant"


def test_what_came_before_a_stream_broke_is_recorded_and_the_error_raised() -> None:
    def broken() -> Iterator[Any]:
        yield from CHAT[:3]
        raise ConnectionResetError

    context = opened("openai_chat")
    with pytest.raises(ConnectionResetError):
        context.record(broken())
    last = context.view.slots[-1].message
    assert last.metadata == {CUT_OFF: True} and "Reading." in str(last.blocks)


@each
def test_an_asynchronous_stream_is_recorded_by_the_asynchronous_context(name: str) -> None:
    async def stream() -> AsyncIterator[Any]:
        for chunk in STREAMS[name]:
            yield chunk

    async def turn() -> int:
        config = refold.Config(dialect=name)
        context = await aio.open("x", store="memory:", embedder=False, config=config)
        await context.append({"role": "user", "content": "q"})
        return len(await context.record(stream()))

    assert asyncio.run(turn()) == 2

    with pytest.raises(refold.Invalid, match="asynchronous"):
        opened(name).record(stream())


NONSENSE = [
    None, "text", 7, 1.5, b"x", [], [None], ["a"], [[]], [{}], {}, (), {"role": ["x"], "parts": []},
    {"candidates": {"a": 1}, "usageMetadata": {}}, {"choices": [None]}, {"choices": []}, {"role": None},
    {"object": "response", "output": [None]}, {"type": "message", "role": "assistant", "content": 5},
    [{"choices": [{"delta": 5}]}, 7], [{"type": "response.completed", "response": 7}], object(), {1}, {"role": {}},
    {"input": [{"role": [], "type": "message"}]}, {"role": "model", "parts": [{"functionCall": 5}]},
]  # fmt: skip


@each
@pytest.mark.parametrize("value", NONSENSE, ids=[str(n) for n in range(len(NONSENSE))])
def test_what_is_not_a_response_is_refused_with_a_hint(name: str, value: Any) -> None:
    context = opened(name)
    for door in (context.record, context.append, dialects.tool_calls):
        try:
            door(value)
        except refold.Invalid as error:
            assert error.hint
    context.append({"role": "user", "content": "still here"})
    assert dialects.dialect(name).check(context.request()) == []


KEYS = st.sampled_from((
    "role", "content", "type", "text", "parts", "candidates", "choices", "message", "delta", "output", "response",
    "object", "usage", "usageMetadata", "functionCall", "tool_calls", "input", "id", "index", "item", "summary",
))  # fmt: skip
WORDS = st.sampled_from((
    "message", "assistant", "user", "model", "response", "response.completed", "message_start", "reasoning",
    "content_block_delta", "content_block_start", "chat.completion.chunk", "function_call", "tool_use",
))  # fmt: skip
anything = st.recursive(
    scalars | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@settings(deadline=None, max_examples=300)
@given(anything)
def test_anything_at_the_door_is_read_or_refused_with_a_hint(value: Any) -> None:
    for door in (dialects.parse, dialects.tool_calls):
        try:
            door(value)
        except refold.Invalid as error:
            assert error.hint
    for name in STREAMS:
        try:
            dialects.reply(value, name)
        except refold.Invalid as error:
            assert error.hint


class Prompt(str):
    """As a framework has its own text."""


class Tool:
    def __init__(self) -> None:
        self.name, self.parameters = Prompt("read"), {"type": "object"}


def test_a_value_of_an_sdk_is_made_plain() -> None:
    made = plain_value([Prompt("a"), Tool(), {"b": (1, b"x")}])
    assert made == ["a", {"name": "read", "parameters": {"type": "object"}}, {"b": [1, "eA=="]}]
    assert type(made[0]) is str and type(made[1]["name"]) is str
    assert plain_value(None) is None
    with pytest.raises(refold.Invalid):
        plain_value(object())


@pytest.mark.parametrize("chunks", STREAMS.values(), ids=STREAMS)
def test_a_call_is_complete_only_with_all_of_its_arguments(chunks: list[Any]) -> None:
    whole = {call.id: call for call in refold.tool_calls(chunks)}
    assert all(call.is_complete for call in whole.values())
    for end in range(1, len(chunks)):
        try:
            calls = refold.tool_calls(chunks[:end])
        except refold.Invalid:
            continue  # nothing of a response came yet
        for call in calls:
            assert not call.is_complete or call == whole[call.id]


def test_a_call_that_the_limit_of_the_answer_cut_is_not_complete() -> None:
    for chunks in (CHAT[:5], [*CHAT[:5], piece({}, finish="length")]):
        [call] = refold.tool_calls(chunks)
        assert not call.is_complete and call.arguments == '{"path": '
