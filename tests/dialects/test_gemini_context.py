"""A whole loop with Gemini on a real Context: every request valid by its validator, through
every strategy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core import codec
from refold.core.laws import OPENING
from refold.core.model import NATIVE
from refold.dialects import DIALECTS, dialect, dialect_of, gemini, parse, tool_calls
from refold.errors import Invalid
from refold.strategies.registry import BUILT_IN
from tests.dialects.test_fuzz import anything
from tests.dialects.test_gemini_check import contents
from tests.dialects.test_reply import Attributes, Model

LINE = "a line of output that is long enough to count for something\n"
TOOLS = [
    {
        "name": "read",
        "description": "Reads a file",
        "input_schema": {"type": "object", "properties": {}},
    }
]


def opened(**given: Any) -> refold.Context:
    context = refold.open(
        "x",
        store="memory:",
        system="You fix tests",
        tools=TOOLS,
        **{"model": "gemini-2.5-pro", "window": 24_000, **given},
    )
    context.append({"role": "user", "parts": [{"text": "Fix the login test. The port is 8443."}]})
    return context


def response(n: int, *, calls: int = 2, ids: bool = False, prompt: int = 100) -> dict[str, Any]:
    """What the API answers: parts before the role, a thought, calls of the same tool, the first
    one signed."""
    parts: list[dict[str, Any]] = [{"text": f"Thought {n}", "thought": True}, {"text": f"Step {n}"}]
    for index in range(calls):
        call = {"name": "read", "args": {"path": f"src/{n}_{index}.py"}} | (
            {"id": f"c{n}-{index}"} if ids else {}
        )
        parts.append(
            {"functionCall": call} | ({} if index else {"thoughtSignature": f"c2ln{n:04}"})
        )
    return {
        "candidates": [
            {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": prompt,
            "candidatesTokenCount": 20,
            "totalTokenCount": prompt + 20,
        },
        "modelVersion": "gemini-2.5-pro",
        "responseId": f"r{n}",
    }


def checked(context: refold.Context) -> dict[str, Any]:
    request = context.request()
    assert gemini.check(request) == []
    return request


def thoughtless(request: dict[str, Any]) -> list[Any]:
    """The contents without thoughts, which are not sent again once the page before them has
    changed."""
    return [
        [part for part in content["parts"] if not part.get("thought")]
        for content in request["contents"]
    ]


def worked(context: refold.Context, turns: int, size: int = 20, *, ids: bool = False) -> None:
    for n in range(turns):
        answer = response(n, ids=ids, prompt=context.stats().current) | {
            "responseId": f"r{context.view.head}"
        }
        context.record(answer)
        for call in reversed(refold.tool_calls(answer)):
            context.append_result(call.id, f"{call.arguments['path']}\n" + LINE * size)  # type: ignore[index]
        checked(context)


def test_the_loop_of_the_readme_works_with_calls_that_have_no_ids() -> None:
    context = opened()
    request = checked(context)
    assert request["config"]["system_instruction"] == {"parts": [{"text": "You fix tests"}]}
    assert request["config"]["tools"][0]["functionDeclarations"][0]["name"] == "read"
    answer = response(1)
    context.record(answer)
    assert context.record(answer) == []
    first, second = refold.tool_calls(answer)
    assert first.id != second.id
    context.append_result(second.id, "B")
    context.append_result(first.id, "A", is_error=True)
    asked, said = checked(context)["contents"][1:]
    assert json.dumps(asked) == json.dumps(answer["candidates"][0]["content"])
    assert [part["functionResponse"] for part in said["parts"]] == [
        {"name": "read", "response": {"error": "A"}},
        {"name": "read", "response": {"output": "B"}},
    ]


def test_results_in_the_providers_own_shape_find_their_calls() -> None:
    context = opened()
    for n in range(3):  # the same ids in every turn: each result answers the newest call
        context.record(response(n))
        context.append(
            {
                "role": "user",
                "parts": [
                    {"function_response": {"name": "read", "response": {"result": f"{n}{i}"}}}
                    for i in "ab"
                ],
            }
        )
    said = [
        content
        for content in checked(context)["contents"]
        if "function_response" in json.dumps(content)
    ]
    assert [
        part["function_response"]["response"]["result"]
        for content in said
        for part in content["parts"]
    ] == [
        "0a",
        "0b",
        "1a",
        "1b",
        "2a",
        "2b",
    ]
    assert context.request(raw=True).repairs == ()


@pytest.mark.parametrize("wrap", [Model, Attributes])
def test_the_sdks_objects_are_recorded_as_well(wrap: Any) -> None:
    context = opened()
    answer = wrap(response(1))
    context.record(answer)
    for call in refold.tool_calls(answer):
        context.append_result(call.id, "ok")
    assert "c2ln0001" in json.dumps(checked(context))


@pytest.mark.parametrize("ids", [False, True])
def test_a_long_loop_stays_valid_and_keeps_every_signature_on_the_page(ids: bool) -> None:
    """X-24, P8, P9: compaction inside one turn takes steps away whole."""
    context = opened()
    worked(context, 40, ids=ids)
    assert context.stats().summaries
    request = checked(context)
    assert "8443" in json.dumps(request)
    for content in request["contents"]:
        called = [part for part in content["parts"] if "functionCall" in part]
        assert not called or called[0]["thoughtSignature"].startswith("c2ln")


# Gemini writes no compactions itself.
@pytest.mark.parametrize("strategy", [*(name for name in BUILT_IN if name != NATIVE), None])
def test_every_strategy_leaves_a_valid_request_and_can_be_undone(strategy: str | None) -> None:
    context = opened(window=200_000)
    worked(context, 8)
    worked(context, 4)  # the same files once more, so that there is something to deduplicate
    context.append({"role": "user", "parts": [{"text": "And now the logout test"}]})
    context.record(response(9, calls=0, prompt=context.stats().current))
    context.append({"role": "user", "parts": [{"text": "Go on"}]})
    before = thoughtless(checked(context))
    settings = {
        "relevance": {"max_tokens": 2_000},
        "keep": {"min_tokens": 20, "head": 2, "tail": 2},
    }
    named = (strategy,) if strategy else ()
    assert context.compact(
        *named, target=1_000, task="login", **settings.get(strategy or "", {})
    ).batch
    after = checked(context)
    assert thoughtless(after) != before
    assert after["contents"][-1]["parts"][-1] == {"text": "Go on"}
    context.undo()
    assert thoughtless(checked(context)) == before


def test_what_stands_before_any_user_gets_an_opening() -> None:
    context = refold.open("x", store="memory:", model="gemini-2.5-pro")
    context.append({"role": "model", "parts": [{"text": "hello"}]})
    context.append({"role": "user", "parts": [{"text": "hi"}]})
    assert checked(context)["contents"][0] == {"role": "user", "parts": [{"text": OPENING}]}


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    context = opened()
    context.record(response(1))
    context.append({"role": "user", "content": "never mind"})
    contents_ = checked(context)["contents"]
    assert [part["functionResponse"]["name"] for part in contents_[2]["parts"]] == ["read", "read"]
    assert contents_[3] == {"role": "user", "parts": [{"text": "never mind"}]}


def test_a_conversation_moves_to_another_provider_and_back() -> None:
    """X-04: in the middle of a tool loop, too."""
    context = opened(window=100_000)
    worked(context, 2, ids=True)
    for name in ("anthropic", "openai_chat"):
        assert dialect(name).check(context.request(name)) == []
    function = {"name": "read", "arguments": '{"path": "b.py"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append({"role": "tool", "tool_call_id": "call_1", "content": "B"})
    checked(context)


def test_what_was_handed_out_can_be_changed_without_harm() -> None:
    context = opened()
    worked(context, 2)
    before = json.dumps(checked(context))
    for content in context.request()["contents"]:
        content["parts"].append({"text": "spoiled"})
        content["parts"][0]["text"] = "spoiled"
    assert json.dumps(checked(context)) == before


def test_usage_counts_the_cache_once_and_prices_thoughts() -> None:
    usage = {
        "promptTokenCount": 600,
        "cachedContentTokenCount": 580,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 5,
        "totalTokenCount": 655,
    }
    context = opened()
    context.append({"role": "user", "content": "hello there " * 200})
    context.request()
    context.record({**response(1, calls=0), "usageMetadata": usage})
    billed = context.stats().billed
    assert (billed.input, billed.output, billed.cache_read, billed.reasoning) == (605, 50, 580, 30)
    assert billed.cost == pytest.approx((25 * 1.25 + 580 * 0.125 + 50 * 10) / 1e6)


@pytest.mark.parametrize(
    ("given", "finished"),
    [
        (
            {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]},
            "MAX_TOKENS",
        ),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "SAFETY"),
        (
            {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}},
            "SAFETY",
        ),
        ({"candidates": None, "prompt_feedback": {"block_reason": "OTHER"}}, "OTHER"),
        ({"candidates": []}, ""),
    ],
)
def test_a_response_that_says_nothing_is_recorded_all_the_same(
    given: dict[str, Any], finished: str
) -> None:
    reply = gemini.reply(given)
    assert (reply.message.blocks, reply.message.role, reply.finished) == ((), "assistant", finished)
    context = opened()
    context.record(given)
    context.append({"role": "user", "content": "again"})
    checked(context)


@settings(deadline=None, max_examples=150)
@given(contents | anything)
def test_anything_is_parsed_or_refused_in_words(value: Any) -> None:
    for door in (parse, tool_calls, gemini.parse, gemini.reply):
        try:
            door(value)
        except Invalid as error:
            assert error.hint
    try:
        [message] = gemini.parse(value)
    except Invalid:
        return
    codec.encode(message)
    before = json.dumps([dialect(name).render([message], []) for name in DIALECTS])
    assert json.dumps([dialect(name).render([message], []) for name in DIALECTS]) == before
    assert isinstance(value, dict) and dialect_of(value) in (*DIALECTS, None)


def test_a_native_result_without_an_id_answers_the_call_that_has_one():
    """Gemini 3 gives calls ids, its SDK makes responses without: they are matched by name and
    order."""
    context = refold.open("work", store="memory:", model="gemini-2.5-pro")
    context.append({"role": "user", "parts": [{"text": "read both"}]})
    calls = [{"functionCall": {"id": f"id{n}", "name": "read", "args": {"n": n}}} for n in (1, 2)]
    context.append({"role": "model", "parts": calls})
    answers = [
        {"functionResponse": {"name": "read", "response": {"output": f"text {n}"}}} for n in (1, 2)
    ]
    context.append({"role": "user", "parts": answers})
    request = context.request()
    assert gemini.check(request) == []
    assert "no result recorded" not in str(request) and "text 2" in str(request["contents"][-1])


OPENAI = {
    "id": "r1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}
                    for id in ("c1", "c2")
                ],
            },
        }
    ],
}


def unsigned(calls: int) -> dict[str, Any]:
    """A response of an older model."""
    parts = [{"functionCall": {"name": "read", "args": {"n": n}}} for n in range(calls)]
    return {"candidates": [{"content": {"parts": parts, "role": "model"}}]}


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([OPENAI, unsigned(1), unsigned(3)]), min_size=1, max_size=4),
    st.sampled_from(["gemini-3-pro-preview", "models/gemini-3.1-flash", "GEMINI-4"]),
    st.booleans(),
)
def test_a_loop_of_older_models_is_signed_for_one_that_demands_it(
    replies: list[dict[str, Any]], model: str, is_updated: bool
) -> None:
    context = opened(model="gemini-2.5-flash")
    for reply in replies:
        context.record(reply)
        for call in tool_calls(reply):
            context.append_result(call.id, LINE)
    is_signed = "thoughtSignature" in json.dumps(context.request("gemini"))
    assert is_signed == (OPENAI in replies)  # a call as it came stays so
    if is_updated:
        context.update(model=model)
    request = context.request("gemini", **({} if is_updated else {"model": model}))
    assert request["model"] == model
    assert gemini.check(request) == []
    assert [one.message for one in context.page("gemini")] == request["contents"]


def test_a_check_demands_signatures_of_the_models_that_do() -> None:
    context = opened(model="gemini-2.5-flash")
    context.record(unsigned(1))
    context.append_result("gemini:read:1", LINE)
    request = context.request()
    assert gemini.check(request) == []
    [fault] = gemini.check({**request, "model": "gemini-3-pro-preview"})
    assert "thoughtSignature" in fault
