"""Messages of mixed form: whatever the mix, every call and every result reaches every provider."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

import refold
from refold.dialects import DIALECTS, dialect

ARGUMENTS = {"path": "a.py"}
TEXT = {"type": "text", "text": "I look."}
CHAT = {
    "id": "c1",
    "type": "function",
    "function": {"name": "read", "arguments": json.dumps(ARGUMENTS)},
}
CALLS: dict[str, dict[str, Any]] = {
    "tool_calls": {"tool_calls": [CHAT]},
    "tool_use": {"content": [{"type": "tool_use", "id": "c1", "name": "read", "input": ARGUMENTS}]},
    "function_call item": {
        "content": [
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "read",
                "arguments": json.dumps(ARGUMENTS),
            }
        ]
    },
    "functionCall": {"parts": [{"functionCall": {"id": "c1", "name": "read", "args": ARGUMENTS}}]},
    "functionCall in content": {
        "content": [{"functionCall": {"id": "c1", "name": "read", "args": ARGUMENTS}}]
    },
}
CONTENT: dict[str, Any] = {
    "none": None,
    "string": "I look.",
    "text": [TEXT],
    "thinking": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
    "thinking and text": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, TEXT],
    "redacted thinking": [{"type": "redacted_thinking", "data": "YWJj"}],
    "marked text": [{**TEXT, "cache_control": {"type": "ephemeral"}}],
    "output text": [{"type": "output_text", "text": "I look."}],
}
ANSWER = {"type": "tool_result", "tool_use_id": "c1", "content": "RESULT"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
RESULTS: dict[str, Any] = {
    "append_result": None,
    "tool": {"role": "tool", "tool_call_id": "c1", "content": "RESULT"},
    "tool with marked text": {
        "role": "tool",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": "RESULT", "cache_control": {"type": "ephemeral"}}],
    },
    "tool with tool_result": {"role": "tool", "tool_call_id": "c1", "content": [ANSWER]},
    "tool_result": {"role": "user", "content": [ANSWER]},
    "tool_result beside image_url": {"role": "user", "content": [ANSWER, PICTURE]},
    "output": {"type": "function_call_output", "call_id": "c1", "output": "RESULT"},
    "output in content": {
        "role": "user",
        "content": [{"type": "function_call_output", "call_id": "c1", "output": "RESULT"}],
    },
    "functionResponse": {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "RESULT"}}}
        ],
    },
    "functionResponse in content": {
        "role": "user",
        "content": [
            {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "RESULT"}}}
        ],
    },
}
MODELS = ("gpt-4o", "gpt-5", "claude-opus-4-6", "gemini-3-pro-preview", "unknown-x")


def answer(content: Any, *spellings: dict[str, Any]) -> dict[str, Any]:
    """An answer with this content, and the call in each of these spellings."""
    is_gemini = content is None and spellings == (CALLS["functionCall"],)
    message: dict[str, Any] = {"role": "model" if is_gemini else "assistant"}
    if content is not None:
        message["content"] = content
    for spelling in spellings:
        for key, value in spelling.items():
            if key == "content" and key in message:
                there = message[key]
                listed = [{"type": "text", "text": there}] if isinstance(there, str) else there
                message[key] = [*listed, *value]
            else:
                message[key] = value
    return message


def assert_sent(context: refold.Context, *needles: str) -> None:
    """Every needle is in every provider's request, exactly once, and the request is valid."""
    for name in DIALECTS:
        request = context.request(name)
        sent = json.dumps(request).replace("\\", "")
        assert [sent.count(needle) for needle in needles] == [1] * len(needles), (name, request)
        assert dialect(name).check(request) == [], (name, request)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("content", CONTENT)
def test_every_call_and_result_reaches_every_provider(model: str, content: str) -> None:
    pairs = [(one,) for one in CALLS] + [("tool_calls", one) for one in [*CALLS][1:]]
    for spellings, result in product(pairs, RESULTS):
        context = refold.open("t", store="memory:", model=model)
        context.append({"role": "user", "content": "Check it"})
        context.append(answer(CONTENT[content], *(CALLS[one] for one in spellings)))
        if RESULTS[result] is None:
            context.append_result("c1", "RESULT")
        else:
            context.append(RESULTS[result])
        assert_sent(context, "a.py", "RESULT")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("content", CONTENT)
def test_a_call_of_the_old_kind_and_its_result_are_sent(model: str, content: str) -> None:
    context = refold.open("t", store="memory:", model=model)
    context.append({"role": "user", "content": "Check it"})
    legacy = {"function_call": {"name": "read", "arguments": json.dumps(ARGUMENTS)}}
    context.append(answer(CONTENT[content], legacy))
    context.append({"role": "function", "name": "read", "content": "RESULT"})
    assert_sent(context, "a.py", "RESULT")


@pytest.mark.parametrize("model", MODELS)
def test_a_mixed_answer_in_a_chat_completion_keeps_its_calls(model: str) -> None:
    context = refold.open("t", store="memory:", model=model)
    context.append({"role": "user", "content": "Check it"})
    message = answer(CONTENT["thinking"], CALLS["tool_use"])
    context.record({"id": "r", "choices": [{"index": 0, "message": message}]})
    context.append_result("c1", "RESULT")
    assert_sent(context, "a.py", "RESULT")


def test_different_calls_in_two_spellings_are_both_kept() -> None:
    other = {**CHAT, "id": "c2", "function": {"name": "read", "arguments": '{"path": "b.py"}'}}
    context = refold.open("t", store="memory:", model="claude-opus-4-6")
    context.append({"role": "user", "content": "Check it"})
    context.append(answer(CONTENT["text"], CALLS["tool_use"], {"tool_calls": [other]}))
    context.append_result("c1", "RESULT")
    context.append_result("c2", "OTHER")
    assert_sent(context, "a.py", "RESULT", "b.py", "OTHER")
