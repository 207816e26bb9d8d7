"""Tools as the declarations that models read."""

from __future__ import annotations

from typing import Any

import pytest

from refold.tokens.counter import SCHEMAS_DEPTH_MAX, count_tools, counter_for, declarations
from refold.tokens.exact import vocabulary


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
    assert text.count("again?") == SCHEMAS_DEPTH_MAX + 1


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
