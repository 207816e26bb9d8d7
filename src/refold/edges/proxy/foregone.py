"""What an observed call would have saved, had it been folded.

Neighbours: `observer` asks, `savings` adds it up, `book` holds the conversation.
"""

from __future__ import annotations

from refold.core.model import ToolResult, Usage
from refold.edges.proxy.book import Held
from refold.errors import RefoldError

STUB_TOKENS = 400  # about what stands in the place of a result that is moved out


def plan_if_due(held: Held, usage: Usage) -> None:
    """Plans what a fold would have done, once it would have been due."""
    left = usage.input - held.account.offset
    if left < held.context.budget.compact_at:
        return
    try:
        plan = held.context.plan()
    except RefoldError:
        return
    kept = plan.tokens_after / max(1, plan.tokens_before)
    held.account.take_off(round(usage.input * (1 - kept)), breaks=True)


def count_large(held: Held) -> None:
    """Counts what a fold would have moved out of the newest message before it was sent."""
    view = held.context.view
    for slot in reversed(view.slots):
        if not any(isinstance(block, ToolResult) for block in slot.message.blocks):
            break
        if slot.seq > held.counted and slot.tokens > held.large:
            saved = held.account.offset + slot.tokens - STUB_TOKENS
            held.account.take_off(saved, breaks=False)
    held.counted = view.head
