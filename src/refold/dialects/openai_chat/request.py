"""OpenAI Chat Completions: the keyword arguments of `client.chat.completions.create`.

Neighbours: `render` made the messages, `dialects.tools` reads definitions of every shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.dialects.openai_chat.repair import NAME
from refold.dialects.outside import plain, remove_marks
from refold.dialects.system import text_blocks
from refold.dialects.tools import functions


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache automatically: no
    marks."""
    kwargs: dict[str, Any] = {"messages": [*_system_messages(system), *messages]}
    defined = definitions(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as Chat Completions takes them."""
    return functions(tools, NAME, lost)


def _system_messages(system: Any) -> list[dict[str, Any]]:
    """The system prompt as leading messages; what already is such a message stays as it is."""
    if not system:
        return []
    if isinstance(system, str):
        return [{"role": "system", "content": system}]
    given = plain(system)
    entries = given if isinstance(given, list) else [given]
    if all(isinstance(entry, dict) and "role" in entry for entry in entries):
        return [remove_marks(entry) for entry in entries]
    # One message per block: where the system prompt stands apart, each system message that led the
    # page is a block of it.
    return [_system_message(block) for block in text_blocks(entries)]


def _system_message(block: dict[str, Any]) -> dict[str, Any]:
    """A block that is nothing but text as text, any other as the only part of a content."""
    is_text = block.keys() <= {"type", "text"}
    content = block["text"] if is_text else [{"type": "text", **block}]
    return {"role": "system", "content": content}
