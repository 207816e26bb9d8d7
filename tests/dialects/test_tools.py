"""Tool definitions of every shape, in the shape that each provider takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.model import Message, Text
from refold.dialects import DIALECTS, dialect
from refold.errors import Invalid

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
SHAPES: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "read", "description": "Reads.", "input_schema": SCHEMA},
    "openai_chat": {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA},
    },
    "openai_responses": {
        "type": "function",
        "strict": False,
        "name": "read",
        "description": "Reads.",
        "parameters": SCHEMA,
    },
    "gemini": {
        "functionDeclarations": [
            {"name": "read", "description": "Reads.", "parametersJsonSchema": SCHEMA}
        ]
    },
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_function_of_every_shape_is_defined_for_every_provider(name: str, shape: str) -> None:
    lost: list[str] = []
    [made] = dialect(name).definitions([SHAPES[shape]], lost)
    wanted = SHAPES[name]
    if name != "openai_responses" and shape == "openai_responses":
        made = _without_strict(made)
    assert made == wanted
    assert lost == []


def _without_strict(tool: dict[str, Any]) -> dict[str, Any]:
    """Only one provider says that a tool is not strict, and the others are told so."""
    inner = tool.get("function", tool)
    plain = {key: value for key, value in inner.items() if key != "strict"}
    return {**tool, "function": plain} if "function" in tool else plain


@pytest.mark.parametrize("name", DIALECTS)
def test_the_definitions_are_those_of_the_request(name: str) -> None:
    tools = list(SHAPES.values())
    messages = [{"role": "user", "parts": [], "content": "hi"}]
    request = dialect(name).request(messages, system=None, tools=tools, marks=(), lost=[])
    sent = request.get("config", request)["tools"]
    assert sent == dialect(name).definitions(tools, [])


@pytest.mark.parametrize("name", DIALECTS)
def test_what_only_its_own_provider_runs_is_left_out_and_reported(name: str) -> None:
    lost: list[str] = []
    tools = [{"type": "memory_20250818", "name": "memory"}, {"googleSearch": {}}]
    made = dialect(name).definitions(tools, lost)
    own = {"anthropic": tools[:1], "gemini": tools[1:]}.get(name, [])
    assert made == own
    assert len(lost) == 2 - len(own)


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "gemini"])
def test_a_tool_that_is_left_out_without_a_name_is_reported_in_plain_words(name: str) -> None:
    lost: list[str] = []
    assert dialect(name).definitions([{"type": 5}], lost) == []
    assert lost == [f"the tool None of type 5 is not sent to {name}"]


NAME_PARTS = st.sampled_from([*"aZ_-9.:/ <é\n", "x" * 64, "x" * 70])


@given(st.lists(NAME_PARTS, max_size=4).map("".join))
def test_a_tool_name_is_refused_exactly_if_no_provider_takes_it(tool: str) -> None:
    defined = {"name": tool, "input_schema": {"type": "object"}}
    is_taken = False
    for name in DIALECTS if tool else ():
        reader = dialect(name)
        messages = reader.render([Message(role="user", blocks=(Text("q"),))], [])
        request = reader.request(messages, system=None, tools=[defined], marks=(), lost=[])
        is_taken = is_taken or reader.check(request) == []
    context = refold.open("x", store="memory:", embedder=False)
    if is_taken:
        context.update(tools=[defined])
    else:
        with pytest.raises(Invalid, match="the name of a tool is"):
            context.update(tools=[defined])
