"""System prompts and system messages, for providers where the system prompt stands apart.

A prompt may be given as text, as blocks or as messages of any shape. Neighbours: the dialects'
`request` gives both their place; their `render` leaves system messages where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from refold.core.model import Media, Message, Opaque, Text
from refold.dialects.outside import plain, refused, without_marks
from refold.dialects.wire import shown_text
from refold.errors import Invalid


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
            block = without_marks(system) if unmarked else dict(system)
            block.setdefault("type", "text")
            return [block] if text.strip() else []
        case _ if not isinstance(system, Mapping | int | float):
            return text_blocks(plain(system), unmarked=unmarked)
        case _:
            accepted = "text, a text block or a system message"
            raise refused("a part of the system prompt", system, accepted)


def prompt_text(system: Any) -> str:
    """A system prompt as one text, empty if it is blank."""
    if isinstance(system, str):
        return system if system.strip() else ""
    return "\n\n".join(block["text"] for block in text_blocks(system))


def readable_prompt(system: Any) -> str:
    """A system prompt for people: its text, or JSON where it is none that is known."""
    try:
        return prompt_text(system)
    except Invalid:
        encoded = msgspec.json.encode(system)
        return msgspec.json.format(encoded, indent=2).decode("utf-8", "replace")


def system_text(message: Message) -> str:
    """The text of a system message."""
    said = (block for block in message.blocks if isinstance(block, Text | Media | Opaque))
    return "\n\n".join(map(shown_text, said))


def is_silent(message: Message) -> bool:
    """Whether this is a system message that says nothing: notes of a caller, kept in its
    metadata."""
    if message.role != "system":
        return False
    return all(isinstance(block, Text) and not block.text.strip() for block in message.blocks)


def as_system(text: str) -> str:
    """What the system says in the middle of a conversation, as text that a user message may
    carry."""
    return f"<system>\n{text}\n</system>"


def leading(messages: Sequence[Mapping[str, Any]], roles: tuple[str, ...]) -> int:
    """How many messages of these roles lead the page and belong to the system prompt; none if
    nothing else is said, because a request needs a message."""
    for index, message in enumerate(messages):
        if message["role"] not in roles:
            return index
    return 0
