"""Anthropic's own JSON is a configuration as it stands (Y-31)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import Invalid
from refold.settings.sources import loaded, remarks
from refold.strategies.registry import check_tables

USES = "clear_tool_uses_20250919"
THINKING = "clear_thinking_20251015"
SOURCE = """{"context_management": {"edits": [
  {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
  {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 30000},
   "keep": {"type": "tool_uses", "value": 4}, "clear_at_least": {"type": "input_tokens", "value": 500},
   "exclude_tools": ["web_search"], "clear_tool_inputs": true}]}}"""


def edits(*given: dict[str, Any]) -> dict[str, Any]:
    return {"context_management": {"edits": list(given)}}


def clear_settings(tmp_path: Path, *given: dict[str, Any]) -> dict[str, Any]:
    config, _ = loaded(edits(*given), folder=tmp_path, environ={})
    check_tables(config.strategy)
    return config.strategy.get("clear", {})


def test_the_providers_json_loads_as_it_stands(tmp_path: Path) -> None:
    config, origins = loaded(json.loads(SOURCE), folder=tmp_path, environ={})
    assert config.ladder == ("clear", "dedup", "gist", "hide")
    assert config.strategy["clear"] == {
        "preset": "clear_tool_uses",
        "trigger_tokens": 30_000,
        "keep": 4,
        "clear_at_least": 500,
        "exclude_tools": ("web_search",),
        "clear_inputs": True,
        "thinking": 2,
    }
    assert origins["ladder"] == "arguments"
    check_tables(config.strategy)


def test_what_is_not_given_is_as_the_provider_has_it(tmp_path: Path) -> None:
    usual = {"preset": "clear_tool_uses", "trigger_tokens": 100_000, "keep": 3}
    assert clear_settings(tmp_path, {"type": USES}) == usual
    by_uses = clear_settings(
        tmp_path,
        {"type": USES, "trigger": {"type": "tool_uses", "value": 9}, "clear_tool_inputs": ["a"]},
    )
    assert by_uses["trigger_uses"] == 9 and "trigger_tokens" not in by_uses
    assert clear_settings(tmp_path, {"type": THINKING})["thinking"] == 1
    for everything in ("all", {"type": "all"}):
        assert clear_settings(tmp_path, {"type": THINKING, "keep": everything})["thinking"] == 0
    config, _ = loaded(edits({"type": "compact_20260112"}), folder=tmp_path, environ={})
    assert config.tokens_cap == 150_000


def test_results_are_cleared_at_the_trigger_that_was_given() -> None:
    keep = {"type": "tool_uses", "value": 2}
    trigger = {"type": "tool_uses", "value": 5}
    config = edits({"type": USES, "trigger": trigger, "keep": keep, "exclude_tools": ["look"]})
    context = refold.open("work", store="memory:", model="claude-sonnet-5-5", config=config)
    context.append({"role": "user", "content": "go"})
    for n in range(6):
        use = {"type": "tool_use", "id": f"t{n}", "name": "look" if n == 1 else "read", "input": {}}
        context.append({"role": "assistant", "content": [use]})
        context.append_result(f"t{n}", f"result {n} " + "some text of a file " * 50)
        context.request("anthropic")
    shown = json.dumps(context.request("anthropic"))
    assert [f"result {n} " in shown for n in range(6)] == [False, True, False, False, True, True]


def test_what_is_done_otherwise_is_said(tmp_path: Path) -> None:
    (tmp_path / "refold.toml").write_text(
        '[[context_management.edits]]\ntype = "clear_thinking_20251015"\n'
        '[[context_management.edits]]\ntype = "compact_20260112"\npause_after_compaction = true\n'
    )
    said = remarks(folder=tmp_path)
    assert len(said) == 2 and "pause_after_compaction" in said[1]


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"type": "clear_everything"}, "clear_everything"),
        ({"type": USES, "keeps": 3}, "keeps"),
        ({"type": USES, "keep": 3}, "keep"),
        ({"type": USES, "keep": {"type": "tool_uses", "value": -1}}, "keep"),
        ({"type": USES, "trigger": {"type": "hours", "value": 1}}, "trigger"),
        ({"type": THINKING, "keep": {"type": "thinking_turns", "value": 0}}, "keep"),
        ({"keep": {"type": "tool_uses", "value": 1}}, "type"),
        (7, "edits[0]"),
    ],
)
def test_a_mistake_names_its_place(tmp_path: Path, wrong: Any, place: str) -> None:
    with pytest.raises(Invalid) as caught:
        loaded(edits(wrong), folder=tmp_path, environ={})
    assert place in str(caught.value) and "context_management.edits[0]" in str(caught.value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    _json,
    st.sampled_from([USES, THINKING, "compact_20260112"]),
    st.sampled_from(["trigger", "keep"]),
)
@settings(deadline=None)
def test_any_other_json_is_refused_and_never_an_error_of_our_own(
    value: Any, kind: str, name: str
) -> None:
    for block in ({"edits": value}, {"edits": [value]}, {"edits": [{"type": kind, name: value}]}):
        try:
            loaded({"context_management": block}, environ={}, folder=Path("/nonexistent"))
        except Invalid as error:
            assert error.hint
