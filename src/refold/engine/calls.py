"""Which calls wait for their results, and which of them a result answers that does not say so.

Neighbour: `recorder` appends results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refold.checked import quoted
from refold.core.laws import calls_of, results_of
from refold.core.model import Message, Slot
from refold.errors import Invalid

SHOWN_MAX = 5  # so many calls are named to a person


def unanswered(slots: Sequence[Slot]) -> list[str]:
    """The calls on the page that wait for their results, oldest first."""
    waiting: dict[str, None] = {}
    for slot in slots:
        follow_calls(waiting, slot.message)
    return [*waiting]


def follow_calls(waiting: dict[str, None], message: Message) -> None:
    """Which calls wait after a message, if these did before it."""
    waiting.update(dict.fromkeys(calls_of(message)))
    for id in results_of(message):
        waiting.pop(id, None)


def answering(message: Mapping[str, Any], waiting: Sequence[str]) -> dict[str, Any]:
    """A result that does not say which call it answers, as that of the one that waits."""
    if len(waiting) == 1:
        return {**message, "tool_call_id": waiting[0]}
    those = f"one of {', '.join(quoted(id, 40) for id in waiting[:SHOWN_MAX])}"
    nobody = "no call is waiting; what nobody called for is a message of the user"
    hint = f"set tool_call_id to {those}" if waiting else nobody
    raise Invalid("a tool message without tool_call_id", hint=hint)


def lacks_call(message: Any) -> bool:
    """Whether a message is a tool's and does not say which call it answers."""
    is_tool = isinstance(message, Mapping) and message.get("role") == "tool"
    return (
        is_tool and message.get("tool_call_id") is None and isinstance(message.get("content"), str)
    )
