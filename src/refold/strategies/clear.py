"""Clear-tool-uses: old tool results make room in place, and a placeholder says which handle gives
them back.

Pairs stay whole and in order, only their content goes, the oldest first. Without a preset it stops
at the target; the preset `clear_tool_uses` clears all but the newest uses, the preset `prune` all
but the newest 40,000 tokens of results. Some tools' results (memory) are never cleared, nor a pair
in progress. `thinking` removes the reasoning of older turns. Neighbours: `tool_uses` finds the
uses, `keep` shortens results to their needed lines, `fit` cuts what is still too large.

The answered tool uses of a page: each call with its result, and where both stand.

Only units in which every call has its result count; a pair in progress is left alone. Neighbours:
`clear` empties results, `keep` shortens them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from refold.core.laws import is_request, units
from refold.core.model import (
    Block,
    Edit,
    Message,
    Replace,
    Slot,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    View,
)
from refold.core.plan import Ask
from refold.core.shortened import text_of
from refold.strategies.brief import Brief, check_choice, check_kind, protected, reach

PRESETS: dict[str, dict[str, int]] = {
    "": {"trigger_tokens": 0, "keep": 3, "protect_tokens": 0, "total_tokens": 0},
    "clear_tool_uses": {
        "trigger_tokens": 100_000,
        "keep": 3,
        "protect_tokens": 0,
        "total_tokens": 0,
    },
    "prune": {"trigger_tokens": 0, "keep": 0, "protect_tokens": 40_000, "total_tokens": 20_000},
}
CLEARED = "[cleared"


def clear(brief: Brief) -> list[Edit | Ask]:
    """Clears old tool results, and old thinking if that is asked for."""
    preset = brief.setting("preset", "")
    limits = _limits(brief, preset)
    thoughts = _clear_thinking(brief)
    found = list(uses(brief.view))
    if not _is_due(brief, limits, found):
        return [*thoughts]
    old = _old_uses(brief, found, limits)
    edits = list(_clear_uses(brief, old, is_fixed=bool(preset)))
    return [*thoughts, *edits] if _is_enough(brief, edits) else [*thoughts]


def _limits(brief: Brief, preset: str) -> dict[str, int]:
    """The limits of a preset with the caller's changes."""
    check_choice("there is no way to clear", preset, tuple(PRESETS))
    limits = {limit: brief.setting(limit, default) for limit, default in PRESETS[preset].items()}
    return {**limits, "trigger_uses": brief.setting("trigger_uses", 0)}


def _is_due(brief: Brief, limits: dict[str, int], found: Sequence[Use]) -> bool:
    """Whether the page is large enough, by its tokens or, if that is set, by its tool uses."""
    if limits["trigger_uses"]:
        return len(found) > limits["trigger_uses"]
    return brief.view.tokens >= max(limits["trigger_tokens"], limits["total_tokens"])


def _is_enough(brief: Brief, edits: Sequence[Replace]) -> bool:
    """Whether the edits free what `clear_at_least` says: less is not worth the lost cache."""
    at_least: int = brief.setting("clear_at_least", 0)
    if not at_least:
        return True
    return _freed_by(brief, edits) >= at_least


def _freed_by(brief: Brief, edits: Iterable[Replace]) -> int:
    """What these edits free together."""
    slots = {slot.seq: slot for slot in brief.slots}
    return sum(brief.freed_tokens(slots[edit.seq], edit) for edit in edits)


# --- which uses ---


def _old_uses(brief: Brief, found: Sequence[Use], limits: dict[str, int]) -> list[Use]:
    """The uses that may be cleared: not the newest, not what is protected or excluded, not what
    is cleared already."""
    held = protected(brief.view)
    excluded = _excluded_tools(brief)
    older = found[: max(0, len(found) - limits["keep"])]
    older = older[: _unprotected_count(brief, older, limits["protect_tokens"])]
    free = [use for use in older if use.answer.seq not in held and use.call.name not in excluded]
    return [use for use in free if not _is_cleared(use.result)]


def _excluded_tools(brief: Brief) -> set[str]:
    """The tools whose results are never cleared."""
    names = brief.settings.get("exclude_tools", ())
    check_kind("exclude_tools", names, (list, tuple))
    return {*brief.config.exclude_tools, *map(str, names)}


def _unprotected_count(brief: Brief, older: Sequence[Use], protect_tokens: int) -> int:
    """How many of the uses lie before the newest that hold this many tokens; the one that
    crosses the line is protected."""
    tokens = 0
    index = len(older)
    while index and tokens < protect_tokens:
        index -= 1
        tokens += result_tokens(brief, older[index])
    return index


def _is_cleared(result: ToolResult) -> bool:
    """Whether nothing is left to clear; a result without content counts as cleared."""
    if not result.content:
        return True
    first = result.content[0]
    return isinstance(first, Text) and first.text.startswith(CLEARED)


# --- edits ---


def _clear_uses(brief: Brief, older: Iterable[Use], *, is_fixed: bool) -> Iterator[Replace]:
    """The edits for these uses, as many as the target needs, or for all if a preset fixes the
    amount."""
    least = _placeholder_tokens(brief)
    left = brief.excess
    for use in older:
        if left <= 0 and not is_fixed:
            return
        for edit, gain in _clear_use(brief, use, least):
            left -= gain
            yield edit


def _placeholder_tokens(brief: Brief) -> int:
    """The size of a placeholder: what is not larger stays."""
    placeholder = Text(_placeholder(brief, f"#{brief.view.head}"))
    return brief.block_tokens(Message(role="user"), placeholder)


def _clear_use(brief: Brief, use: Use, least: int) -> Iterator[tuple[Replace, int]]:
    """The edits for one use that free something, and what each frees."""
    gain = result_tokens(brief, use) - least
    if gain > 0:
        yield _result_edit(brief, use), gain
    is_cleared = CLEARED in text_of(use.call)[:24]
    if not is_cleared and _is_input_meant(brief, use.call):
        edit = _input_edit(brief, use)
        gain = brief.freed_tokens(use.caller, edit)
        if gain > 0:
            yield edit, gain


def _result_edit(brief: Brief, use: Use) -> Replace:
    return Replace(
        batch=brief.batch,
        seq=use.answer.seq,
        block=use.block,
        text=_result_placeholder(brief, use),
        reason="an old tool result",
    )


def _result_placeholder(brief: Brief, use: Use) -> str:
    """Names the handle, and the artifact if the result was a stub for one."""
    handles = str(use.answer.span)
    if use.result.artifact:
        handles += f" or {use.result.artifact}"
    return _placeholder(brief, handles)


def _placeholder(brief: Brief, handles: str) -> str:
    return f"{CLEARED}{reach(brief.view, handles, 'to read it')}]"


def _is_input_meant(brief: Brief, call: ToolCall) -> bool:
    """Whether `clear_inputs` means this call: all calls, or those of the tools it names."""
    meant = brief.settings.get("clear_inputs", False)
    if isinstance(meant, list | tuple):
        return call.name in meant
    return bool(meant)


def _input_edit(brief: Brief, use: Use) -> Replace:
    return Replace(
        batch=brief.batch,
        seq=use.caller.seq,
        block=use.call_block,
        text=_input_placeholder(brief, use),
        reason="the input of an old tool use",
    )


def _input_placeholder(brief: Brief, use: Use) -> str:
    """Names the handle; as JSON where the arguments came as text."""
    text = f"{CLEARED}{reach(brief.view, str(use.caller.span))}]"
    return f'{{"…": "{text}"}}' if isinstance(use.call.arguments, str) else text


# --- thinking ---


def _clear_thinking(brief: Brief) -> list[Edit]:
    """Removes the thinking of all but the newest turns that have any, as many as `thinking` says; 0
    leaves all.

    Thinking is signed, so it goes whole or not at all, and not where it is all that a message says.
    """
    turns = brief.setting("thinking", 0)
    if turns <= 0:
        return []
    edits: list[Edit] = []
    for slot in _thoughtful_slots(brief.view, turns):
        edits += _thinking_edits(brief, slot)
    return edits


def _thoughtful_slots(view: View, turns: int) -> list[Slot]:
    """The slots whose thinking may go: all but those of the newest turns."""
    held = protected(view)
    older = chain.from_iterable(_thoughtful_turns(view)[:-turns])
    return [slot for slot in older if slot.seq not in held and _says_more(slot)]


def _thinking_edits(brief: Brief, slot: Slot) -> list[Replace]:
    """The edits that empty the thinking of a message."""
    reason = "the thinking of an older turn"
    blocks = enumerate(slot.message.blocks)
    thoughts = [index for index, block in blocks if _is_thought(block)]
    return [Replace(batch=brief.batch, seq=slot.seq, block=at, reason=reason) for at in thoughts]


def _is_thought(block: Block) -> bool:
    """Whether a block is thinking that was not emptied yet."""
    return isinstance(block, Thinking) and block != Thinking()


def _thoughtful_turns(view: View) -> list[list[Slot]]:
    """The slots that think, by turn: a turn is what lies between two requests."""
    turns: list[list[Slot]] = [[]]
    for slot in view.slots:
        if is_request(slot):
            turns.append([])
        if _thinks(slot):
            turns[-1].append(slot)
    return [turn for turn in turns if turn]


def _thinks(slot: Slot) -> bool:
    """Whether a message has thinking in it."""
    return any(isinstance(block, Thinking) for block in slot.message.blocks)


def _says_more(slot: Slot) -> bool:
    """Whether a message says something besides its thinking."""
    for block in slot.message.blocks:
        if isinstance(block, ToolCall | ToolResult):
            return True
        if not isinstance(block, Thinking) and text_of(block):
            return True
    return False


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
