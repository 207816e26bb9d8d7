"""What the Gemini modules share: field names in either spelling, and ids for calls that come
without one.

REST writes `functionCall`, the SDK's objects have `function_call`; both come in, and the API takes
both. An id is optional there: calls and responses belong together by name and order. Ours need one,
so the second unnamed call of `read` in a content is `gemini:read:2`, and so is the second unnamed
response of `read`. Such an id is never sent. Neighbours: `parse` makes these ids, `render` and
`check` read fields by their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from refold.core.model import Block, Message, ToolCall, ToolResult
from refold.dialects.input import text_in
from refold.dialects.protocol import FindCalls

NAME = "gemini"
_MADE = f"{NAME}:"
# What Google documents as the signature of a call that has none.
UNSIGNED = "skip_thought_signature_validator"
# What a part holds; exactly one of these per part.
HELD = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse",
)  # fmt: skip


@lru_cache(256)
def snake(name: str) -> str:
    """The SDK's spelling of a REST name."""
    return re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


def value_in(fields: Any, name: str) -> Any:
    """The field of that REST name, in either spelling; None if it is not there, or null."""
    if not isinstance(fields, Mapping):
        return None
    value = fields.get(name)
    return fields.get(snake(name)) if value is None else value


def text_at(fields: Any, name: str) -> str:
    """The text in the field of that REST name, or nothing."""
    value = value_in(fields, name)
    return value if isinstance(value, str) else ""


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
        return text_in(fields, "id") or self.next(tool)

    def next(self, tool: str) -> str:
        """The next id for a call of this tool that came without one."""
        self.counts[tool] = self.counts.get(tool, 0) + 1
        return made_id(tool, self.counts[tool])


# --- results under the ids of their calls ---


def answering(message: Message, find_calls: FindCalls) -> Message:
    """The message with results that came without an id under the ids of the calls they answer,
    by name and order."""
    calling = find_calls()
    if calling is None:
        return message
    waiting = _ids_by_name(calling)
    return replace(message, blocks=tuple(_named(block, waiting) for block in message.blocks))


def _ids_by_name(calling: Message) -> dict[str, list[str]]:
    """The ids of a message's calls by the names of their tools, in order."""
    ids: dict[str, list[str]] = {}
    for call in calling.blocks:
        if isinstance(call, ToolCall):
            ids.setdefault(call.name, []).append(call.id)
    return ids


def _named(block: Block, waiting: dict[str, list[str]]) -> Block:
    """A result under the id of the next call that waits for it."""
    if not isinstance(block, ToolResult) or not is_made(block.call):
        return block
    ids = waiting.get(block.name)
    return replace(block, call=ids.pop(0)) if ids else block
