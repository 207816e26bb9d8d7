"""What came in goes out valid: whatever a server, an SDK or a mistake made of a message, if it is
taken, every request that shows it passes the strict checks of all four dialects."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.core.model import Message, Opaque, Text, ToolCall
from refold.dialects.wire import KNOWN_PARTS

U = {"role": "user", "content": "q"}
A = {"role": "assistant", "content": None}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}
USE = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def chat(**said: Any) -> list[Any]:
    return [U, {**A, **said}, U]


def calling(**fields: Any) -> list[Any]:
    return [U, {**A, "tool_calls": [{**CALL, **fields}]}, RESULT]


def function(**fields: Any) -> list[Any]:
    return calling(function={"name": "f", "arguments": "{}", **fields})


def answered(**fields: Any) -> list[Any]:
    return [
        U,
        USE,
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", **fields}]},
    ]


def responses_call(**fields: Any) -> list[Any]:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **fields}
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "x"}
    return [U, call, output]


def gemini(*parts: Any) -> list[Any]:
    return [U, {"role": "model", "parts": list(parts)}, U]


# As servers, SDKs and tools really give them.
REPORTED = {
    "vLLM: an empty list of calls": chat(content="a", tool_calls=[]),
    "LiteLLM: null calls": chat(content="a", tool_calls=None, function_call=None, audio=None),
    "openai .parse()": chat(content="a", tool_calls=None, parsed={"x": 1}, refusal=None),
    "nothing said": chat(tool_calls=[]),
    "a call without a type": [
        U,
        {**A, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        RESULT,
    ],
    "Ollama: arguments as an object": function(arguments={"a": 1}),
    "null arguments": function(arguments=None),
    "parsed arguments": function(parsed_arguments={"a": 1}),
    "the index of a stream": calling(index=0),
    "the simple shape": [
        U,
        {**A, "tool_calls": [{"id": "c", "name": "f", "arguments": {"a": 1}}]},
        RESULT,
    ],
    "an invented name": function(name="functions.run"),
    "a name of 300 characters": function(name="f" * 300),
    "an empty name": function(name=""),
    "audio with its data": chat(audio={"id": "a", "data": "QUJD", "expires_at": 1}),
    "an image by the assistant": chat(content=[IMAGE]),
    "an empty tool message": [*calling()[:2], {**RESULT, "content": None}],
    "a part without text": [{"role": "user", "content": [{"type": "text", "text": None}]}],
    "a broken image": [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}],
        }
    ],
    "an MCP tool's empty text": answered(content=[{"type": "text", "text": ""}]),
    "null content of a result": answered(content=None),
    "a null error mark": answered(content="x", is_error=None),
    "thinking inside a result": answered(content=[{"type": "thinking", "thinking": "t"}]),
    "a search result": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "q"},
                {
                    "type": "search_result",
                    "source": "s",
                    "title": "t",
                    "content": [{"type": "text", "text": "x"}],
                },
            ],
        }
    ],
    "broken base64": [
        {
            "role": "user",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "no base64!"},
                }
            ],
        }
    ],
    "Responses: an invented name": responses_call(name="functions.run"),
    "Responses: a long call id": responses_call(call_id="c" * 90),
    "Responses: somebody else's item id": responses_call(id="call_1"),
    "Gemini: broken base64": gemini({"inlineData": {"mimeType": "image/png", "data": "no!"}}),
    "Gemini: an image without a type": gemini({"inlineData": {"data": "QUJD"}}),
    "Gemini: two things in a part": gemini({"text": "a", "functionCall": {"name": "f"}}),
    "Gemini: a strange name": gemini({"functionCall": {"name": "1 2", "args": {}}}),
}


def faults(messages: list[Any], name: str) -> list[str]:
    """What the provider would refuse, apart from types that nobody knows yet, which are carried."""
    context = refold.open("x", store="memory:", embedder=False)
    context.mirror(messages)  # `append` refuses what no provider would get
    found = dialects.dialect(name).check(context.request(name))
    return [fault for fault in found if not _is_unknown(fault)]


@pytest.mark.parametrize("name", dialects.DIALECTS)
@pytest.mark.parametrize("messages", REPORTED.values(), ids=REPORTED)
def test_what_servers_and_sdks_really_give_goes_out_valid(messages: list[Any], name: str) -> None:
    assert faults(messages, name) == []


# --- mutations ---

TALKS: dict[str, list[Any]] = {
    "openai_chat": [
        {"role": "user", "content": [{"type": "text", "text": "q"}, IMAGE]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}],
            "refusal": None,
            "tool_calls": [CALL],
        },
        {**RESULT, "content": [{"type": "text", "text": "r"}]},
        {"role": "assistant", "content": "done"},
        U,
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "q"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "c2ln"},
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "is_error": False,
                    "content": [{"type": "text", "text": "r"}],
                },
                {"type": "text", "text": "more"},
            ],
        },
    ],
    "openai_responses": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "q"},
                {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
            ],
        },
        {
            "input": [
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA"},
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "a", "annotations": []}],
                },
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "c",
                    "name": "f",
                    "arguments": "{}",
                },
            ]
        },
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": "r"}],
        },
        U,
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [{"text": "q"}, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}],
        },
        {
            "role": "model",
            "parts": [
                {"text": "t", "thought": True},
                {"functionCall": {"id": "g", "name": "f", "args": {"a": 1}}},
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "g", "name": "f", "response": {"output": "r"}}}],
        },
    ],
}
WORDS = [
    "text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking", "document", "refusal", "image_url",
    "input_text", "output_text", "input_image", "input_audio", "file", "user", "assistant", "system", "model", "tool",
    "function", "x_new", "not base64!", "functions.run", "c", "t",
]  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 1), st.just(1.5), st.sampled_from(["", " "]),
    st.sampled_from(WORDS), st.just([]), st.just({}), st.just([{}]), st.just("x" * 90),
    st.just({"a": 1}), st.just([{"type": "text", "text": ""}]), st.just([None]),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in children:
        if isinstance(child, dict | list):
            yield from places(child, (*path, key))
        else:
            yield (*path, key)


@st.composite
def mutated(draw: st.DrawFn) -> list[Any]:
    """A valid talk with one or two places changed, taken out or added."""
    talk = copy.deepcopy(TALKS[draw(st.sampled_from(sorted(TALKS)))])
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(list(places(talk))))
        holder: Any = talk
        for step in way:
            holder = holder[step]
        match draw(st.sampled_from(["change", "remove", "add"])):
            case "change":
                holder[last] = copy.deepcopy(draw(VALUES))
            case "remove" if isinstance(holder, dict):
                del holder[last]
            case _ if isinstance(holder, dict):
                key = draw(st.sampled_from(["type", "content", "id", "text", "index", "parsed"]))
                holder[key] = copy.deepcopy(draw(VALUES))
    return talk


@settings(deadline=None, max_examples=250)
@given(mutated())
def test_whatever_is_taken_goes_out_valid_in_every_dialect(talk: list[Any]) -> None:
    context = refold.open("x", store="memory:", embedder=False)
    context.append(U)
    for message in talk:
        try:
            context.append(message)
        except refold.Invalid as error:
            assert error.hint
    for name in dialects.DIALECTS:
        found = dialects.dialect(name).check(context.request(name))
        assert [fault for fault in found if not _is_unknown(fault)] == []


_TYPE = re.compile(r"(?:unknown block type|(?:part|item) of type) '([^']*)'")


def _is_unknown(fault: str) -> bool:
    """Whether this is about a type or field that nobody knows yet, and so is carried."""
    found = _TYPE.search(fault)
    return (
        "unknown field" in fault
        or "holds nothing" in fault
        or bool(found and found[1] not in KNOWN_PARTS)
    )


# --- what an import may bring ---

ODD = [
    Message(role="user", blocks=(Opaque(raw="text"),)),
    Message(role="user", blocks=(Opaque(raw=[1]),), dialect="anthropic"),
    Message(role="assistant", blocks=(Text("a"),), dialect="openai_chat", form=[1, "x"]),
    Message(role="assistant", blocks=(Text("a"),), dialect="anthropic", form={"a": 1}),
    Message(role="assistant", blocks=(Text("a"),), dialect="gemini", form=[1, {"parts": 5}]),
    Message(role="assistant", blocks=(Text("a"),), dialect="openai_responses", form=[1, {"$": 9}]),
    Message(role="assistant", blocks=(Text("a"),), dialect="zzz"),
    Message(role="user", blocks=(Opaque(raw="t"), Text("u")), dialect="gemini"),
    Message(role="assistant", blocks=(ToolCall("", "", ""),), dialect="openai_responses"),
    Message(role="assistant", blocks=(ToolCall("a", "f", {"x": 1}),), dialect="gemini", form=7),
]


@pytest.mark.parametrize("name", dialects.DIALECTS)
@pytest.mark.parametrize("odd", ODD, ids=map(str, range(len(ODD))))
def test_an_odd_block_or_form_stops_no_request(odd: Message, name: str) -> None:
    assert faults([U, odd, U], name) == []
