"""refold as a policy among others: one conversation in memory, asked for a page before every turn.

The whole window is usable as input (`reserve_tokens` 0), and refold counts as the measure does, so
that all have the same budget. Neighbours: `policies` are the others, `texts` the counter.
"""

from __future__ import annotations

from typing import Any

from refold.engine.opening import open as open_context
from refold.replay.texts import Message, tokens_of_text

_KEYS = ("role", "content", "tool_calls", "tool_call_id")


class Refold:
    """One conversation in memory, asked for a page before every turn."""

    def __init__(self, **config: Any) -> None:
        self.config = {"reserve_tokens": 0, **config}

    def start(self, budget: int) -> None:
        self.context = open_context(
            "replayed", store="memory:", window=budget, counter=tokens_of_text, config=self.config
        )

    def observe(self, message: Message) -> None:
        self.context.append(simple(message))

    def prompt(self) -> list[Message]:
        return [
            plain(message) for message in self.context.request(dialect="openai_chat")["messages"]
        ]


def simple(message: Message) -> Message:
    """A recorded message without what only the recorder knew."""
    return {key: message[key] for key in _KEYS if key in message}


def plain(message: Message) -> Message:
    """A message in the measure's shape: content as one text, calls without their wrapper."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content)
    calls = [
        {"id": call["id"], **call.get("function", call)} for call in message.get("tool_calls") or ()
    ]
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}
