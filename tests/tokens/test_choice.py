"""Which counter a conversation gets, and what a provider's framing adds to its counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from refold.core.model import Media, Message, Text, ToolCall, ToolResult
from refold.errors import Invalid
from refold.tokens import exact
from refold.tokens.choice import counter_for, forget_counter, register_counter
from refold.tokens.counter import ESTIMATE, Counter, count_message, count_system, count_tools
from refold.tokens.exact import vocabulary
from refold.tokens.framing import PLAIN
from refold.tokens.models import model_info
from refold.tokens.schemas import DEPTH_MAX, declarations


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "PACKAGE", "no_such_package_at_all")


@pytest.fixture
def registered() -> Iterator[None]:
    register_counter("acme-1", words)
    yield
    forget_counter("ACME-1")


@pytest.mark.parametrize(
    ("given", "model", "name"),
    [
        (None, "gpt-4o", "o200k"),
        (None, "openai/gpt-4-0613", "cl100k"),
        (None, "claude-sonnet-4-5", "estimate"),
        (None, "gemini-2.5-pro", "estimate"),
        (None, None, "estimate"),
        ("estimate", "gpt-4o", "estimate"),
        ("exact", "gpt-4", "cl100k"),
        ("exact", "claude-sonnet-4-5", "o200k"),
        ("exact", "gemini-2.5-pro", "gemma"),
        (" Exact ", None, "o200k"),
        ("cl100k", "gpt-4o", "cl100k"),
        (words, "gpt-4o", "custom:words"),
    ],
)
def test_the_counter_follows_the_caller_then_the_model(
    given: Any, model: str | None, name: str
) -> None:
    """Y-04: exact for OpenAI where the extra is installed; whoever asks gets what he asked for."""
    assert counter_for(given, model).name == name
    assert counter_for(given, model_info(model)) == counter_for(given, model) or callable(given)


@pytest.mark.usefixtures("without_the_extra")
def test_without_the_extra_the_estimate_counts_and_says_so_where_it_was_asked_for() -> None:
    """Y-04: missing optional package → estimator with one warning, no crash."""
    silent, told = counter_for(None, "gpt-4o"), counter_for("exact", "gpt-4o")
    assert (silent.name, silent.note) == ("estimate", "")
    assert told.name == "estimate" and "refold[exact]" in told.note
    assert told("hello world") == ESTIMATE("hello world")


@pytest.mark.usefixtures("registered")
def test_a_counter_registered_for_a_model_is_used() -> None:
    """Y-04: a fake tokenizer plugged in by model name is used."""
    assert counter_for(None, "acme-1-large")("one two three") == 3
    assert counter_for(None, "acme-2").name == "estimate"
    assert counter_for("estimate", "acme-1").name == "estimate"


def test_a_forgotten_counter_is_gone() -> None:
    register_counter("acme-3", words)
    forget_counter("acme-3")
    forget_counter("acme-3")
    assert counter_for(None, "acme-3").name == "estimate"


@pytest.mark.parametrize(
    ("given", "near"), [("exakt", "exact"), ("o200", "o200k"), ("zzz", "estimate")]
)
def test_an_unknown_name_is_refused_with_the_nearest(given: str, near: str) -> None:
    """Bad input: what, and what to do next."""
    with pytest.raises(Invalid, match=given) as caught:
        counter_for(given)
    assert near in caught.value.hint


def test_a_counter_is_taken_as_it_is() -> None:
    """A fork is given the counter of its parent."""
    counter = Counter("mine", words)
    assert counter_for(counter, "gpt-4o") is counter


# --- framing: published figures ---

JARGON = [
    "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
    "New synergies will help drive top-line growth.",
    "Things working well together will increase revenue.",
    "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
    "Let's talk later when we're less busy about how to do better.",
    "This late pivot means we don't have time to boil the ocean for the client deliverable.",
]
WEATHER = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
        "unit": {
            "type": "string",
            "description": "The unit of temperature to return",
            "enum": ["celsius", "fahrenheit"],
        },
    },
    "required": ["location"],
}
ABOUT = "Get the current weather in a given location"
OPENAI_TOOL = {
    "type": "function",
    "function": {"name": "get_current_weather", "description": ABOUT, "parameters": WEATHER},
}
PRIMED = 3  # what opens the reply; every request has it once, and calibration learns it


def said(text: str) -> Message:
    return Message(role="user", blocks=(Text(text),))


@pytest.mark.parametrize(("model", "reported"), [("gpt-4", 129), ("gpt-4o", 124)])
def test_messages_count_what_openai_reports(model: str, reported: int) -> None:
    """Y-02: the example of OpenAI's cookbook. Four of its messages have a name: its tokens, and
    one."""
    count = counter_for("exact", model)
    names = sum(1 + count(name) for name in ("example_user", "example_assistant")) * 2
    assert sum(count_message(said(text), count) for text in JARGON) + names + PRIMED == reported


@pytest.mark.parametrize(("model", "reported"), [("gpt-4", 105), ("gpt-4o", 101)])
def test_tools_count_what_openai_reports(model: str, reported: int) -> None:
    """Y-02, Y-10: the cookbook's example of tools."""
    count = counter_for("exact", model)
    system = "You are a helpful assistant that can answer to questions about the weather."
    asked = count_message(said("What's the weather like in Pittsburgh?"), count)
    assert (
        count_system(system, count) + asked + count_tools([OPENAI_TOOL], count) + PRIMED == reported
    )


def test_tools_of_claude_bring_a_prompt_of_their_own() -> None:
    """Y-10: Anthropic's documentation counts 403 tokens for this request, and 14 for the other."""
    count = counter_for("exact", "claude-sonnet-4-5")
    schema = {
        "type": "object",
        "properties": {"location": WEATHER["properties"]["location"]},
        "required": ["location"],
    }  # type: ignore[index]
    tool = {"name": "get_weather", "description": ABOUT, "input_schema": schema}
    whole = count_tools([tool], count) + count_message(
        said("What's the weather like in San Francisco?"), count
    )
    assert whole == pytest.approx(403, rel=0.03)
    assert count_system("You are a scientist", count) + count_message(
        said("Hello, Claude"), count
    ) == pytest.approx(14, abs=1)
    assert count_tools([], count) == count_tools(None, count) == 0


def test_a_call_and_its_result_cost_their_marks() -> None:
    """Y-02: OpenAI reports 25 tokens for this pair."""
    count = counter_for("exact", "gpt-4")
    call = Message(role="assistant", blocks=(ToolCall("a", "calculator", '{"a":2, "b":2}'),))
    result = Message(role="tool", blocks=(ToolResult("a", (Text("4"),)),))
    assert count_message(call, count) + count_message(result, count) == pytest.approx(25, abs=2)


def test_each_provider_counts_an_image_its_own_way() -> None:
    """Y-02: the counter carries the model's formula."""
    image = Message(
        role="user", blocks=(Media("image", url="https://example.org/a.png", detail="low"),)
    )
    sizes = {
        name: count_message(image, counter_for("estimate", name))
        for name in ("gpt-4o", "o3", "gemini-3-pro")
    }
    assert sizes == {"gpt-4o": 4 + 85, "o3": 4 + 75, "gemini-3-pro": 1 + 280}
    assert counter_for("estimate", "acme-1").framing == PLAIN


# --- tools as text ---


def test_tools_of_every_shape_are_declared() -> None:
    """Y-10: nested objects, lists, choices, none at all, and a provider's own tools."""
    parameters = {
        "type": "object",
        "properties": {
            "paths": {"type": "array", "items": {"type": "string"}},
            "range": {"type": "object", "properties": {"first": {"type": "integer", "default": 1}}},
            "mode": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "kind": {"type": ["string", "null"]},
            "rest": True,
            "open": {"type": "object"},
        },
        "required": ["paths"],
    }
    tools = [
        {"name": "read", "parameters": parameters},
        {"name": "now", "description": "The time.\nIn UTC."},
        {"type": "web_search"},
        "odd",
    ]
    text = declarations(tools)
    for line in (
        "type read = (_: {",
        "paths: string[],",
        "range?: {",
        "first?: number, // default: 1",
        "mode?: string | null,",
        "kind?: string | null,",
        "rest?: any,",
        "open?: object,",
        "// In UTC.",
        "type now = () => any;",
        '{"type":"web_search"}',
        '"odd"',
    ):
        assert line in text, line


def test_a_schema_without_end_is_cut() -> None:
    """Bad input: nesting beyond the limit is counted as JSON, and a schema that contains itself
    ends."""
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"again": schema}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    assert "string" in declarations(
        [{"name": "deep", "parameters": {"type": "object", "properties": {"x": deep}}}]
    )
    text = declarations([{"name": "self", "parameters": schema}])
    assert text.count("again?") == DEPTH_MAX + 1


@pytest.mark.parametrize(
    "tool",
    [None, 7, {"name": 3}, {"function": None}, {"name": "\ud800"}, {"name": "a", "parameters": 1}],
)
def test_no_tool_breaks_the_count(tool: Any) -> None:
    """Bad input: tools come from callers."""
    for model in ("gpt-4o", "claude-sonnet-4-5"):
        assert count_tools([tool], counter_for("estimate", model)) > 0
        assert count_tools([tool], counter_for("exact", model)) > 0
    assert vocabulary("o200k").count(declarations([tool])) > 0
