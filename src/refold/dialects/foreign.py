"""What every dialect does alike with another provider's blocks, and says alike when something is
lost on the way.

Neighbours: the render modules, which know what their own provider can say; `wire` reads values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from refold.core.arguments import arguments_object
from refold.core.model import Media, Message, Opaque, Text, ToolCall
from refold.dialects.wire import report, shown_text


def opaque_as_text(block: Opaque, source: str, lost: list[str]) -> Text | None:
    """A block that only its own provider understands, as the text in it; None if it holds none."""
    text = shown_text(block)
    if block.raw is not None:
        kind = block.raw.get("type") if isinstance(block.raw, dict) else None
        report(
            lost,
            f"a block of type {kind!r} from {source} is {'sent as text' if text else 'not sent'}",
        )
    return Text(text) if text else None


def media_as_note(media: Media, source: str, name: str, lost: list[str]) -> Text:
    """Media that the dialect `name` has no form for, as a note in its place."""
    report(lost, f"{shown_text(media)} from {source} is sent as a note: {name} has no form for it")
    return Text(shown_text(media))


def with_object(call: ToolCall, lost: list[str]) -> ToolCall:
    """The call with its arguments as an object, for providers that take no text there."""
    arguments = arguments_object(call)
    if arguments is None:
        report(
            lost, f"the arguments of call {call.id} are not a JSON object: sent as text under _raw"
        )
        arguments = {"_raw": call.arguments}
    return replace(call, arguments=arguments)


# --- system messages where the system prompt stands apart ---


def said_by_system(message: Message) -> str:
    """The text of a system message."""
    return "\n\n".join(
        shown_text(block) for block in message.blocks if isinstance(block, Text | Media | Opaque)
    )


def as_system(text: str) -> str:
    """What the system says in the middle of a conversation, as text that a user message may
    carry."""
    return f"<system>\n{text}\n</system>"


def leading(messages: Sequence[Mapping[str, Any]], roles: tuple[str, ...]) -> int:
    """How many messages of these roles lead the page and belong to the system prompt; none if
    nothing else is said, because a request needs a message."""
    return next(
        (index for index, message in enumerate(messages) if message["role"] not in roles), 0
    )
