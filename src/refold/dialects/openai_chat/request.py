"""OpenAI Chat Completions: the keyword arguments of the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.dialects import definitions
from refold.dialects.wire import plain, unmarked


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache by itself: no
    marks."""
    kwargs: dict[str, Any] = {"messages": [*_system_messages(system), *messages]}
    defined = definitions.for_openai(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


def _system_messages(system: Any) -> list[dict[str, Any]]:
    """The system prompt as leading messages; what already is such a message stays as it is."""
    if not system:
        return []
    if isinstance(system, str):
        return [{"role": "system", "content": system}]
    given = plain(system)
    entries = given if isinstance(given, list) else [given]
    if all(isinstance(entry, dict) and "role" in entry for entry in entries):
        return [unmarked(entry) for entry in entries]
    # A message a block: where the system prompt stands apart, each system message that led the page
    # is a block of it.
    return [
        {"role": "system", "content": _plain_text(block)}
        for block in definitions.text_blocks(entries)
    ]


def _plain_text(block: dict[str, Any]) -> Any:
    """The text of a block that is nothing else, else the block as the only part."""
    return block["text"] if block.keys() <= {"type", "text"} else [{"type": "text", **block}]
