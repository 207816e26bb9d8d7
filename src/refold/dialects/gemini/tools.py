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
    given = [plain_tool(tool) for tool in tools or ()]
    own = [tool for tool in given if is_declaring(tool)]
    made = [_declared(tool, lost) for tool in given if not is_declaring(tool)]
    declared = [function for function in made if function is not None]
    return [{"functionDeclarations": declared}, *own] if declared else own


def _declared(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    """A function of any other shape, as it stands in a list; None for what is not a function."""
    wrapped = function_in(tool)
    is_function = wrapped is not None or tool.get("type", "custom") in ("custom", "function")
    if "custom" in tool or not is_function:
        report_left_out(tool, NAME, lost)
        return None
    given = tool if wrapped is None else wrapped
    if is_declared(given):
        return given
    definition = definition_of(given)
    return {**named(definition), "parametersJsonSchema": definition.schema}
