"""Tools as OpenAI's models read them: not the JSON of the request, but declarations in TypeScript.

The form is the published one of the harmony format, and gives the sizes that the API reports for
older chat models to within a few tokens. JSON would count a third too much. Neighbour: `counter`
asks for it where a provider's framing says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

# A schema may be nested without end; what lies deeper is counted as JSON.
DEPTH_MAX = 8


def declarations(tools: list[Any]) -> str:
    """All tools as one text. A provider's own tools, which have no schema, stand as their JSON."""
    functions = [_function(tool) for tool in tools]
    return "\n\n".join(
        ["# Tools", "## functions", "namespace functions {", *functions, "} // namespace functions"]
    )


def _function(tool: Any) -> str:
    spec = tool.get("function", tool) if isinstance(tool, dict) else tool
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        return json_text(tool)
    schema = spec.get("parameters") or spec.get("input_schema") or {}
    head = [*_comment(spec.get("description")), f"type {spec['name']} ="]
    if not isinstance(schema, dict) or not schema.get("properties"):
        return "\n".join(head) + " () => any;"
    return "\n".join(head) + f" (_: {_object(schema, 0)}) => any;"


def _comment(text: object) -> list[str]:
    return [f"// {line}" for line in text.split("\n")] if isinstance(text, str) and text else []


def _object(schema: dict[str, Any], depth: int) -> str:
    properties, required = schema.get("properties"), schema.get("required") or ()
    if not isinstance(properties, dict):
        return "object"
    lines = ["{"]
    for name, each in properties.items():
        each = each if isinstance(each, dict) else {}
        mark = "" if isinstance(required, list) and name in required else "?"
        default = f" // default: {json_text(each['default'])}" if "default" in each else ""
        lines += [
            *_comment(each.get("description")),
            f"{name}{mark}: {_type(each, depth + 1)},{default}",
        ]
    return "\n".join([*lines, "}"])


def _type(schema: Any, depth: int) -> str:
    if not isinstance(schema, dict) or depth > DEPTH_MAX:
        return json_text(schema)
    if isinstance(options := schema.get("enum"), list):
        return " | ".join(map(json_text, options))
    if isinstance(options := schema.get("anyOf") or schema.get("oneOf"), list):
        return " | ".join(_type(option, depth + 1) for option in options)
    match schema.get("type"):
        case "object":
            return _object(schema, depth)
        case "array":
            return _type(schema.get("items") or {}, depth + 1) + "[]"
        case "integer":
            return "number"
        case str(name):
            return name
        case list(names):
            return " | ".join(map(str, names))
        case _:
            return "any"


def json_text(value: object) -> str:
    """The JSON of a value; a value that JSON cannot hold still takes its place in the request."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)
