"""Anthropic Messages: tool definitions, with their schema beside their name.

Neighbours: `dialects.tools` reads definitions of every shape; `request` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.dialects.anthropic.repair import NAME
from refold.dialects.tools import (
    definition_of,
    function_in,
    named,
    one_by_one,
    plain_tool,
    report_left_out,
    strictness,
)
from refold.dialects.wire import present


def definitions(
    tools: list[Any] | None, lost: list[str], *, unmarked: bool = True
) -> list[dict[str, Any]]:
    """The tools as the Messages API takes them, if `unmarked` without the cache marks they came
    with."""
    given = (plain_tool(tool, unmarked=unmarked) for tool in one_by_one(tools, lost))
    return present(_defined(tool, lost) for tool in given)


def _defined(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    if isinstance(tool.get("input_schema"), Mapping) or _is_own(tool):
        return tool
    if tool.get("type", "function") != "function":
        report_left_out(tool, NAME, lost)
        return None
    wrapped = function_in(tool)
    return _with_schema(tool if wrapped is None else wrapped)


def _with_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    definition = definition_of(function)
    schema = {"input_schema": definition.schema}
    return named(definition) | schema | strictness(function)


def _is_own(tool: Mapping[str, Any]) -> bool:
    """Whether this is a tool of the provider, which has a type of its own."""
    if tool.get("type", "function") == "function":
        return False
    return isinstance(tool.get("name"), str) and not isinstance(tool.get("custom"), Mapping)
