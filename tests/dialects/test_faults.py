"""Options that a provider refuses, and options that it accepts, in one table for every dialect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import dialects
from refold.dialects.faults import BOUNDS

Wire = dict[str, Any]
SCHEMA = {"type": "object", "properties": {}}
THINKS = {"type": "enabled", "budget_tokens": 1_024}
PAGES: dict[str, Wire] = {
    "anthropic": {"messages": [{"role": "user", "content": "hi"}]},
    "openai_chat": {"messages": [{"role": "user", "content": "hi"}]},
    "openai_responses": {"input": [{"role": "user", "content": "hi"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
}


def tools(dialect: str, *names: str) -> list[Wire]:
    given = [{"name": name, "parameters": SCHEMA} for name in names]
    return dialects.dialect(dialect).definitions(given, [])


def faults(dialect: str, options: Wire) -> list[str]:
    """The faults of a request with these options; Gemini's are in its config."""
    options = {"config": options} if dialect == "gemini" and options else options
    return dialects.dialect(dialect).check({**PAGES[dialect], **options})


def fixed(mode: str, *names: str) -> Wire:
    allowed = {"allowed_function_names": [*names]} if names else {}
    return {"function_calling_config": {"mode": mode, **allowed}}


REFUSED: list[tuple[str, Wire, str]] = [
    ("anthropic", {"max_tokens": 0}, "max_tokens: 0"),
    ("anthropic", {"max_tokens": True}, "max_tokens: True"),
    ("anthropic", {"temperature": 1.5}, "temperature: 1.5"),
    ("anthropic", {"stop_sequences": [" "]}, "white space"),
    ("anthropic", {"stop_sequences": "END"}, "not texts"),
    ("anthropic", {"thinking": {"type": "enabled"}}, "budget_tokens is None"),
    ("anthropic", {"thinking": {**THINKS, "budget_tokens": 1_023}}, "at least 1024"),
    ("anthropic", {"thinking": THINKS, "max_tokens": 1_024}, "not above the thinking budget"),
    ("anthropic", {"thinking": "on"}, "not of type enabled"),
    ("anthropic", {"thinking": THINKS, "temperature": 0.5}, "while thinking is on"),
    ("anthropic", {"thinking": THINKS, "top_k": 5}, "top_k: set"),
    ("anthropic", {"thinking": THINKS, "top_p": 0.5}, "below 0.95"),
    ("anthropic", {"tool_choice": {"type": "auto"}}, "there are no tools"),
    (
        "anthropic",
        {"tools": tools("anthropic", "a"), "tool_choice": {"type": "tool", "name": "b"}},
        "names no tool",
    ),
    (
        "anthropic",
        {"tools": tools("anthropic", "a"), "tool_choice": {"type": "any"}, "thinking": THINKS},
        "forces a tool while thinking",
    ),
    ("anthropic", {"tools": tools("anthropic", "a"), "tool_choice": "any"}, "tool_choice"),
    ("anthropic", {"context_management": {"edits": [{"type": "x"}]}}, "unknown type"),
    (
        "anthropic",
        {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
        "while it is off",
    ),
    (
        "anthropic",
        {
            "context_management": {
                "edits": [{"type": "compact_20260112", "trigger": {"type": "x", "value": 9}}]
            }
        },
        "at least 50000",
    ),
    (
        "anthropic",
        {"compaction": {"type": "summarize"}, "stop_sequences": ["x"]},
        "not with a compaction",
    ),
    ("openai_chat", {"max_tokens": -1}, "max_tokens: -1"),
    ("openai_chat", {"max_tokens": 5, "max_completion_tokens": 5}, "set beside"),
    ("openai_chat", {"tool_choice": "auto"}, "there are no tools"),
    ("openai_chat", {"parallel_tool_calls": False}, "there are no tools"),
    ("openai_chat", {"tools": tools("openai_chat", "a"), "tool_choice": "b"}, "tool_choice: 'b'"),
    (
        "openai_chat",
        {
            "tools": tools("openai_chat", "a"),
            "tool_choice": {"type": "function", "function": {"name": "b"}},
        },
        "names no tool",
    ),
    ("openai_chat", {"stop": ["a"] * 5}, "at most 4"),
    ("openai_chat", {"messages": [{"role": "user", "content": "x", "name": "A B"}]}, "name is"),
    ("openai_responses", {"max_output_tokens": 15}, "at least 16"),
    (
        "openai_responses",
        {
            "tools": tools("openai_responses", "a"),
            "tool_choice": {"type": "function", "name": "b"},
        },
        "names no tool",
    ),
    ("openai_responses", {"tool_choice": "required"}, "there are no tools"),
    ("openai_responses", {"previous_response_id": "r", "conversation": "c"}, "set beside"),
    ("gemini", {"maxOutputTokens": 0}, "max_output_tokens: 0"),
    ("gemini", {"stop_sequences": ["a"] * 6}, "at most 5"),
    ("gemini", {"tool_config": fixed("ANY")}, "there are no functions"),
    ("gemini", {"tools": tools("gemini", "a"), "tool_config": fixed("ANY", "b")}, "names no tool"),
    ("gemini", {"tools": tools("gemini", "a"), "tool_config": fixed("AUTO", "a")}, "only for"),
]
ACCEPTED: list[tuple[str, Wire]] = [
    ("anthropic", {"max_tokens": 2_048, "thinking": THINKS, "temperature": 1, "top_p": 0.95}),
    ("anthropic", {"max_tokens": 9, "thinking": THINKS, "betas": ["interleaved-thinking-x"]}),
    ("anthropic", {"thinking": {"type": "adaptive"}, "max_tokens": 1}),
    (
        "anthropic",
        {"tools": tools("anthropic", "a"), "tool_choice": {"type": "tool", "name": "a"}},
    ),
    ("openai_chat", {"stop": "END", "temperature": 2, "max_completion_tokens": 1}),
    (
        "openai_chat",
        {
            "tools": tools("openai_chat", "a"),
            "tool_choice": {"type": "function", "function": {"name": "a"}},
        },
    ),
    (
        "openai_responses",
        {
            "tools": tools("openai_responses", "a"),
            "tool_choice": {"type": "function", "name": "a"},
        },
    ),
    ("openai_responses", {"tool_choice": "auto", "max_output_tokens": 16}),
    ("gemini", {"tools": tools("gemini", "a"), "tool_config": fixed("ANY", "a")}),
    ("gemini", {"maxOutputTokens": 1, "temperature": 2.0}),
]


@pytest.mark.parametrize(("dialect", "options", "fault"), REFUSED)
def test_a_refused_option_is_found(dialect: str, options: Wire, fault: str) -> None:
    assert any(fault in found for found in faults(dialect, options))


@pytest.mark.parametrize(("dialect", "options"), ACCEPTED)
def test_an_accepted_option_has_no_fault(dialect: str, options: Wire) -> None:
    assert faults(dialect, options) == []


@given(st.sampled_from([*BOUNDS]), st.lists(st.sampled_from("abcd"), min_size=1, max_size=5))
def test_two_tools_of_one_name_are_a_fault_in_every_dialect(dialect: str, names: list[str]) -> None:
    found = faults(dialect, {"tools": tools(dialect, *names)})
    assert len(found) == len(names) - len(set(names))
    assert all("a second tool called" in fault for fault in found)


@given(
    st.sampled_from([(name, key) for name, bounds in BOUNDS.items() for key in bounds.counts]),
    st.integers(-3, 40) | st.booleans() | st.floats(0, 5) | st.just("5"),
)
def test_a_limit_is_a_whole_number_of_the_documented_size(
    option: tuple[str, str], value: Any
) -> None:
    dialect, key = option
    is_accepted = type(value) is int and value >= BOUNDS[dialect].counts[key]
    assert (faults(dialect, {key: value}) == []) == is_accepted
