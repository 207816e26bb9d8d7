"""The arguments of a tool call as they can be read: they are kept in the shape they came in, a text
or an object.

A text is whatever a model wrote, perhaps not even JSON, so nothing here raises. What arguments mean
(paths, lines, commands) is for `ledger.arguments`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from refold.core.model import ToolCall


def decoded(text: str) -> object:
    """The JSON value that a text holds; `UNSET` if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return UNSET


def arguments_object(call: ToolCall) -> dict[str, Any] | None:
    """The arguments as an object; None if they are a text that does not hold one."""
    arguments = call.arguments
    if isinstance(arguments, dict):
        return arguments
    if not arguments.strip():
        return {}
    value = decoded(arguments)
    return value if isinstance(value, dict) else None


def arguments_text(call: ToolCall) -> str:
    """The arguments as they came, or as JSON."""
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
    """Whether a tool of that name is among the definitions of any provider."""
    return any(_names(tool, name) for tool in tools or ())


def _names(value: Any, name: str) -> bool:
    match value:
        case {"name": str(given)}:
            return given == name
        case {"function": dict() as held}:
            return _names(held, name)
        case {"functionDeclarations": [*held]} | {"function_declarations": [*held]}:
            return any(_names(one, name) for one in held)
        case _:
            return False
