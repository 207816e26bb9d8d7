"""`refold tools`: the tools that the model is told of, and what telling it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from refold.display import cut, number, one_line
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session

SHOWN_CHARS = 70


class ToolsArguments(Arguments, frozen=True, kw_only=True):
    pass


class Tool(Struct, frozen=True, kw_only=True):
    """One tool; `tokens` is its share of what all of them cost."""

    name: str
    description: str
    tokens: int


class Tools(Result, frozen=True, kw_only=True):
    conversation: str
    tools: tuple[Tool, ...]
    tokens: int


def run(session: Session, arguments: ToolsArguments) -> Tools:
    with session.context() as context:
        view = context.view
    listed = view.tools or []
    sizes = [len(msgspec.json.encode(tool)) for tool in listed]
    whole = sum(sizes) or 1
    tools = tuple(
        Tool(
            name=_field(tool, "name"),
            description=_field(tool, "description"),
            tokens=view.tools_tokens * size // whole,
        )
        for tool, size in zip(listed, sizes, strict=True)
    )
    return Tools(conversation=context.id, tools=tools, tokens=view.tools_tokens)


def _field(tool: Any, name: str) -> str:
    """A field of a tool, in the shape of whichever provider: a function may lie one level down.
    A server-side tool has a type instead of a name."""
    if not isinstance(tool, Mapping):
        return ""
    inner = tool.get("function")
    found = inner if isinstance(inner, Mapping) else tool
    value = found.get(name) or (tool.get("type") if name == "name" else "")
    return value if isinstance(value, str) else ""


def show(found: Tools, screen: Screen) -> None:
    if not found.tools:
        screen.line("The model gets no tools.")
        return
    rows = (
        (one.name, f"{one.tokens:,}", cut(one_line(one.description), SHOWN_CHARS))
        for one in found.tools
    )
    screen.table(("NAME", ">TOKENS", "DESCRIPTION"), rows)
    screen.line(
        f"{number(len(found.tools), 'tool')}, {number(found.tokens, 'token')} in every request."
    )


COMMAND = Command(
    name="tools",
    reads=True,
    arguments=ToolsArguments,
    run=run,
    show=show,
)
