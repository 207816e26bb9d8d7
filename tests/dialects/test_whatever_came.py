"""Whatever was appended or recorded, in any order and from any provider, and whatever was done to
the page then: every request passes the strict check of its dialect."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.conversations.verifier import page_faults, refusals
from refold.errors import Invalid

IDS = ("a", "b", "call_1")
NAMES = ("read", "run")
SIGNED = {"thoughtSignature": "c2ln"}


def chat_call(id: str, name: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def chat_answer(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = {"role": "assistant", "content": content}
    return {**answer, "tool_calls": list(calls)} if calls else {**answer, "content": "done"}


def use(id: str, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {}}


def used(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "r"}


def thought() -> dict[str, Any]:
    return {"type": "thinking", "thinking": "t", "signature": "c2ln"}


def item_call(id: str, name: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": id, "name": name, "arguments": "{}"}


def item_output(id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": "r"}


def reasoning() -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA"}


def item_said() -> dict[str, Any]:
    part = {"type": "output_text", "text": "done", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**said, "content": [part]}


def part_call(name: str, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}}, **fields}


def part_answer(name: str, **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "r"}, **fields}}


ids, names = st.sampled_from(IDS), st.sampled_from(NAMES)
identity = st.sampled_from([{}, {"id": "a"}, {"id": "b"}])


def listed(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(*parts), min_size=1, max_size=3)


texts = st.sampled_from(["", "x"]).map(lambda text: {"type": "text", "text": text})
blocks = listed(texts, st.builds(use, ids, names), ids.map(used), st.builds(thought))
parts = listed(
    st.just({"text": "x"}), st.just({"text": "x", **SIGNED}), st.just(dict(SIGNED)),
    st.builds(lambda name, signed: part_call(name, **signed), names, st.sampled_from([{}, SIGNED])),
    st.builds(
        lambda name, id: {"functionCall": {"name": name, "args": {}, **id}, **SIGNED},
        names, identity,
    ),
    st.builds(lambda name, id: part_answer(name, **id), names, identity),
)  # fmt: skip
items = listed(
    st.builds(item_call, ids, names), ids.map(item_output), st.builds(reasoning),
    st.builds(item_said), st.just({"role": "user", "content": "q"}),
)  # fmt: skip
roles = st.sampled_from(["user", "assistant", "system"])

MESSAGES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.builds(lambda role, text: {"role": role, "content": text}, roles,
                      st.sampled_from(["q", ""])),
    "chat answer": st.lists(st.builds(chat_call, ids, names), max_size=2).map(
        lambda calls: chat_answer(*calls)),
    "chat result": ids.map(lambda id: {"role": "tool", "tool_call_id": id, "content": "r"}),
    "function result": names.map(
        lambda name: {"role": "function", "name": name, "content": "r"}),
    "function call": names.map(lambda name: {
        "role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}),
    "anthropic": st.builds(lambda role, content: {"role": role, "content": content},
                           st.sampled_from(["user", "assistant"]), blocks),
    "responses": items.map(lambda listed: {"input": listed}),
    "responses item": items.map(lambda listed: listed[0]),
    "gemini": st.builds(lambda role, parts: {"role": role, "parts": parts},
                        st.sampled_from(["user", "model"]), parts),
}  # fmt: skip


def response(kind: str, content: Any, id: str) -> dict[str, Any]:
    """A whole response of a provider that holds what only a caller should send, as well."""
    if kind == "anthropic":
        usage = {"input_tokens": 9, "output_tokens": 1}
        return {"id": id, "type": "message", "role": "assistant", "content": content,
                "model": "m", "stop_reason": "end_turn", "usage": usage}  # fmt: skip
    if kind == "responses":
        return {"id": id, "object": "response", "status": "completed", "output": content}
    return {"candidates": [{"content": {"role": "model", "parts": content}}], "responseId": id}


responses = st.one_of(
    st.builds(response, st.just("anthropic"), blocks, ids),
    st.builds(response, st.just("responses"), items, ids),
    st.builds(response, st.just("gemini"), parts, ids),
)
messages = st.one_of(*MESSAGES.values())
MODELS = ("claude-sonnet-4-5", "gpt-4o", "gemini-2.5-pro", "gemini-3-pro", "somebody/unknown")


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, Any]:
    """Something that is done to a conversation."""
    kind = draw(
        st.sampled_from(["append"] * 8 + ["record"] * 4 + ["clear", "undo", "model", "restore"])
    )
    if kind == "append":
        return kind, copy.deepcopy(draw(messages))
    if kind == "record":
        return kind, copy.deepcopy(draw(messages | responses))
    if kind == "model":
        return kind, draw(st.sampled_from(MODELS))
    return kind, draw(st.integers(0, 3))


def take(context: refold.Context, step: tuple[str, Any]) -> None:
    kind, value = step
    match kind:
        case "append":
            context.append(value)
        case "record":
            context.record(value)
        case "clear":
            context.clear()
        case "undo":
            context.undo()
        case "model":
            context.update(model=value)
        case _:
            context.restore(max(0, context.view.head - value))


THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in dialects.DIALECTS),
    ("anthropic", THINKING),
]


def check_page(context: refold.Context) -> None:
    """Every request that can be made passes; a page with nothing on it is said to be empty."""
    for name, keywords in CALLS:
        try:
            request = context.request(name, **keywords)
        except Invalid as error:
            assert "no message on the page" in str(error)
            continue
        assert dialects.dialect(name).check(request) == [], (name, request)
    assert page_faults(context.view) == []
    assert [fault for name in dialects.DIALECTS for fault in refusals(context.view, name)] == []


@settings(deadline=None, max_examples=400)
@given(st.lists(steps(), min_size=1, max_size=8))
def test_whatever_came_every_request_passes_the_strict_check(taken: list[tuple[str, Any]]) -> None:
    context = refold.open("x", store="memory:", embedder=False)
    for step in taken:
        try:
            take(context, step)
        except Invalid as error:
            assert error.hint
        check_page(context)


# As they were reported.
USER = {"role": "user", "content": "q"}
REPORTED: dict[str, list[tuple[str, Any]]] = {
    "signed and unsigned calls": [
        ("append", USER),
        ("append", {"role": "model", "parts": [part_call("read", **SIGNED)]}),
        ("append", {"role": "user", "parts": [part_answer("read")]}),
        ("append", {"role": "model", "parts": [part_call("run")]}),
        ("append", {"role": "user", "parts": [part_answer("run")]}),
    ],
    "a response under another name": [
        ("append", USER),
        ("append", {"role": "model", "parts": [{"functionCall": {"name": "read", "id": "a"}}]}),
        ("append", {"role": "user", "parts": [part_answer("run", id="a")]}),
    ],
    "an output recorded as a reply": [
        ("append", USER),
        ("record", response("responses", [item_output("a"), item_call("a", "read")], "r1")),
        ("record", response("responses", [item_output("a")], "r2")),
    ],
    "a result recorded as a reply": [
        ("append", USER),
        ("record", response("anthropic", [use("a", "read")], "r1")),
        ("record", response("anthropic", [used("a")], "r2")),
    ],
    "an answer after clear, and a stray function": [
        ("append", USER),
        ("clear", 0),
        ("append", {"role": "function", "name": "read", "content": "r"}),
        ("append", chat_answer()),
    ],
    "nothing but a stray result": [("append", {"role": "user", "content": [used("a")]})],
}


@pytest.mark.parametrize("taken", REPORTED.values(), ids=REPORTED)
def test_what_was_reported_passes_the_strict_check(taken: list[tuple[str, Any]]) -> None:
    context = refold.open("x", store="memory:", embedder=False)
    for step in taken:
        take(context, copy.deepcopy(step))
        check_page(context)


def test_a_result_recorded_as_a_reply_answers_its_call() -> None:
    context = refold.open("x", store="memory:", embedder=False, model="gpt-4o")
    for step in REPORTED["an output recorded as a reply"][:2]:
        take(context, copy.deepcopy(step))
    context.record(response("responses", [item_output("a")], "r2"))
    outputs = [item for item in context.request("openai_responses")["input"] if "output" in item]
    assert [item["output"] for item in outputs] == ["r"]
