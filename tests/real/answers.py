"""What a log says after a run inside a framework: the law that every adapter of a list keeps.

After a run the log's last message is the answer, before the framework repeats it; after the next
run it is there once. Nothing was taken back for it.
"""

from __future__ import annotations

import refold
from refold.core.codec import decode
from refold.core.model import Message, Text, ToolCall, ToolResult


def said_in(place: str) -> list[str]:
    """What each message in the only log of a store says, oldest first."""
    [about] = refold.conversations.list(place)
    with refold.open(about.id, store=place, read_only=True) as context:
        events = [*context.log.events()]
    assert [event for event in events if event.kind in ("revert", "restore")] == []
    return [_said(decode(event)) for event in events if event.kind == "message"]


def _said(message: object) -> str:
    assert isinstance(message, Message)
    parts = []
    for block in message.blocks:
        match block:
            case Text(text) if text:
                parts.append(text)
            case ToolCall():
                parts.append(f"call {block.name}")
            case ToolResult():
                parts.append("result")
    return f"{'tool' if parts == ['result'] else message.role}: {' '.join(parts)}"


# Two runs of an agent that reads a file and answers, twice, as `said_in` gives them.
FIRST_RUN = ["user: Why?", "assistant: call read", "tool: result", "assistant: The clock."]
SECOND_RUN = ["user: Sure?", "assistant: call read", "tool: result", "assistant: Yes."]
