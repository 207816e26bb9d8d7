"""The validators: a table of requests that a provider would refuse, each with the words of its
fault."""

from __future__ import annotations

from typing import Any

import pytest

from refold.dialects import anthropic, openai_chat

U = {"role": "user", "content": "hi"}
MARK = {"cache_control": {"type": "ephemeral"}}


def calls(*ids: Any) -> dict[str, Any]:
    made = [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def tool(id: Any, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def uses(*ids: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids],
    }


def result(id: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "ok", **more}


def says(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def text(said: Any = "x", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def called(**call: Any) -> list[dict[str, Any]]:
    return [
        U,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **call}]},
        tool("a"),
    ]


OPENAI_FAULTS: list[tuple[str, list[Any], str]] = [
    ("no messages", [], "at least one message"),
    ("not an object", ["hi"], "not an object"),
    ("unknown role", [{"role": "robot", "content": "x"}], "unknown role 'robot'"),
    ("no role", [{"content": "x"}], "unknown role None"),
    ("no content", [{"role": "user"}], "no content"),
    ("number as content", [{"role": "user", "content": 3}], "content is int"),
    ("A2 empty list", [says("user")], "empty content"),
    ("A2 empty text", [says("user", text(""))], "text is ''"),
    ("A2 empty answer", [U, {"role": "assistant", "content": None}], "no content"),
    ("unknown part", [says("user", {"type": "foo"})], "type 'foo'"),
    ("part without type", [says("user", "x")], "type None"),
    (
        "image without url",
        [says("user", {"type": "image_url", "image_url": {}})],
        "image_url is incomplete",
    ),
    (
        "file without data",
        [says("user", {"type": "file", "file": {"filename": "a"}})],
        "neither data nor id",
    ),
    (
        "I1 image in a result",
        [U, calls("a"), tool("a", [{"type": "image_url", "image_url": {"url": "x"}}])],
        "'image_url' in a tool",
    ),
    ("P3 missing result", [U, calls("a", "b"), tool("a")], "'b' has no result"),
    ("P3 result too late", [U, calls("a"), U, tool("a")], "'a' before it has no result"),
    ("P3 stray result", [U, tool("a")], "a stray result for 'a'"),
    ("P3 second result", [U, calls("a"), tool("a"), tool("a")], "a second result for 'a'"),
    ("two calls, one id", [U, calls("a", "a"), tool("a")], "a second call with the id 'a'"),
    ("call id not text", [U, calls(3), tool("a")], "id is 3"),
    ("result id not text", [U, calls("a"), tool("a"), tool(None)], "tool_call_id is None"),
    (
        "no calls in tool_calls",
        [U, {"role": "assistant", "content": "x", "tool_calls": []}],
        "at least one call",
    ),
    (
        "calls in a user message",
        [{"role": "user", "content": "x", "tool_calls": []}],
        "tool_calls in a user message",
    ),
    (
        "call not an object",
        [U, {"role": "assistant", "content": "x", "tool_calls": ["a"]}],
        "tool_calls[0]: not an object",
    ),
    ("call without function", called(type="function"), "without its function"),
    (
        "arguments as object",
        called(type="function", function={"name": "f", "arguments": {}}),
        "arguments is dict",
    ),
    ("call without name", called(type="function", function={"arguments": ""}), "name is None"),
    ("custom input", called(type="custom", custom={"name": "f", "input": {}}), "input is dict"),
    ("simple shape", called(name="f", arguments="{}"), "without its function"),
    ("index of a stream", called(type="function", index=0, function={}), "index"),
    ("parsed arguments", called(type="function", function={"parsed_arguments": 1}), "only an SDK"),
    ("null calls", [U, {"role": "assistant", "content": "a", "tool_calls": None}], "tool_calls is"),
    ("parsed", [U, {"role": "assistant", "content": "a", "parsed": None}], "only an SDK has"),
    (
        "strange name",
        called(type="function", function={"name": "a.b", "arguments": ""}),
        "name is 'a.b'",
    ),
    (
        "assistant first",
        [{"role": "system", "content": "s"}, {"role": "assistant", "content": "x"}, U],
        "before any user",
    ),
]

PREFILL = {"role": "assistant", "content": "x"}
SYSTEM = {"role": "system", "content": "s"}
ANTHROPIC_FAULTS: list[tuple[str, list[Any], str]] = [
    ("no messages", [], "at least one message"),
    ("not an object", [None], "not an object"),
    ("unknown role", [{"role": "tool", "content": "x"}], "unknown role 'tool'"),
    (
        "A1 assistant first",
        [{"role": "assistant", "content": "x"}, U],
        "first message is assistant",
    ),
    ("A1 system first", [{"role": "system", "content": "x"}, U], "first message is system"),
    ("A2 empty content", [{"role": "user", "content": ""}], "empty content"),
    ("A2 empty list", [says("user")], "empty content"),
    ("A2 empty text", [says("user", text(""))], "text is ''"),
    ("A2 blank text", [says("user", text(" "))], "text is ' '"),
    ("null content", [{"role": "user", "content": None}], "content is NoneType"),
    ("block without type", [says("user", {"text": "x"})], "without a type"),
    ("unknown block", [says("user", {"type": "foo"})], "unknown block type 'foo'"),
    (
        "image source",
        [says("user", {"type": "image", "source": {"type": "ftp"}})],
        "unknown source type 'ftp'",
    ),
    (
        "I1 image without bytes",
        [says("user", {"type": "image", "source": {"type": "base64", "data": ""}})],
        "incomplete",
    ),
    (
        "T1 no signature",
        [U, says("assistant", {"type": "thinking", "thinking": "x"}), U],
        "without a signature",
    ),
    (
        "T1 no text",
        [U, says("assistant", {"type": "thinking", "signature": "s"}), U],
        "thinking is not a string",
    ),
    ("T1 no data", [U, says("assistant", {"type": "redacted_thinking"}), U], "without data"),
    (
        "T1 thinking of a user",
        [says("user", {"type": "thinking", "thinking": "x", "signature": "s"})],
        "in a user message",
    ),
    (
        "call of a user",
        [says("user", uses("a")["content"][0])],
        "a tool_use block in a user message",
    ),
    (
        "result of the assistant",
        [U, says("assistant", result("a"))],
        "a tool_result block in a assistant message",
    ),
    (
        "P1 missing result",
        [U, uses("a", "b"), says("user", result("a"))],
        "'b' before it has no result",
    ),
    ("P1 nothing after", [U, uses("a")], "'a' has no result"),
    (
        "P1 result too late",
        [U, uses("a"), U, says("user", result("a"))],
        "'a' before it has no result",
    ),
    (
        "P1 text first",
        [U, uses("a"), says("user", text(), result("a"))],
        "the results are not first",
    ),
    (
        "P1 second result",
        [U, uses("a"), says("user", result("a"), result("a"))],
        "a second result for 'a'",
    ),
    ("P2 stray result", [says("user", result("a"))], "a stray result for 'a'"),
    (
        "two calls, one id",
        [U, uses("a", "a"), says("user", result("a"))],
        "a second call with the id 'a'",
    ),
    ("odd id", [U, uses("a b"), says("user", result("a b"))], "id is 'a b'"),
    ("id not text", [U, uses(3), says("user", result("a"))], "id is 3"),
    (
        "input as text",
        [U, says("assistant", {"type": "tool_use", "id": "a", "name": "f", "input": "{}"})],
        "input is str",
    ),
    (
        "no name",
        [U, says("assistant", {"type": "tool_use", "id": "a", "input": {}})],
        "name is None",
    ),
    ("is_error", [U, uses("a"), says("user", result("a", is_error="yes"))], "is_error"),
    ("number as result", [U, uses("a"), says("user", result("a", content=3))], "content is int"),
    (
        "call inside a result",
        [U, uses("a"), says("user", result("a", content=[{"type": "tool_use"}]))],
        "inside a result",
    ),
    ("C1 five marks", [says("user", *[text(**MARK)] * 5)], "5 cache marks"),
    (
        "C1 marks in results",
        [U, uses("a"), says("user", result("a", content=[text(**MARK)] * 5))],
        "5 cache marks",
    ),
    (
        "C1 thinking",
        [U, says("assistant", {"type": "thinking", "thinking": "x", "signature": "s", **MARK}), U],
        "mark on thinking",
    ),
]


@pytest.mark.parametrize(
    ("messages", "fault"), [row[1:] for row in OPENAI_FAULTS], ids=[row[0] for row in OPENAI_FAULTS]
)
def test_openai_faults_are_found(messages: list[Any], fault: str) -> None:
    assert any(fault in found for found in openai_chat.check({"messages": messages}))


@pytest.mark.parametrize(
    ("messages", "fault"),
    [row[1:] for row in ANTHROPIC_FAULTS],
    ids=[row[0] for row in ANTHROPIC_FAULTS],
)
def test_anthropic_faults_are_found(messages: list[Any], fault: str) -> None:
    assert any(fault in found for found in anthropic.check({"messages": messages}))


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"tools": []}, "tools: not a list"),
        ({"tools": [{"type": "function"}]}, "without its definition"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "name is 'a b'"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]},
            "not the schema of an object",
        ),
        ({"tools": [{"name": "a", "input_schema": {}}]}, "without its definition"),
    ],
)
def test_openai_faults_beside_the_messages_are_found(request_: dict[str, Any], fault: str) -> None:
    assert any(fault in found for found in openai_chat.check({"messages": [U], **request_}))


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"tools": {}}, "tools: not a list"),
        ({"tools": ["a"]}, "tools[0]: not an object"),
        ({"tools": [{"name": "a"}]}, "not the schema of an object"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "name is 'a b'"),
        ({"system": []}, "system: neither"),
        ({"system": [text("")]}, "system[0]: text is ''"),
        ({"system": ["x"]}, "system[0]: not a text block"),
        ({"system": [text(**MARK)] * 5}, "5 cache marks"),
        (
            {
                "messages": [U, {"role": "assistant", "content": "x"}],
                "thinking": {"type": "enabled"},
            },
            "a prefill while thinking",
        ),
        (
            {"max_tokens": 1_024, "thinking": {"type": "enabled", "budget_tokens": 1_024}},
            "not above the",
        ),
        ({"messages": [U, PREFILL], "model": "claude-opus-4-6"}, "which this model refuses"),
        ({"messages": [U, says("assistant", text("x "))]}, "ends with white space"),
        ({"messages": [U, SYSTEM, U], "model": "claude-sonnet-4-5-20250929"}, "model refuses"),
        ({"messages": [U, SYSTEM, U], "model": "claude-3-5-haiku-latest"}, "model refuses"),
        ({"messages": [U, PREFILL, SYSTEM, U], "model": "claude-opus-4-8"}, "not follow a user's"),
    ],
)
def test_anthropic_faults_beside_the_messages_are_found(
    request_: dict[str, Any], fault: str
) -> None:
    assert any(fault in found for found in anthropic.check({"messages": [U], **request_}))


def test_sound_requests_have_no_faults() -> None:
    assert (
        openai_chat.check(
            {
                "messages": [
                    {"role": "system", "content": "s"},
                    U,
                    calls("a", "b"),
                    tool("b"),
                    tool("a"),
                    U,
                ]
            }
        )
        == []
    )
    assert (
        anthropic.check(
            {"messages": [U, uses("a", "b"), says("user", result("b"), result("a"), text())]}
        )
        == []
    )
    assert (
        anthropic.check(
            {"messages": [U, {"role": "assistant", "content": "prefill"}], "system": [text(**MARK)]}
        )
        == []
    )
    for model in ("claude-opus-4-8", "claude-sonnet-5-5", "us.anthropic.claude-opus-5-v1:0"):
        assert anthropic.check({"messages": [U, SYSTEM, U], "model": model}) == []
