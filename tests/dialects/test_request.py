"""The keyword arguments of a call: system prompt and tools in any shape, cache marks on copies,
at most four."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import refold
from refold.dialects import anthropic, openai_chat
from refold.errors import Invalid

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
CLAUDE_TOOL = {"name": "read", "description": "Reads a file", "input_schema": SCHEMA}
OPENAI_TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Reads a file", "parameters": SCHEMA},
}
EPHEMERAL = {"type": "ephemeral"}
MARKED = {"type": "text", "text": "a", "cache_control": EPHEMERAL}
U: dict[str, Any] = {"role": "user", "content": "hi"}


def openai(system: Any = None, tools: Any = None, lost: list[str] | None = None) -> dict[str, Any]:
    return openai_chat.request(
        [U], system=system, tools=tools, marks=[0], lost=lost if lost is not None else []
    )


def claude(
    system: Any = None,
    tools: Any = None,
    marks: Any = (),
    lost: list[str] | None = None,
    messages: Any = None,
) -> Any:
    given = messages or [U]
    return anthropic.request(
        given, system=system, tools=tools, marks=marks, lost=lost if lost is not None else []
    )


@pytest.mark.parametrize(
    ("system", "messages"),
    [
        (None, []),
        ("", []),
        ([], []),
        ("be brief", [{"role": "system", "content": "be brief"}]),
        ([MARKED], [{"role": "system", "content": "a"}]),
        (["a", "b"], [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}]),
        ({"parts": [{"text": "a"}]}, [{"role": "system", "content": "a"}]),
        (
            [{**MARKED, "x": 1}],
            [{"role": "system", "content": [{"type": "text", "text": "a", "x": 1}]}],
        ),
        ({"role": "developer", "content": "a"}, [{"role": "developer", "content": "a"}]),
        (
            [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}],
            [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}],
        ),
    ],
)
def test_the_system_prompt_leads_the_messages_of_openai(system: Any, messages: list[Any]) -> None:
    assert openai(system) == {"messages": [*messages, U]}


@pytest.mark.parametrize(
    ("system", "prompt"),
    [
        ("be brief", "be brief"),
        ([MARKED], [{"type": "text", "text": MARKED["text"]}]),
        ({"role": "system", "content": "a"}, [{"type": "text", "text": "a"}]),
        (
            [{"role": "developer", "content": [{"type": "text", "text": "a"}]}, "b", ""],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
    ],
)
def test_the_system_prompt_stands_beside_the_messages_of_anthropic(
    system: Any, prompt: Any
) -> None:
    assert claude(system) == {"system": prompt, "messages": [U]}


@pytest.mark.parametrize("system", [None, "", " ", [], [{"type": "text", "text": ""}]])
def test_no_system_prompt_is_no_key(system: Any) -> None:
    assert claude(system, marks=[0]).keys() == {"messages"}


@pytest.mark.parametrize("system", [3, [3], {"type": "image"}, [{"role": "system", "content": 3}]])
def test_an_odd_system_prompt_is_refused(system: Any) -> None:
    with pytest.raises(Invalid, match="system prompt"):
        claude(system)


@pytest.mark.parametrize(
    "tool",
    [
        CLAUDE_TOOL,
        OPENAI_TOOL,
        {"type": "function", **CLAUDE_TOOL},
        {**CLAUDE_TOOL, "cache_control": EPHEMERAL},
    ],
)
def test_tools_are_translated_from_either_shape(tool: dict[str, Any]) -> None:
    before = copy.deepcopy(tool)
    assert openai(tools=[tool])["tools"] == [OPENAI_TOOL]
    made = claude(tools=[tool], marks=[0])["tools"][0]
    assert {key: made[key] for key in CLAUDE_TOOL} == CLAUDE_TOOL
    assert tool == before


def test_simple_tools_without_a_schema_take_anything() -> None:
    nothing = {"type": "object", "properties": {}}
    assert openai(tools=[{"name": "now"}])["tools"] == [
        {"type": "function", "function": {"name": "now", "parameters": nothing}}
    ]
    assert claude(tools=[{"name": "now", "parameters": SCHEMA}])["tools"] == [
        {"name": "now", "input_schema": SCHEMA}
    ]


def test_a_providers_own_tools_stay_with_it() -> None:
    memory = {"type": "memory_20250818", "name": "memory"}
    grammar = {"type": "custom", "custom": {"name": "shell"}}
    lost: list[str] = []
    assert claude(tools=[memory, grammar], lost=lost)["tools"] == [memory]
    assert openai(tools=[memory, grammar], lost=lost)["tools"] == [grammar]
    assert lost == [
        "the tool 'shell' of type 'custom' is not sent to anthropic",
        "the tool 'memory' of type 'memory_20250818' is not sent to openai_chat",
    ]


@pytest.mark.parametrize("tool", [3, "read", {"description": "nameless"}])
def test_an_odd_tool_is_refused(tool: Any) -> None:
    for request in (openai, claude):
        with pytest.raises(Invalid, match="tool"):
            request(tools=[tool])


def test_no_tools_is_no_key() -> None:
    assert "tools" not in openai(tools=[]) and "tools" not in claude(tools=None)


# --- cache marks ---


def marked(request: Any) -> int:
    return json.dumps(request).count("cache_control")


def test_at_most_four_marks_newest_first() -> None:
    messages = [{"role": "user", "content": f"m{n}"} for n in range(9)]
    request = claude("s", [CLAUDE_TOOL], marks=[1, 8, 3, 5, 7], messages=messages)
    assert request["system"] == [{"type": "text", "text": "s", "cache_control": EPHEMERAL}]
    assert [n for n, message in enumerate(request["messages"]) if marked(message)] == [5, 7, 8]
    assert marked(request) == 4
    assert anthropic.check(request) == []


def test_without_a_system_prompt_the_tools_end_the_first_prefix() -> None:
    request = claude(tools=[CLAUDE_TOOL, {**CLAUDE_TOOL, "name": "b"}], marks=[0])
    assert [marked(tool) for tool in request["tools"]] == [0, 1]
    assert marked(claude(marks=[0])) == 1


def test_without_marks_nothing_is_marked() -> None:
    assert marked(claude("s", [CLAUDE_TOOL])) == 0


def test_given_marks_give_way_to_ours() -> None:
    system = [{"type": "text", "text": str(n), "cache_control": EPHEMERAL} for n in range(4)]
    tools = [{**CLAUDE_TOOL, "cache_control": EPHEMERAL}]
    assert marked(claude(system, tools, marks=[0])) == 2


def test_thinking_and_empty_text_carry_no_mark() -> None:
    thinking = {"type": "thinking", "thinking": "x", "signature": "s"}
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    messages = [
        U,
        {"role": "assistant", "content": [use, thinking]},
        {"role": "assistant", "content": [thinking]},
    ]
    request = claude(marks=[1, 2], messages=messages)
    assert "cache_control" in request["messages"][1]["content"][0]
    assert marked(request) == 1


def test_marks_are_set_on_copies() -> None:
    messages = [U, {"role": "user", "content": [{"type": "text", "text": "a"}]}]
    system, tools = [{"type": "text", "text": "s"}], [copy.deepcopy(CLAUDE_TOOL)]
    before = copy.deepcopy((messages, system, tools))
    claude(system, tools, marks=[0, 1], messages=messages)
    assert (messages, system, tools) == before


def test_marks_outside_the_list_are_ignored() -> None:
    assert marked(claude("s", marks=[-1, 7])) == 1


def test_openai_has_no_marks() -> None:
    assert marked(openai("s", [CLAUDE_TOOL])) == 0


def test_an_id_that_comes_twice_is_made_distinct_for_anthropic():
    """Servers that count from call_0 in every turn, and calls without ids: two calls of one id
    are refused there."""
    context = refold.open("work", store="memory:", model="claude-sonnet-4-5")
    context.append({"role": "user", "content": "go"})
    for n in range(3):
        called = {
            "id": "call_0",
            "type": "function",
            "function": {"name": "read", "arguments": "{}"},
        }
        context.append({"role": "assistant", "tool_calls": [called]})
        context.append({"role": "tool", "tool_call_id": "call_0", "content": f"text {n}"})
    request = context.request()
    assert anthropic.check(request) == []
    uses = [
        part["id"] for m in request["messages"] for part in m["content"] if m["role"] == "assistant"
    ]
    assert uses == ["call_0", "call_0_2", "call_0_3"] and context.request() == request
    assert context.request("openai_chat")["messages"][-1]["tool_call_id"] == "call_0"
