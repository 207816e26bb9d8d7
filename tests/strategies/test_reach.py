"""A text on the page names the tool that reads handles only if the model was given it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.config import Config
from refold.core.codec import decode
from refold.core.model import Event, Meta, View
from refold.strategies.brief import Strategy, reach, unfolder
from refold.strategies.clear import clear
from refold.strategies.fit import fit
from refold.strategies.gist import gist
from refold.strategies.hide import hide, is_notice
from refold.strategies.importance import importance
from refold.strategies.summarize import summarize
from refold.strategies.window import window
from tests.strategies.talks import by_chance, climbed, log_of, pages

STRATEGIES: dict[str, tuple[Strategy, dict[str, Any]]] = {
    "clear": (clear, {"keep": 0, "clear_inputs": True}),
    "hide": (hide, {"fraction": 0.5}),
    "window": (window, {"keep": 2}),
    "importance": (importance, {"keep_recent": 1}),
    "summarize": (summarize, {"keep": 2}),
    "gist": (gist, {}),
    "fit": (fit, {}),
}
OTHER = {"name": "unfold", "description": "refold_unfold", "input_schema": {"type": "object"}}
TOOLS = {
    "anthropic": {"name": "refold_unfold", "input_schema": {"type": "object"}},
    "openai": {"type": "function", "function": {"name": "refold_unfold", "parameters": {}}},
    "gemini": {"functionDeclarations": [{"name": "refold_unfold"}]},
}


def page_of(log: list[Event], name: str, tools: list[Any] | None) -> str:
    """What a strategy makes of the page of a model with these tools."""
    strategy, options = STRATEGIES[name]
    config = Config(keep_recent=2)
    return "\n".join(pages(climbed(told(log, tools), strategy, 100, config=config, **options)))


def told(log: list[Event], tools: list[Any] | None) -> list[Event]:
    """The same log; at its end the model gets these tools."""
    return log_of([*map(decode, log), Meta(tools=tools)])


@pytest.mark.parametrize("name", STRATEGIES)
@given(seed=st.integers(0, 10**6), tools=st.sampled_from([None, [], [OTHER]]))
@settings(max_examples=20, deadline=None)
def test_a_model_without_the_tool_is_not_told_to_unfold(
    name: str, seed: int, tools: list[Any] | None
) -> None:
    assert "unfold" not in page_of(by_chance(seed, 5), name, tools)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_model_with_the_tool_is_told_its_name(name: str, tool: dict[str, Any]) -> None:
    page = page_of(by_chance(7, 8), name, [OTHER, tool])
    assert "refold_unfold #" in page
    assert page.count("unfold") == page.count("refold_unfold #")


@pytest.mark.parametrize("tools", [None, [TOOLS["openai"]]])
def test_a_notice_is_known_as_one_with_and_without_the_tool(tools: list[Any] | None) -> None:
    done = climbed(told(by_chance(7, 8), tools), window, keep=2)
    assert sum(map(is_notice, done.state.view().slots)) == 1


def test_the_shortest_form_is_the_handle() -> None:
    with_tool = View(tools=[TOOLS["gemini"]])
    assert reach(View(), "#41", "to read it") == ": #41"
    assert reach(with_tool, "#41", "to read it") == "; refold_unfold #41 to read it"
    assert reach(with_tool, "#41") == "; refold_unfold #41"
    assert unfolder(Meta(tools=[TOOLS["anthropic"]])) == "refold_unfold"
