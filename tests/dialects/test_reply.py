"""Responses taken apart: what was said, what was billed, and the calls in it, from dicts and
from SDK objects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from refold.core.model import Message, Text, Thinking, ToolCall, Usage
from refold.dialects import anthropic, dialect, dialect_of, gemini, openai_chat, parse, tool_calls
from refold.dialects.usage import read_usage
from refold.errors import Invalid
from tests.dialects.responses_shapes import RESPONSE

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path": "a"}'},
                    }
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 600,
        "completion_tokens": 50,
        "total_tokens": 650,
        "prompt_tokens_details": {"cached_tokens": 580, "cache_write_tokens": 7},
        "completion_tokens_details": {"reasoning_tokens": 30},
    },
}
CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "read",
            "input": {"path": "a"},
            "caller": {"type": "direct"},
        },
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 20,
        "cache_read_input_tokens": 580,
        "cache_creation_input_tokens": 0,
        "output_tokens": 50,
    },
}
GEMINI = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {"text": "hm", "thought": True},
                    {
                        "functionCall": {"name": "read", "args": {"path": "a"}},
                        "thoughtSignature": "c2ln",
                    },
                ],
                "role": "model",
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 600,
        "cachedContentTokenCount": 580,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
        "totalTokenCount": 650,
    },
    "modelVersion": "gemini-2.5-pro",
    "responseId": "g1",
}


class Model:
    """Looks like a pydantic model: nested models, a model_dump that knows a mode."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def model_dump(
        self, *, mode: str = "python", exclude_unset: bool = False, warnings: bool = True
    ) -> dict[str, Any]:
        assert mode == "json"
        assert exclude_unset
        return self.fields


class Simple:
    """A model_dump without options, as older or hand-made classes have it."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self.fields


class ToDict:
    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self._fields


class Attributes:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update({key: _attributes(value) for key, value in fields.items()})


def _attributes(value: Any) -> Any:
    if isinstance(value, dict):
        return Attributes(value) if value else {}
    return [_attributes(item) for item in value] if isinstance(value, list) else value


class Stream:
    """A finished stream gives its final object."""

    def __init__(self, final: Any) -> None:
        self.final = final

    def get_final_message(self) -> Any:
        return Model(self.final)


class CompletionStream:
    def __init__(self, final: Any) -> None:
        self.final = final

    def get_final_completion(self) -> Any:
        return self.final


class ResponseStream:
    def __init__(self, final: Any) -> None:
        self.final = final

    def get_final_response(self) -> Any:
        return Model(self.final)


RESPONSES = [
    ("openai_chat", CHAT),
    ("anthropic", CLAUDE),
    ("gemini", GEMINI),
    ("openai_responses", RESPONSE),
]


@pytest.mark.parametrize(
    "wrap", [dict, Model, Simple, ToDict, Attributes, Stream, CompletionStream, ResponseStream]
)
@pytest.mark.parametrize(("name", "response"), RESPONSES)
def test_sdk_objects_read_like_their_dicts(name: str, response: dict[str, Any], wrap: Any) -> None:
    assert dialect(name).reply(wrap(response)) == dialect(name).reply(response)
    assert [call.arguments for call in tool_calls(wrap(response))] == [{"path": "a"}]
    assert parse(wrap(response)) == [dialect(name).reply(response).message]


def test_a_message_may_hold_sdk_objects() -> None:
    blocks = [Model(block) for block in CLAUDE["content"]]  # type: ignore[attr-defined]
    assert anthropic.parse({"role": "assistant", "content": blocks}) == [
        anthropic.reply(CLAUDE).message
    ]
    assert parse({"role": "assistant", "content": blocks})[0].dialect == "anthropic"


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 20, "cache_read_input_tokens": 580, "output_tokens": 1},
        {"inputTokens": 20, "cacheReadInputTokens": 580, "outputTokens": 1, "totalTokens": 601},
        {"inputTokens": 20, "cacheReadInputTokens": 500, "cacheWriteInputTokens": 80},
        {"prompt_tokens": 600, "prompt_tokens_details": {"cached_tokens": 580}},
        {"promptTokenCount": 600, "cachedContentTokenCount": 580},
    ],
)
def test_a_usage_apart_counts_the_cache_once_whoever_gives_it(usage: dict[str, Any]) -> None:
    """X-11: Anthropic and Bedrock count it beside the input, the others inside."""
    assert read_usage(usage, "anthropic").input == 600


def test_cached_tokens_count_once() -> None:
    assert anthropic.reply(CLAUDE).usage == Usage(
        response="msg_1",
        model="claude-sonnet-4-5",
        input=600,
        output=50,
        cache_read=580,
        cache_write=0,
    )
    assert openai_chat.reply(CHAT).usage == Usage(
        response="chatcmpl-1",
        model="gpt-5",
        input=600,
        output=50,
        cache_read=580,
        cache_write=7,
        reasoning=30,
    )
    assert gemini.reply(GEMINI).usage == Usage(
        response="g1", model="gemini-2.5-pro", input=600, output=50, cache_read=580, reasoning=30
    )


def test_the_last_message_iteration_is_the_size_of_the_context() -> None:
    iterations = [
        {"type": "message", "input_tokens": 100, "cache_read_input_tokens": 0, "output_tokens": 10},
        {
            "type": "message",
            "input_tokens": 30,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 5,
        },
        {"type": "compaction", "input_tokens": 9_000, "output_tokens": 400},
    ]
    usage = {
        "input_tokens": 130,
        "cache_read_input_tokens": 100,
        "output_tokens": 25,
        "iterations": iterations,
    }
    read = anthropic.reply({**CLAUDE, "usage": usage}).usage
    assert read is not None
    assert (read.input, read.cache_read, read.cache_write, read.output) == (135, 100, 5, 25)


@pytest.mark.parametrize(("name", "response"), [("openai_chat", CHAT), ("anthropic", CLAUDE)])
def test_a_reply_renders_back_as_the_provider_sent_it(name: str, response: dict[str, Any]) -> None:
    message = dialect(name).reply(response).message
    sent = (
        response["choices"][0]["message"]
        if name == "openai_chat"
        else {"role": "assistant", "content": response["content"]}
    )
    assert json.dumps(dialect(name).render([message], [])) == json.dumps([sent])


def test_replies_say_how_they_finished() -> None:
    assert openai_chat.reply(CHAT).finished == "tool_calls"
    assert anthropic.reply(CLAUDE).finished == "tool_use"
    assert gemini.reply(GEMINI).finished == "STOP"


@pytest.mark.parametrize("usage", [None, "free", {}])
def test_a_reply_without_usage_is_still_a_reply(usage: Any) -> None:
    for name, response in (("openai_chat", CHAT), ("anthropic", CLAUDE)):
        reply = dialect(name).reply({**response, "usage": usage})
        assert reply.message.blocks
        assert (reply.usage is None) == (usage != {})


def test_odd_numbers_in_usage_count_as_nothing() -> None:
    reply = openai_chat.reply(
        {
            **CHAT,
            "usage": {
                "prompt_tokens": None,
                "completion_tokens": "7",
                "prompt_tokens_details": None,
            },
        }
    )
    assert reply.usage == Usage(response="chatcmpl-1", model="gpt-5")


@pytest.mark.parametrize("name", ["openai_chat", "anthropic"])
def test_a_bare_message_is_a_reply_without_usage(name: str) -> None:
    reply = dialect(name).reply({"role": "assistant", "content": "done"})
    assert reply.message.blocks == (Text("done"),)
    assert reply.usage is None


@pytest.mark.parametrize(
    ("name", "response", "blocks"),
    [
        ("openai_chat", {"role": "assistant", "content": None, "refusal": "no"}, (Text("no"),)),
        (
            "openai_chat",
            {"role": "assistant", "content": None, "reasoning_content": "hm"},
            (Thinking("hm"),),
        ),
        ("openai_chat", {"role": "assistant", "content": ""}, (Text(""),)),
        ("openai_chat", {"content": None}, ()),
        ("anthropic", [], ()),
        ("anthropic", None, ()),
        (
            "anthropic",
            [{"type": "thinking", "thinking": "", "signature": "s"}],
            (Thinking("", "s"),),
        ),
    ],
)
def test_a_response_that_says_nothing_is_recorded_all_the_same(
    name: str, response: Any, blocks: Any
) -> None:
    if name == "openai_chat":
        reply = openai_chat.reply({"choices": [{"message": response, "finish_reason": "length"}]})
    else:
        reply = anthropic.reply({**CLAUDE, "content": response})
    assert reply.message.blocks == blocks
    assert reply.message.role == "assistant"


@pytest.mark.parametrize("choices", [[], [None], [{"delta": {"content": "x"}}]])
def test_an_unfinished_completion_is_refused(choices: Any) -> None:
    with pytest.raises(Invalid, match="first choice"):
        openai_chat.reply({"choices": choices})


def test_tool_calls_reads_every_shape() -> None:
    wires: list[Any] = [
        CHAT,
        CLAUDE,
        GEMINI,
        RESPONSE,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "read", "arguments": {"path": "a"}}],
        },
        Attributes(CHAT["choices"][0]["message"]),  # type: ignore[index]
    ]
    for wire in wires:
        [call] = tool_calls(wire)
        assert (call.name, call.arguments) == ("read", {"path": "a"})


def test_tool_calls_keeps_text_that_is_no_object() -> None:
    function = {"name": "f", "arguments": '{"path": "a'}
    wire = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    assert tool_calls(wire) == [ToolCall("c", "f", '{"path": "a')]
    assert tool_calls({"role": "assistant", "content": "no calls"}) == []


def test_responses_find_their_dialect() -> None:
    assert dialect_of(CHAT) == "openai_chat"
    assert dialect_of(CLAUDE) == "anthropic"
    assert dialect_of(GEMINI) == "gemini"
    assert dialect_of(RESPONSE) == "openai_responses"


def reversed_keys(value: Any) -> Any:
    """The same value with its keys in another order, but for arguments: as an SDK's class might
    have them."""
    if isinstance(value, list):
        return [reversed_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item if key == "input" else reversed_keys(item)
        for key, item in reversed(value.items())
    }


def test_the_key_order_of_an_sdks_class_needs_no_form() -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1, "a": 2}},
    ]
    claude = {**CLAUDE, "content": blocks}
    assert anthropic.reply(Model(reversed_keys(claude))) == anthropic.reply(claude)
    assert (
        anthropic.parse(
            {"role": "assistant", "content": [Model(reversed_keys(block)) for block in blocks]}
        )[0].form
        is None
    )
    message = {"role": "assistant", "content": "hi"}
    chat = {"choices": [{"message": message}]}
    assert openai_chat.reply(Model(reversed_keys(chat))) == openai_chat.reply(chat)
    assert openai_chat.parse(reversed_keys(message))[0].form is not None


def test_dataclasses_and_named_values_are_read() -> None:
    @dataclass
    class Said:
        role: str
        content: str

    assert parse(Said("user", "hi")) == [
        Message(role="user", blocks=(Text("hi"),), dialect="openai_chat")
    ]
