"""The arguments of a tool call, read from their original form, a string or an object.

A string may be anything a model wrote, perhaps not even JSON, so nothing here raises. Neighbour:
`ledger.arguments` knows their meaning (paths, lines, commands).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from refold.core.model import ToolCall


def decoded(text: str) -> object:
    """The JSON value in the text; `UNSET` if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return UNSET


def arguments_object(call: ToolCall) -> dict[str, Any] | None:
    """The arguments as an object; None if they are text that is not a JSON object."""
    arguments = call.arguments
    if isinstance(arguments, dict):
        return arguments
    if not arguments.strip():
        return {}
    value = decoded(arguments)
    return value if isinstance(value, dict) else None


def arguments_text(call: ToolCall) -> str:
    """The original text of the arguments, or an object as JSON."""
    if isinstance(call.arguments, str):
        return call.arguments
    return msgspec.json.encode(call.arguments).decode()


def canonical_arguments(call: ToolCall) -> str:
    """The arguments as canonical JSON: the order of keys does not matter."""
    value: object = call.arguments
    if isinstance(value, str):
        value = decoded(value)
    if value is UNSET:
        return arguments_text(call)
    return msgspec.json.encode(value, order="deterministic").decode()


def has_tool(tools: list[Any] | None, name: str) -> bool:
    """Whether the tool definitions, in any provider's format, include a tool with that name."""
    for tool in tools or ():
        match tool:
            case {"name": str(given)}:
                is_named = given == name
            case {"function": dict() as function}:
                is_named = has_tool([function], name)
            case {"functionDeclarations": [*group]} | {"function_declarations": [*group]}:
                is_named = has_tool(group, name)
            case _:
                is_named = False
        if is_named:
            return True
    return False
