"""Gemini contents: tool definitions, all functions declared in one list.

Neighbours: `dialects.tools` reads definitions of every shape; `request` sends them.
"""

from __future__ import annotations

from typing import Any

from refold.dialects.gemini.fields import NAME
from refold.dialects.tools import (
    definition_of,
    function_in,
    is_declared,
    is_declaring,
    named,
    plain_tool,
    report_left_out,
)


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as generateContent takes them: its own as they are, all functions of other shapes
    declared in one."""
    own: list[dict[str, Any]] = []
    declared: list[dict[str, Any]] = []
    for tool in map(plain_tool, tools or ()):
        if is_declaring(tool):
            own.append(tool)
        elif (function := _declared(tool, lost)) is not None:
            declared.append(function)
    return [{"functionDeclarations": declared}, *own] if declared else own


def _declared(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    """A function of any other shape, as it stands in a list; None for what is not a function."""
    function = _function(tool)
    if function is None:
        report_left_out(tool, NAME, lost)
        return None
    if is_declared(function):
        return function
    definition = definition_of(function)
    return {**named(definition), "parametersJsonSchema": definition.schema}


def _function(tool: dict[str, Any]) -> dict[str, Any] | None:
    """The function that a tool is or wraps; None if it is something else."""
    if "custom" in tool:
        return None
    wrapped = function_in(tool)
    if wrapped is None and tool.get("type", "custom") in ("custom", "function"):
        return tool
    return wrapped
