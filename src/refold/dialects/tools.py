"""Tool definitions of every provider's shape, read.

A tool that a provider runs itself, or types itself (`memory_20250818`, `custom`), means something
only there: for another one it is left out, and `lost` says so. Neighbours: the dialects' `tools`
write definitions in their own shape.

What stands beside the messages of a request, the system prompt and the tools, is checked when it
is given: a page could not be rendered with it later, in any dialect.

Only the shape is checked, by the readers that the dialects themselves use. Neighbours: `system` and
`tools` read, `Context.update` asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from refold.checked import check, quoted
from refold.dialects.input import plain, plain_value, refused, without_marks
from refold.dialects.wire import present, report, text_blocks

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
