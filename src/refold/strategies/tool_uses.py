"""The answered tool uses of a page: each call with its result, and where both stand.

Only units in which every call has its result count; a pair in progress is left alone. Neighbours:
`clear` empties results, `keep` shortens them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.core.laws import units
from refold.core.model import Block, Message, Slot, ToolCall, ToolResult, View
from refold.strategies.brief import Brief


class Use(Struct, frozen=True):
    """A tool use on the page: its call, its result, and where both stand."""

    call: ToolCall
    caller: Slot
    call_block: int
    result: ToolResult
    answer: Slot
    block: int


def uses(view: View) -> Iterator[Use]:
    """The answered tool uses, oldest first, of units in which every call has its result."""
    for unit in units(view.slots):
        if len(unit) > 1:
            yield from _unit_uses(view.slots[unit.start : unit.stop])


def _unit_uses(slots: Sequence[Slot]) -> list[Use]:
    """The uses of one unit; none if a call has no result yet."""
    calls = _calls_by_id(slots)
    found: list[Use] = []
    for slot, index, block in _blocks(slots):
        if isinstance(block, ToolResult) and block.call in calls:
            found.append(Use(*calls[block.call], block, slot, index))
    answered = {use.call.id for use in found}
    return found if answered == calls.keys() else []


def _calls_by_id(slots: Sequence[Slot]) -> dict[str, tuple[ToolCall, Slot, int]]:
    """Each call with the slot and the number of the block where it stands."""
    calls: dict[str, tuple[ToolCall, Slot, int]] = {}
    for slot, index, block in _blocks(slots):
        if isinstance(block, ToolCall):
            calls[block.id] = (block, slot, index)
    return calls


def _blocks(slots: Sequence[Slot]) -> Iterator[tuple[Slot, int, Block]]:
    """Every block with its slot and its number there."""
    for slot in slots:
        for index, block in enumerate(slot.message.blocks):
            yield slot, index, block


def result_tokens(brief: Brief, use: Use) -> int:
    """The tokens of a result. Where it is alone in its slot, they are the slot's without its
    frame, and nothing is counted."""
    message = use.answer.message
    if len(message.blocks) == 1:
        return use.answer.tokens - brief.count(Message(role=message.role))
    return brief.block_tokens(message, use.result)
