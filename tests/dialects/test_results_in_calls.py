"""A result that came inside its call (the simple shape) is the tool's message behind it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.model import ToolResult
from refold.dialects import DIALECTS, dialect
from refold.errors import Invalid

WRAPPED = {"type": "function", "function": {"name": "read", "arguments": "{}"}}
SIMPLE = {"name": "read", "arguments": {"path": "a.py"}}


def answer(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def opened() -> refold.Context:
    context = refold.open("x", store="memory:", embedder=False)
    context.append({"role": "user", "content": "begin"})
    return context


@pytest.mark.parametrize("shape", [SIMPLE, WRAPPED], ids=["simple", "wrapped"])
@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_result_inside_its_call_is_shown_and_found(shape: dict[str, Any], name: str) -> None:
    """M-02"""
    context = opened()
    context.append(answer({"id": "c1", **shape, "result": "NEEDLE"}, {"id": "c2", **shape}))
    context.append({"role": "tool", "tool_call_id": "c2", "content": "second"})
    context.append({"role": "user", "content": "more"})
    request = context.request(name)
    assert str(request).count("NEEDLE") == 1 and dialect(name).check(request) == []
    assert "'result': 'NEEDLE'" not in str(request) or name == "gemini"
    assert [hit.seq for hit in context.search("NEEDLE")] == [3]


def test_a_reply_with_results_in_its_calls_is_recorded_with_them() -> None:
    context = opened()
    message = answer({"id": "c1", **SIMPLE, "result": {"lines": [1]}})
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    context.record({"id": "r", "object": "chat.completion", "choices": [choice], "usage": usage})
    assert context.request()["messages"][-1] == {
        "role": "tool", "tool_call_id": "c1", "content": '{"lines": [1]}',
    }  # fmt: skip
    bare = opened()
    bare.record(message)
    assert bare.request()["messages"][-1]["content"] == '{"lines": [1]}'


def test_no_result_is_none_and_a_second_one_breaks_nothing() -> None:
    context = opened()
    context.append(answer({"id": "c1", **SIMPLE, "result": None}))
    assert len(context.view.slots) == 2
    context.append({"role": "tool", "tool_call_id": "c1", "content": "late"})
    assert context.request()["messages"][-1]["content"] == "late"
    context.append(answer({"id": "c2", **SIMPLE, "result": "first"}))
    context.append({"role": "tool", "tool_call_id": "c2", "content": "again"})
    assert dialect("openai_chat").check(context.request()) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(result=JSON)
def test_any_result_leaves_a_valid_request(result: Any) -> None:
    context = opened()
    context.append(answer({"id": "c1", **SIMPLE, "result": result}))
    for name in DIALECTS:
        assert dialect(name).check(context.request(name)) == []


def test_metadata_of_an_item_in_a_group_is_kept_and_not_sent() -> None:
    context = opened()
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
    context.append({"input": [reasoning, {**call, "metadata": {"turn": "7"}}]})
    context.append_result("c1", "r")
    request = context.request("openai_responses")
    assert request["input"][1:3] == [reasoning, call]
    assert context.view.slots[1].message.metadata == {"turn": "7"}


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "openai_responses"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_result_that_names_no_call_answers_the_one_that_waits(dialect: str, count: int) -> None:
    """M-02: `{role: "tool", content}`, as a program without ids says it."""
    context = refold.open("x", store="memory:")
    result = {"role": "tool", "content": "stored in artifact://art-7k2"}
    with pytest.raises(Invalid, match="no call is waiting"):
        context.append(result)
    calls = [{"id": f"c{n}", "name": "ls", "arguments": {}} for n in range(count)]
    context.append({"role": "assistant", "content": "", "tool_calls": calls})
    for number in range(count - 1):
        with pytest.raises(Invalid, match=f"one of 'c{number}'"):
            context.append(result)
        context.append_result(f"c{number}", "done")
    context.append(result)
    [block] = context.view.slots[-1].message.blocks
    assert isinstance(block, ToolResult) and block.call == f"c{count - 1}"
    assert "art-7k2" in str(context.request(dialect))
    assert len(context.view.slots) == 1 + count
