"""Signed thinking of every shape obeys the same laws, and reasoning stays with what follows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold import dialects


def reply(n: int, **more: Any) -> dict[str, Any]:
    call = {"id": f"t{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    message = {"role": "assistant", "content": "step", "tool_calls": [call], **more}
    return {"id": f"x{n}", "object": "chat.completion", "choices": [{"message": message}]}


SHAPES = {
    "thinking_blocks": lambda n: {"type": "thinking", "thinking": f"t{n}", "signature": f"s{n}"},
    "reasoning_details": lambda n: {
        "type": "reasoning.text",
        "text": f"t{n}",
        "signature": f"s{n}",
        "index": 0,
    },
}


@pytest.mark.parametrize("key", SHAPES)
def test_signed_thinking_does_not_outlive_a_compaction(key: str) -> None:
    context = refold.open(
        "x",
        store="memory:",
        model="claude-opus-5-5",
        window=20_000,
        embedder=False,
        config={"dialect": "openai_chat"},
    )
    context.append({"role": "user", "content": "begin"})
    for n in range(30):
        context.record(reply(n, reasoning_content=f"t{n}", **{key: [SHAPES[key](n)]}))
        context.append_result(f"t{n}", "".join(f"line {k} of {n}\n" for k in range(300)))
        sent = context.request()["messages"]
    assert context.view.undoable
    for message in sent:
        assert bool(message.get(key)) == bool(message.get("reasoning_content"))
    assert sum(key in message for message in sent) < len(sent) / 2


@pytest.mark.parametrize("key", SHAPES)
def test_signed_thinking_comes_back_as_it_came(key: str) -> None:
    message = reply(1, **{key: [SHAPES[key](1), {"type": "redacted_thinking", "data": "eA"}]})
    wire = message["choices"][0]["message"]
    [kept] = dialects.parse(wire)
    assert json.dumps(dialects.dialect("openai_chat").render([kept], [])) == json.dumps([wire])


def test_items_appended_one_by_one_lose_their_ids_with_their_reasoning() -> None:
    context = refold.open(
        "x",
        store="memory:",
        model="gpt-5",
        window=12_000,
        embedder=False,
        config={"dialect": "openai_responses"},
    )
    context.append({"role": "user", "content": "begin"})
    for n in range(25):
        text = {"type": "output_text", "text": f"Reading f{n}.py now.", "annotations": []}
        context.append(
            {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "g"}
        )
        context.append(
            {
                "type": "message",
                "id": f"msg_{n}",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        )
        context.append(
            {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"c{n}",
                "name": "read",
                "arguments": "{}",
            }
        )
        context.append_result(f"c{n}", "".join(f"def f{n}_{k}(x): ...\n" for k in range(100)))
        sent = context.request()["input"]
        assert dialects.dialect("openai_responses").check({"input": sent}) == []
        ids = {item.get("id") for item in sent}
        named = [item["id"] for item in sent if str(item.get("id"))[:2] in ("fc", "ms")]
        assert [id for id in named if f"rs_{id.split('_')[1]}" not in ids] == []
        assert not any("$reasoned" in item for item in sent)
        assert f"fc_{n}" in ids or n, "what stands with its reasoning keeps its id"
    assert context.view.undoable


def test_a_responses_message_with_plain_text_keeps_its_id() -> None:
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": "a",
        "phase": "final_answer",
    }
    for preferred in ("openai_responses", "anthropic", "openai_chat"):
        [kept] = dialects.parse(item, preferred)
        assert dialects.dialect("openai_responses").render([kept], []) == [item]


def test_a_reply_is_a_repeat_only_if_id_and_content_are_the_same() -> None:
    def answer(text: str) -> dict[str, Any]:
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 3}
        return {"id": "chatcmpl-7", "choices": [choice], "usage": usage}

    context = refold.open("x", store="memory:", model="qwen3", embedder=False)
    for text in ("one", "two"):
        context.append({"role": "user", "content": "q"})
        context.request()
        assert len(context.record(answer(text))) == 2
        assert context.record(answer(text)) == []
    said = [message["content"] for message in context.request("openai_chat")["messages"]]
    assert said == ["q", "one", "q", "two"]


REPEATED = {
    "id": "chatcmpl-7",
    "choices": [
        {"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3},
}


@pytest.mark.parametrize("between", ["restore", "clear", "ask", "compact"])
def test_a_reply_that_the_page_does_not_show_as_its_latest_is_no_repeat(between: str) -> None:
    context = refold.open("x", store="memory:", model="qwen3", embedder=False)
    context.append({"role": "user", "content": "q"})
    seq = context.view.head
    context.record(REPEATED)
    match between:
        case "restore":
            context.restore(seq)
        case "clear":
            context.clear()
        case "compact":
            context.append({"role": "user", "content": "more"})
            context.compact("hide", target=0)
        case _:
            context.append({"role": "user", "content": "q"})
    assert len(context.record(REPEATED)) == 2
    assert context.record(REPEATED) == []
    assert context.request("openai_chat")["messages"][-1]["content"] == "done"


ON = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}


def switched() -> refold.Context:
    """Two steps of a tool loop by another model, and then Claude."""
    context = refold.open("x", store="memory:", model="gpt-4o", embedder=False)
    context.append({"role": "user", "content": "begin"})
    for n in range(2):
        context.record(reply(n))
        context.append_result(f"t{n}", f"line {n}")
    context.update(model="claude-sonnet-4-5")
    return context


def test_a_switch_to_claude_with_thinking_in_a_tool_loop_is_valid() -> None:
    context, anthropic = switched(), dialects.dialect("anthropic")
    without = context.request()
    assert "expected thinking" in str(anthropic.check({**without, **ON}))
    request = context.request(**ON)
    assert anthropic.check(request) == []
    assert request["thinking"] == ON["thinking"]
    assert "[I called read with {}]" in str(request) and "line 1" in str(request)
    assert anthropic.check(without) == [] and "tool_use" in str(without)
    off = context.request(thinking={"type": "disabled"})
    assert off["messages"] == without["messages"]


@pytest.mark.parametrize("words", [[], ["and c.py"], ["and c.py", "please"]])
def test_words_after_a_result_leave_a_tool_loop_open(words: list[str]) -> None:
    context, anthropic = switched(), dialects.dialect("anthropic")
    for text in words:
        context.append({"role": "user", "content": text})
    request = context.request(**ON)
    assert anthropic.check(request) == []
    assert "[I called read with {}]" in str(request["messages"])
    assert "expected thinking" in str(anthropic.check({**context.request(), **ON}))


def test_what_claude_does_after_the_switch_stays_as_it_is() -> None:
    context = switched()
    before = context.request(**ON)["messages"]
    thought = {"type": "thinking", "thinking": "t", "signature": "c2ln"}
    call = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    context.append({"role": "assistant", "content": [thought, call]})
    context.append_result("c1", "r")
    request = context.request(**ON)
    assert dialects.dialect("anthropic").check(request) == []
    assert [unmarked(message) for message in request["messages"][: len(before)]] == [
        unmarked(message) for message in before
    ], "thinking is bound to what stood before it"
    assert request["messages"][len(before)]["content"] == [thought, call]


def unmarked(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {"role": message["role"], "content": [{"type": "text", "text": content}]}
    bare = [{key: block[key] for key in block if key != "cache_control"} for block in content]
    return {"role": message["role"], "content": bare}


def test_the_loop_of_a_model_that_thinks_stays_as_it_is() -> None:
    context = refold.open("x", store="memory:", model="claude-sonnet-4-5", embedder=False)
    context.append({"role": "user", "content": "begin"})
    thought = {"type": "thinking", "thinking": "t", "signature": "c2ln"}
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    context.append({"role": "assistant", "content": [thought, call]})
    context.append_result("t1", "r")
    request = context.request(**ON)
    assert request == {**context.request(), **ON, "max_tokens": 8_192 + 1_024}
    assert dialects.dialect("anthropic").check(request) == []


def test_the_image_of_a_result_goes_along_as_an_image() -> None:
    context = refold.open("x", store="memory:", model="claude-sonnet-4-5", embedder=False)
    source = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
    image = {"type": "image", "source": source}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image], "is_error": True}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    context.append({"role": "user", "content": "begin"})
    context.append({"role": "assistant", "content": [call]})
    context.append({"role": "user", "content": [result]})
    [text, shown] = context.request(**ON)["messages"][-1]["content"]
    assert text["text"].startswith("[error]")
    assert (shown["type"], shown["source"]) == ("image", source)


def test_keywords_of_any_shape_are_handed_on() -> None:
    context = switched()
    for given in ({"messages": None}, {"messages": []}, {"messages": "x"}, {"messages": [1]}):
        assert context.request(**ON, **given)["messages"] == given["messages"]


def test_cache_marks_keep_their_time_to_live() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    system = [{"type": "text", "text": "s", "cache_control": mark}]
    context = refold.open(
        "x", store="memory:", model="claude-sonnet-4-5", embedder=False, system=system
    )
    context.append({"role": "user", "content": "q"})
    request = context.request()
    assert request["system"][-1]["cache_control"] == mark
    assert request["messages"][-1]["content"][-1]["cache_control"] == mark


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-opus-5-5", "gpt-5", None])
@pytest.mark.parametrize("calls", [1, 3])
def test_calls_beside_thinking_in_the_content_keep_their_results(model, calls):
    """LangChain's messages in OpenAI's form have the content of Anthropic's models as it came."""
    ids = [f"c{n}" for n in range(calls)]
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    named = {"name": "read", "arguments": "{}"}
    answer = {
        "role": "assistant",
        "content": [thinking, {"type": "text", "text": "x"}],
        "tool_calls": [{"id": id, "type": "function", "function": named} for id in ids],
    }
    results = [{"role": "tool", "tool_call_id": id, "content": "a line"} for id in ids]
    with refold.open("x", store="memory:", model=model) as context:
        context.mirror([{"role": "user", "content": "go"}, answer, *results])
        request = context.request("openai_chat")
    assert [m.get("tool_call_id") for m in request["messages"][2:]] == ids
    assert [call["id"] for call in request["messages"][1]["tool_calls"]] == ids
