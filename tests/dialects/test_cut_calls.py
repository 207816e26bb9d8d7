"""Calls that no provider can run: cut off in the middle, or under an id taken already."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


ALMOST = st.text('{}[]":,\\\n0atrue ', max_size=12) | st.sampled_from([WHOLE, "", "null", "NaN"])


@pytest.mark.parametrize("name", DIALECTS)
@settings(deadline=None, max_examples=60)
@given(written=ALMOST)
def test_arguments_are_sent_as_an_object_byte_for_byte_or_under_raw(
    name: str, written: str
) -> None:
    """Servers parse the arguments of earlier calls. The log keeps what the model wrote."""
    context = calling(written)
    context.append_result("c1", "RESULT")
    assert "RESULT" in words(context, name)
    sent = arguments_in(context.request(name))
    try:
        parsed = json.loads(written or "{}", parse_constant=float.fromhex)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and written:
        assert sent == (written if isinstance(sent, str) else parsed)
    else:
        given = {} if not written.strip() else {"_raw": written}
        assert (json.loads(sent) if isinstance(sent, str) else sent) == given
    assert context.view.slots[1].message.blocks[0].arguments == written
    lost = context.request(name, raw=True).lost
    assert any("not a JSON object" in line for line in lost) == ("_raw" in sent)


def arguments_in(request: dict[str, Any]) -> Any:
    """The arguments of the only call, as a request has them."""
    match request:
        case {"messages": [_, {"tool_calls": [call]}, *_]}:
            return call["function"]["arguments"]
        case {"messages": [_, {"content": [*_, call]}, *_]}:
            return call["input"]
        case {"input": items}:
            return next(item["arguments"] for item in items if "arguments" in item)
        case {"contents": [_, {"parts": [*_, call]}, *_]}:
            return call["functionCall"]["args"]
        case _:
            raise AssertionError(request)


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
