"""A whole conversation with the Responses API: record, answer, compact by every strategy; every
request is valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold import Config
from refold.dialects import openai_responses as responses
from refold.strategies.registry import BUILT_IN
from tests.dialects.responses_shapes import RESPONSE, function_call, message, reasoning, response
from tests.dialects.test_reply import Model

TOOL = {"name": "read", "input_schema": {"type": "object", "properties": {}}}
CONFIG = Config(dialect="openai_responses", keep_recent=3)
SHOT = {"type": "computer_screenshot", "image_url": "data:image/png;base64," + "QUJD" * 200}


def opened(config: Config = CONFIG, **given: Any) -> refold.Context:
    return refold.open(
        "work",
        store="memory:",
        model="gpt-5",
        config=config,
        system="Be brief.",
        tools=[TOOL],
        **given,
    )


def said(n: int) -> dict[str, Any]:
    """A response with reasoning, words, and three parallel calls of different kinds."""
    custom = {
        "type": "custom_tool_call",
        "id": f"ctc_{n}",
        "call_id": f"b{n}",
        "name": "run",
        "input": "ls -l",
    }
    computer = {
        "type": "computer_call",
        "id": f"cu_{n}",
        "call_id": f"c{n}",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [],
        "status": "completed",
    }
    calls = (function_call(n, f"a{n}", json.dumps({"path": f"file{n}.py"})), custom, computer)
    return response(n, reasoning(n), message(n, f"Reading file{n}.py."), *calls, tokens=1_000 + n)


def grow(context: refold.Context, first: int, last: int, **changed: Any) -> None:
    """Turns of a question, calls, their results, and an answer; with what is changed in the
    responses."""
    for n in range(first, last + 1):
        done = response(
            100 + n, reasoning(100 + n), message(100 + n, f"file{n}.py is fine."), tokens=3_000
        )
        context.append({"role": "user", "content": f"step {n}: look at file{n}.py"})
        context.request()
        context.record({**said(n), **changed})
        read, run, shot = refold.tool_calls(said(n))
        context.append_result(read.id, f"the content of file{n}.py\n" * 60)
        context.append_result(run.id, "total 3\n" * 50)
        context.append({"type": "computer_call_output", "call_id": shot.id, "output": SHOT})
        context.request()
        context.record({**done, **changed})


def sound(context: refold.Context) -> dict[str, Any]:
    request = context.request()
    assert responses.check({**request, "store": False}) == []
    return request


def test_what_was_recorded_goes_back_as_it_came() -> None:
    with opened() as context:
        grow(context, 1, 2)
        request = sound(context)
    assert set(request) == {"input", "instructions", "model", "tools"}
    user, *rest = request["input"]
    assert user == {"role": "user", "content": "step 1: look at file1.py"}
    assert rest[:5] == said(1)["output"]
    assert [item["type"] for item in rest[5:8]] == [
        "function_call_output",
        "custom_tool_call_output",
        "computer_call_output",
    ]
    assert rest[7]["output"] == SHOT


@pytest.mark.parametrize("strategy", [*BUILT_IN, ""])
def test_every_strategy_leaves_a_request_that_the_provider_takes(
    strategy: str,
) -> None:  # X-24, Y-43
    with opened() as context:
        grow(context, 1, 8)
        before = sound(context)
        names = (strategy,) if strategy else ()
        settings = {"max_tokens": 1_500} if strategy in ("importance", "relevance") else {}
        context.compact(*names, target=1_500, task="file3.py", **settings)
        sound(context)
        grow(context, 20, 21)
        sound(context)
        context.undo()
        assert sound(context)["instructions"] == before["instructions"]


def test_the_window_is_kept_over_a_long_conversation() -> None:
    with opened(window=8_000) as context:
        for n in range(1, 40):
            grow(context, n, n, usage=None)
            sound(context)
            assert context.stats().current <= 8_000
        assert any(batch for _, batch in context.view.undoable), "it was compacted by itself"


def test_the_front_of_the_input_stays_byte_for_byte() -> None:
    with opened() as context:
        grow(context, 1, 2)
        before = sound(context)["input"]
        grow(context, 3, 3)
        assert json.dumps(sound(context)["input"][: len(before)]) == json.dumps(before)


def test_usage_is_the_anchor_and_recording_again_changes_nothing() -> None:
    with opened() as context:
        context.append({"role": "user", "content": "hello there " * 200})
        context.request()
        context.record(Model(RESPONSE))
        assert context.record(RESPONSE) == []
        assert (context.view.totals.input, context.view.totals.cache_read) == (600, 580)
        assert context.view.anchor is not None


def test_openai_models_are_called_in_chat_until_the_dialect_is_named() -> None:
    with opened(Config()) as context:
        context.append({"role": "user", "content": "hi"})
        context.record(response(1, reasoning(1), message(1, "Hello.")))
        assert "messages" in context.request()
        assert context.request("openai_responses")["input"][1:] == [
            reasoning(1),
            message(1, "Hello."),
        ]


def test_an_unknown_model_is_called_as_it_last_replied() -> None:
    with refold.open("work", store="memory:", model="house/model", window=50_000) as context:
        context.append({"role": "user", "content": "hi"})
        context.record(response(1, message(1, "Hello.")))
        assert "input" in context.request()


def test_a_call_that_nobody_answered_gets_a_result_that_says_so() -> None:
    with opened() as context:
        context.append({"role": "user", "content": "hi"})
        context.record(said(1))
        context.append({"role": "user", "content": "never mind"})
        outputs = [
            item for item in sound(context)["input"] if item.get("type", "").endswith("_output")
        ]
    assert [item["output"] for item in outputs] == ["[no result recorded]"] * 3
    assert [item["type"] for item in outputs] == [
        "function_call_output",
        "custom_tool_call_output",
        "function_call_output",
    ]


def test_changing_a_request_changes_no_later_one() -> None:
    with opened() as context:
        grow(context, 1, 2)
        before = json.dumps(context.request())
        request = context.request()
        for item in request["input"]:
            item.clear()
        assert json.dumps(context.request()) == before
