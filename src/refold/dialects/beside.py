"""What stands beside the messages of a request, the system prompt and the tools, is checked when it
is given: a page could not be rendered with it later, in any dialect.

Only the shape is checked, by the readers that the dialects themselves use. Neighbours: `system` and
`tools` read, `Context.update` asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.checked import check, quoted
from refold.dialects.outside import plain_value, refused
from refold.dialects.system import text_blocks
from refold.dialects.tools import definition_of, function_in, is_declaring, one_by_one, plain_tool

# A tool of these kinds is the caller's own; any other is run by the provider, who knows its shape.
_OWN = ("custom", "function")


def plain_system(system: Any) -> Any:
    """The system prompt as plain JSON. Invalid unless it is text, text blocks or system
    messages."""
    if isinstance(system, bytes | bytearray | memoryview):
        raise refused("the system prompt", system, "text, text blocks or system messages")
    given = plain_value(system)
    if given == {}:
        raise refused("the system prompt", given, "text, text blocks or system messages")
    text_blocks(given)
    return given


def plain_tools(tools: list[Any] | None) -> list[Any] | None:
    """The tools as plain JSON. Invalid unless each is a definition with a name, or a tool that a
    provider runs itself."""
    given: list[Any] | None = plain_value(tools)
    for tool in given or ():
        if isinstance(tool, Mapping) and is_declaring(tool):
            _check_declaring(tool)
    for tool in one_by_one(given, []):
        _check_tool(plain_tool(tool))
    return given


def _check_declaring(tool: Mapping[str, Any]) -> None:
    """A list of functions is not empty, and a tool that is named by its only key has settings."""
    for key, value in tool.items():
        if not isinstance(value, Mapping | list) or value == []:
            raise refused(f"the tool {quoted(key, 60)}", value, "an object, or a list of functions")


def _check_tool(tool: dict[str, Any]) -> None:
    function = function_in(tool)
    if function is None and tool.get("type", "custom") not in _OWN:
        return
    custom = tool.get("custom")
    definition = definition_of(function or (custom if isinstance(custom, Mapping) else tool))
    check(
        f"the schema of the tool {quoted(definition.name, 60)}",
        definition.schema,
        Mapping[str, Any],
    )
    check(f"the description of the tool {quoted(definition.name, 60)}", definition.description, str)
