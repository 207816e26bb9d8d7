"""Calls that no provider can run: cut off in the middle, or under an id taken already."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold.dialects import DIALECTS, dialect

WHOLE = '{"path": "src/a.py", "lines": [1, 20]}'


def chunks(arguments: str) -> list[dict[str, Any]]:
    """A stream of a Chat Completions call that broke off after these arguments."""
    function = {"name": "read", "arguments": arguments}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return [{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}]


def calling(arguments: str, model: str = "gpt-4o") -> refold.Context:
    """A conversation with a finished call of these arguments."""
    context = refold.open("t", store="memory:", model=model)
    context.append({"role": "user", "content": "Read it"})
    function = {"name": "read", "arguments": arguments}
    calls = [{"id": "c1", "type": "function", "function": function}]
    context.append({"role": "assistant", "content": None, "tool_calls": calls})
    return context


def words(context: refold.Context, name: str) -> str:
    """The messages of a request and of the page, which are the same, as JSON."""
    request = context.request(name)
    assert dialect(name).check(request) == [], request
    messages = request.get("messages") or request.get("input") or request["contents"]
    page = json.dumps([one.message for one in context.page(name)])
    assert ("[no result recorded]" in page) == ("[no result recorded]" in json.dumps(messages))
    return json.dumps(messages)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_that_was_cut_off_is_sent_as_a_text(name: str) -> None:
    for length in range(len(WHOLE)):
        context = refold.open("t", store="memory:", model="gpt-4o")
        context.append({"role": "user", "content": "Read it"})
        assert list(context.stream(iter(chunks(WHOLE[:length]))))
        context.append({"role": "user", "content": "The stream was cut; again"})
        sent = words(context, name)
        assert "[no result recorded]" not in sent
        assert "_raw" not in sent
        assert "incomplete call: read(" in sent


@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_that_was_complete_when_the_stream_broke_is_a_call(name: str) -> None:
    context = refold.open("t", store="memory:", model="gpt-4o")
    context.append({"role": "user", "content": "Read it"})
    assert list(context.stream(iter(chunks(WHOLE))))
    context.append_result("c1", "RESULT")
    sent = words(context, name)
    assert "incomplete" not in sent
    assert "RESULT" in sent


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("arguments", ["{path: a.py}", '{"path": "a', "a.py", "[1]", '"a"'])
def test_arguments_that_are_not_json_keep_their_result(name: str, arguments: str) -> None:
    context = calling(arguments)
    context.append_result("c1", "RESULT")
    assert "RESULT" in words(context, name)


@pytest.mark.parametrize("name", DIALECTS)
def test_two_calls_of_one_id_are_both_sent(name: str) -> None:
    context = refold.open("t", store="memory:", model="gpt-4o")
    context.append({"role": "user", "content": "Read them"})
    calls = [
        {"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
        for arguments in ('{"path": "first"}', '{"path": "second"}')
    ]
    context.append({"role": "assistant", "content": None, "tool_calls": calls})
    context.append({"role": "tool", "tool_call_id": "c", "content": "ONE"})
    context.append({"role": "tool", "tool_call_id": "c", "content": "TWO"})
    sent = words(context, name)
    assert all(word in sent for word in ("first", "second", "ONE", "TWO"))
