"""What a provider adds around the texts of a request."""

from __future__ import annotations

import pytest

from refold.core.model import Media, Message, Text, ToolCall, ToolResult
from refold.tokens.counter import PLAIN, count_message, count_system, count_tools, counter_for

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
