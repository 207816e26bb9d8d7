"""System prompts and tool definitions in either provider's shape, translated for the other.

A tool that a provider runs itself, or types itself (`memory_20250818`, `custom`), means something only there: for
the other one it is left out, and `lost` says so. Neighbours: the dialects' `request`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.dialects.wire import MARKS, at, plain, refused, report

_ANY_INPUT = {"type": "object", "properties": {}}


def for_openai(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as Chat Completions has them."""
    return [made for tool in tools or () if (made := _openai(_opened(tool), lost)) is not None]


def for_anthropic(tools: list[Any] | None, lost: list[str], *, unmarked: bool) -> list[dict[str, Any]]:
    """The tools as the Messages API has them, if `unmarked` without the cache marks they came with."""
    dropped = MARKS if unmarked else ()
    return [made for tool in tools or () if (made := _anthropic(_opened(tool, dropped), lost)) is not None]


def text_blocks(system: Any, *, unmarked: bool = True) -> list[dict[str, Any]]:
    """A system prompt (text, blocks, or system messages) as text blocks, none of them empty."""
    match system:
        case None | "":
            return []
        case str():
            return [{"type": "text", "text": system}]
        case list() | tuple():
            return [block for entry in system for block in text_blocks(entry, unmarked=unmarked)]
        case {"role": "system" | "developer", "content": content}:
            return text_blocks(content, unmarked=unmarked)
        case {"text": str(text), **rest} if rest.get("type", "text") == "text":
            dropped = MARKS if unmarked else ()
            return [{key: value for key, value in system.items() if key not in dropped}] if text.strip() else []
        case _ if not isinstance(system, Mapping | int | float):
            return text_blocks(plain(system), unmarked=unmarked)
        case _:
            raise refused("a part of the system prompt", system, "text, a text block or a system message")


def _opened(tool: Any, dropped: tuple[str, ...] = MARKS) -> dict[str, Any]:
    """The tool without marks. Schemas can be large and are shared with what was given, not copied."""
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


def _parts(tool: dict[str, Any]) -> tuple[str, str, Any]:
    name, schema = tool.get("name"), tool.get("parameters") or tool.get("input_schema") or dict(_ANY_INPUT)
    if not isinstance(name, str) or not name:
        raise refused("the name of a tool", name, "a text")
    return name, tool.get("description") or "", schema


def _strict(tool: dict[str, Any]) -> dict[str, Any]:
    return {"strict": tool["strict"]} if isinstance(tool.get("strict"), bool) else {}


def _left_out(tool: dict[str, Any], dialect: str, lost: list[str]) -> dict[str, Any] | None:
    called = tool.get("name") or at(tool, ("custom", "name"))
    report(lost, f"the tool {called!r} of type {tool.get('type')!r} is not sent to {dialect}")
    return None
