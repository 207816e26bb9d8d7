"""System prompts and tool definitions in either provider's shape, translated for the other.

A tool that a provider runs itself, or types itself (`memory_20250818`, `custom`), means something
only there: for the other one it is left out, and `lost` says so. Neighbours: the dialects'
`request`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from refold.dialects.wire import MARKS, at, plain, refused, report

# A tool of Gemini has none of these: it is a list of functions, or named by its only key.
_OTHERS = ("name", "type", "function", "custom", "description", "parameters", "input_schema")
_ANY_INPUT = {"type": "object", "properties": {}}


def for_openai(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as Chat Completions has them."""
    return [
        made for tool in spread(tools, lost) if (made := _openai(_opened(tool), lost)) is not None
    ]


def for_anthropic(
    tools: list[Any] | None, lost: list[str], *, unmarked: bool
) -> list[dict[str, Any]]:
    """The tools as the Messages API has them, if `unmarked` without the cache marks they came
    with."""
    dropped = MARKS if unmarked else ()
    return [
        made
        for tool in spread(tools, lost)
        if (made := _anthropic(_opened(tool, dropped), lost)) is not None
    ]


def for_gemini(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as generateContent has them: its own as they are, all functions of other shapes
    declared in one."""
    opened = [_opened(tool) for tool in tools or ()]
    own = [tool for tool in opened if _is_geminis(tool)]
    functions = [_declared(tool, lost) for tool in opened if not _is_geminis(tool)]
    declared = [made for made in functions if made is not None]
    return [*([{"functionDeclarations": declared}] if declared else []), *own]


def spread(tools: list[Any] | None, lost: list[str]) -> Iterator[Any]:
    """The tools for any other provider: each function that Gemini declares in a list as a tool
    of its own."""
    for tool in tools or ():
        if not isinstance(tool, Mapping) or not _is_geminis(tool):
            yield tool
            continue
        for key, value in tool.items():
            if key in ("functionDeclarations", "function_declarations") and isinstance(value, list):
                yield from map(_undeclared, value)
            else:
                report(lost, f"the tool {key!r} is Gemini's own and not sent")


def text_blocks(system: Any, *, unmarked: bool = True) -> list[dict[str, Any]]:
    """A system prompt (text, blocks, or system messages) as text blocks, none of them empty."""
    match system:
        case None | "":
            return []
        case str():
            return [{"type": "text", "text": system}] if system.strip() else []
        case list() | tuple():
            return [block for entry in system for block in text_blocks(entry, unmarked=unmarked)]
        case {"role": "system" | "developer", "content": content}:
            return text_blocks(content, unmarked=unmarked)
        case {"parts": list(parts)}:
            return text_blocks(parts, unmarked=unmarked)
        case {"text": str(text), **rest} if rest.get("type", "text") == "text":
            dropped = MARKS if unmarked else ()
            return (
                [{key: value for key, value in system.items() if key not in dropped}]
                if text.strip()
                else []
            )
        case _ if not isinstance(system, Mapping | int | float):
            return text_blocks(plain(system), unmarked=unmarked)
        case _:
            raise refused(
                "a part of the system prompt", system, "text, a text block or a system message"
            )


def _opened(tool: Any, dropped: tuple[str, ...] = MARKS) -> dict[str, Any]:
    """The tool without marks. Schemas can be large and are shared with what was given, not
    copied."""
    given = tool if isinstance(tool, Mapping) else plain(tool)
    if not isinstance(given, Mapping):
        raise refused("a tool", tool, "a definition with a name and a schema")
    return {key: value for key, value in given.items() if key not in dropped}


def _openai(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    kind = tool.get("type", "custom")
    if isinstance(tool.get("function"), Mapping):
        return {**tool, "function": dict(tool["function"])}
    if kind == "custom" and isinstance(tool.get("custom"), Mapping):
        return tool
    if kind not in ("custom", "function"):
        return _left_out(tool, "openai_chat", lost)
    name, description, schema = _parts(tool)
    function: dict[str, Any] = {"name": name}
    if description:
        function["description"] = description
    return {"type": "function", "function": {**function, "parameters": schema, **_strict(tool)}}


def _anthropic(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    if isinstance(tool.get("input_schema"), Mapping):
        return tool
    inner = tool.get("function")
    if tool.get("type", "function") != "function":
        own = isinstance(tool.get("name"), str) and not isinstance(tool.get("custom"), Mapping)
        return tool if own else _left_out(tool, "anthropic", lost)
    given = dict(inner) if isinstance(inner, Mapping) else tool
    name, description, schema = _parts(given)
    made: dict[str, Any] = {"name": name}
    if description:
        made["description"] = description
    return {**made, "input_schema": schema, **_strict(given)}


def _declared(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    inner = tool.get("function")
    given = dict(inner) if isinstance(inner, Mapping) else tool
    if "custom" in tool or (
        given is tool and tool.get("type", "custom") not in ("custom", "function")
    ):
        return _left_out(tool, "gemini", lost)
    if "parametersJsonSchema" in given or "parameters_json_schema" in given:
        return given
    name, description, schema = _parts(given)
    made = {"name": name, "description": description} if description else {"name": name}
    return {**made, "parametersJsonSchema": schema}


def _is_geminis(tool: Mapping[str, Any]) -> bool:
    return bool(tool) and not any(key in tool for key in _OTHERS)


def _undeclared(declaration: Any) -> Any:
    """A function of Gemini as a simple tool: its JSON schema, or its own kind of schema, which
    shouts its types."""
    if not isinstance(declaration, Mapping):
        return declaration
    schema = declaration.get("parametersJsonSchema") or declaration.get("parameters_json_schema")
    made = {key: declaration[key] for key in ("name", "description") if key in declaration}
    return {**made, "parameters": schema or _lowered(declaration.get("parameters"))}


def _lowered(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_lowered(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else _lowered(value)
        for key, value in schema.items()
    }


def _parts(tool: dict[str, Any]) -> tuple[str, str, Any]:
    name, schema = (
        tool.get("name"),
        tool.get("parameters") or tool.get("input_schema") or dict(_ANY_INPUT),
    )
    if not isinstance(name, str) or not name:
        raise refused("the name of a tool", name, "a text")
    return name, tool.get("description") or "", schema


def _strict(tool: dict[str, Any]) -> dict[str, Any]:
    return {"strict": tool["strict"]} if isinstance(tool.get("strict"), bool) else {}


def _left_out(tool: dict[str, Any], dialect: str, lost: list[str]) -> dict[str, Any] | None:
    called = tool.get("name") or at(tool, ("custom", "name"))
    report(lost, f"the tool {called!r} of type {tool.get('type')!r} is not sent to {dialect}")
    return None
