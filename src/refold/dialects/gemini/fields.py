"""What the Gemini modules share: field names in either spelling, and ids for calls that come
without one.

REST writes `functionCall`, the SDK's objects have `function_call`; both come in, and the API takes
both. An id is optional there: calls and responses belong together by name and order. Ours need one,
so the second unnamed call of `read` in a content is `gemini:read:2`, and so is the second unnamed
response of `read`. Such an id is never sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from refold.core.model import Block, Message, ToolCall, ToolResult

NAME = "gemini"
_MADE = f"{NAME}:"
# What a part holds; exactly one of these per part.
HELD = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "toolCall", "toolResponse",
)  # fmt: skip


@lru_cache(256)
def snake(name: str) -> str:
    """The SDK's spelling of a REST name."""
    return re.sub(r"[A-Z]", lambda sign: f"_{sign[0].lower()}", name)


def value_in(fields: Any, name: str) -> Any:
    """The field of that REST name, in either spelling; None if it is not there, or null."""
    if not isinstance(fields, Mapping):
        return None
    value = fields.get(name)
    return fields.get(snake(name)) if value is None else value


def made_id(tool: str, number: int) -> str:
    """The id of the n-th call of a tool that came without one, and of the n-th result that did."""
    return f"{_MADE}{tool}:{number}"


def is_made(id: str) -> bool:
    """Whether we made the id, so that it must not be sent."""
    return id.startswith(_MADE)


class Numbering:
    """Makes the ids of one content's calls and results."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def id(self, fields: Mapping[str, Any], tool: str) -> str:
        """The id that came, or the next one for this tool."""
        given = fields.get("id")
        if isinstance(given, str) and given:
            return given
        self.counts[tool] = self.counts.get(tool, 0) + 1
        return made_id(tool, self.counts[tool])


def answering(message: Message, asked: Message) -> Message:
    """The message with results that came without an id under the ids of the calls they answer,
    by name and order."""
    waiting: dict[str, list[str]] = {}
    for call in asked.blocks:
        if isinstance(call, ToolCall):
            waiting.setdefault(call.name, []).append(call.id)

    def named(block: Block) -> Block:
        if (
            not isinstance(block, ToolResult)
            or not is_made(block.call)
            or not waiting.get(block.name)
        ):
            return block
        return replace(block, call=waiting[block.name].pop(0))

    return replace(message, blocks=tuple(map(named, message.blocks)))
