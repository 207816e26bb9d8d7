"""What the window is made of: every token of it belongs to one part, so the parts always sum to the
window, or to the page where that is larger.

Our estimates are scaled to the provider's own count of the page. Neighbours: `bar` and `panel` draw
the parts, `usage` lists some of them.
"""

from __future__ import annotations

from msgspec import Struct

from refold.core.budget import Budget, current_tokens
from refold.core.model import Slot, ToolResult, View, shows_memories

NAMES = {
    "system": "System prompt",
    "tools": "Tools",
    "memory": "Memory",
    "summaries": "Summaries",
    "user": "User messages",
    "assistant": "Assistant messages",
    "outputs": "Tool outputs",
    "free": "Free",
    "reserve": "Reserve for the answer",
}
REST = ("free", "reserve")


class WindowPart(Struct, frozen=True, kw_only=True):
    """One part of the window, by its key in `NAMES`."""

    name: str
    tokens: int


def window_parts(view: View, budget: Budget) -> tuple[WindowPart, ...]:
    """The parts of the page, then what is free, then what is kept for the answer. Parts without
    a token are left out."""
    current = current_tokens(view, budget.factor)
    used = _scaled(_estimates(view), current)
    free = max(0, budget.input_max - current)
    reserve = max(0, budget.window - current - free)
    whole = {**used, "free": free, "reserve": reserve}
    return tuple(WindowPart(name=name, tokens=size) for name, size in whole.items() if size)


def page_parts(view: View, budget: Budget) -> dict[str, int]:
    """The parts of the page as a person counts them: all messages are the conversation."""
    current = current_tokens(view, budget.factor)
    used = _scaled(_estimates(view), current)
    parts = {name: used[name] for name in ("system", "tools", "memory", "summaries")}
    return {**parts, "conversation": current - sum(parts.values())}


def _estimates(view: View) -> dict[str, int]:
    sizes = dict.fromkeys((name for name in NAMES if name not in REST), 0)
    sizes["system"], sizes["tools"] = view.system_tokens, view.tools_tokens
    for slot in view.slots:
        sizes[part_of(slot)] += slot.tokens
    return sizes


def part_of(slot: Slot) -> str:
    """The part that a slot of the page belongs to."""
    message = slot.message
    if slot.standin:
        return "summaries"
    if shows_memories(message):
        return "memory"
    if message.role == "tool" or any(isinstance(block, ToolResult) for block in message.blocks):
        return "outputs"
    return message.role if message.role in ("system", "assistant") else "user"


def _scaled(sizes: dict[str, int], current: int) -> dict[str, int]:
    """Sizes that sum to the size of the page; the largest takes the rounding."""
    total = sum(sizes.values())
    scaled = {name: size * current // total if total else 0 for name, size in sizes.items()}
    largest = max(scaled, key=lambda name: scaled[name])
    scaled[largest] += current - sum(scaled.values())
    return scaled
