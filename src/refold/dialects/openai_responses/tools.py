"""OpenAI Responses: tool definitions in their flat shape, the name at the top level.

Neighbours: `dialects.tools` reads definitions of every shape; `request` sends them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from refold.dialects.openai_responses.items import NAME
from refold.dialects.outside import plain, without_marks
from refold.dialects.tools import functions, report_left_out

# Other providers type the tools that they run themselves by a date.
_DATED = re.compile(r".*_\d{8}")


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as the Responses API takes them."""
    return [made for tool in tools or () for made in _defined(tool, lost)]


def _defined(tool: Any, lost: list[str]) -> list[dict[str, Any]]:
    """The tool in this provider's flat shape; none for one that another provider runs."""
    given = tool if isinstance(tool, Mapping) else plain(tool)
    kind = given.get("type") if isinstance(given, Mapping) else None
    if isinstance(kind, str):
        if _is_flat(given, kind):
            return [without_marks(given)]
        if _DATED.fullmatch(kind):
            report_left_out(given, NAME, lost)
            return []
    return [_flattened(made) for made in functions([given], NAME, lost)]


def _is_flat(tool: Mapping[str, Any], kind: str) -> bool:
    if kind in ("function", "custom"):
        return isinstance(tool.get("name"), str) and "input_schema" not in tool
    return not _DATED.fullmatch(kind)


def _flattened(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A wrapped tool with its definition at the top level."""
    if tool["type"] == "custom":
        return {"type": "custom", **tool["custom"], **_flat_format(tool["custom"])}
    # Strict is the default here and nowhere else.
    return {"type": "function", "strict": False, **tool["function"]}


def _flat_format(custom: Mapping[str, Any]) -> dict[str, Any]:
    """The grammar of a custom tool, if it has one, without its wrapper."""
    wrapped = custom.get("format")
    grammar = wrapped.get("grammar") if isinstance(wrapped, Mapping) else None
    return {"format": {"type": "grammar", **grammar}} if isinstance(grammar, Mapping) else {}
