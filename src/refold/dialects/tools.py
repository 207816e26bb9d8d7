"""Tool definitions of every provider's shape, read.

A tool that a provider runs itself, or types itself (`memory_20250818`, `custom`), means something
only there: for another one it is left out, and `lost` says so. Neighbours: the dialects' `tools`
write definitions in their own shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from refold.dialects.outside import plain, refused, without_marks
from refold.dialects.wire import present, report

# A tool of one shape has none of these: it is a list of functions, or named by its only key.
_KEYS = ("name", "type", "function", "custom", "description", "parameters", "input_schema")
_LISTS = ("functionDeclarations", "function_declarations")
_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")
_ANY_INPUT = {"type": "object", "properties": {}}


class Definition(Struct, frozen=True):
    """What a function needs to be called."""

    name: str
    description: str
    schema: Any


def plain_tool(tool: Any, *, unmarked: bool = True) -> dict[str, Any]:
    """The tool, if `unmarked` without its cache marks. Schemas can be large and are shared with
    what was given, not copied."""
    given = tool if isinstance(tool, Mapping) else plain(tool)
    if not isinstance(given, Mapping):
        raise refused("a tool", tool, "a definition with a name and a schema")
    return without_marks(given) if unmarked else dict(given)


def is_declaring(tool: Mapping[str, Any]) -> bool:
    """Whether a tool declares its functions in a list, or is named by its only key."""
    return bool(tool) and not any(key in tool for key in _KEYS)


def is_declared(function: Mapping[str, Any]) -> bool:
    """Whether a function stands in such a list with its JSON schema."""
    return any(key in function for key in _SCHEMAS)


def one_by_one(tools: list[Any] | None, lost: list[str]) -> Iterator[Any]:
    """The tools, each function that is declared in a list as a tool of its own."""
    for tool in tools or ():
        if isinstance(tool, Mapping) and is_declaring(tool):
            yield from _declared_by(tool, lost)
        else:
            yield tool


def _declared_by(tool: Mapping[str, Any], lost: list[str]) -> Iterator[Any]:
    for key, value in tool.items():
        if key in _LISTS and isinstance(value, list):
            yield from map(_simple, value)
        else:
            report(lost, f"the tool {key!r} is run by another provider and not sent")


def _simple(declaration: Any) -> Any:
    """A declared function as a simple tool, with its JSON schema, or its own kind of schema, which
    has its types in capitals."""
    if not isinstance(declaration, Mapping):
        return declaration
    schema = next((declaration[key] for key in _SCHEMAS if declaration.get(key)), None)
    simple = {key: declaration[key] for key in ("name", "description") if key in declaration}
    return {**simple, "parameters": schema or _lowered(declaration.get("parameters"))}


def _lowered(schema: Any) -> Any:
    """The schema with its types in small letters."""
    if isinstance(schema, list):
        return [_lowered(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    lowered = {key: _lowered(value) for key, value in schema.items()}
    if isinstance(lowered.get("type"), str):
        lowered["type"] = lowered["type"].lower()
    return lowered


def definition_of(tool: Mapping[str, Any]) -> Definition:
    """The definition in a tool of a simple shape. Invalid if it has no name."""
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise refused("the name of a tool", name, "a text")
    schema = tool.get("parameters") or tool.get("input_schema") or dict(_ANY_INPUT)
    return Definition(name, tool.get("description") or "", schema)


def named(definition: Definition) -> dict[str, Any]:
    """The name of a function, and its description if there is one."""
    if definition.description:
        return {"name": definition.name, "description": definition.description}
    return {"name": definition.name}


def strictness(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Whether arguments must follow the schema strictly, if the tool says so."""
    return {"strict": tool["strict"]} if isinstance(tool.get("strict"), bool) else {}


def function_in(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """The function that a tool wraps; None if it wraps none."""
    inner = tool.get("function")
    return dict(inner) if isinstance(inner, Mapping) else None


def functions(tools: list[Any] | None, name: str, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as most servers take them: `{"type": "function", "function": {…}}`. What the
    dialect `name` cannot take is reported."""
    given = map(plain_tool, one_by_one(tools, lost))
    return present(_function(tool, name, lost) for tool in given)


def _function(tool: dict[str, Any], dialect: str, lost: list[str]) -> dict[str, Any] | None:
    kind = tool.get("type", "custom")
    wrapped = function_in(tool)
    if wrapped is not None:
        return {**tool, "function": wrapped}
    if kind == "custom" and isinstance(tool.get("custom"), Mapping):
        return tool
    if kind not in ("custom", "function"):
        report_left_out(tool, dialect, lost)
        return None
    definition = definition_of(tool)
    schema = {"parameters": definition.schema}
    return {"type": "function", "function": named(definition) | schema | strictness(tool)}


def report_left_out(tool: Mapping[str, Any], dialect: str, lost: list[str]) -> None:
    """Says that a tool means nothing to a dialect."""
    custom = tool.get("custom")
    inner = custom.get("name") if isinstance(custom, Mapping) else None
    called = tool.get("name") or inner
    report(lost, f"the tool {called!r} of type {tool.get('type')!r} is not sent to {dialect}")
