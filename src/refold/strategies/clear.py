"""Clear-tool-uses: old tool results make room in place, and a placeholder says which handle gives
them back.

Pairs stay whole and in order, only their content goes, the oldest first. By itself it stops at the
target; the preset `clear_tool_uses` clears all but the newest uses, the preset `prune` all but the
newest 40,000 tokens of results. Some tools' results (memory) are never cleared, nor a pair in
progress. `thinking` removes the reasoning of older turns. Neighbours: `keep` shortens results to
their needed lines, `fit` cuts what is still too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from refold.core.fold import shortened, text_of
from refold.core.laws import is_request, units
from refold.core.model import (
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
from refold.errors import Invalid
from refold.strategies.brief import Brief, block_tokens, protected

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


class Use(Struct, frozen=True):
    """A tool use on the page: its call, its result, and where both stand."""

    call: ToolCall
    caller: Slot
    call_block: int
    result: ToolResult
    answer: Slot
    block: int


def clear(brief: Brief) -> list[Edit | Ask]:
    """Clears old tool results, and old thinking if that is asked for."""
    name = brief.setting("preset", "")
    if name not in PRESETS:
        raise Invalid(
            f"there is no way to clear {name!r}", hint="known: " + ", ".join(filter(None, PRESETS))
        )
    limits = {limit: brief.setting(limit, default) for limit, default in PRESETS[name].items()}
    thoughts = _thinking(brief)
    found = list(uses(brief.view))
    if not _due(brief, limits, found):
        return [*thoughts]
    edits = list(_upto_target(brief, _old(brief, found, limits), fixed=bool(name)))
    return [*thoughts, *(edits if _is_enough(brief, edits) else ())]


def _is_enough(brief: Brief, edits: Sequence[Replace]) -> bool:
    """Whether the edits free what `clear_at_least` says: less is not worth the lost cache."""
    at_least: int = brief.setting("clear_at_least", 0)
    slots = {slot.seq: slot for slot in brief.view.slots} if at_least else {}
    return not at_least or _freed(brief, [(slots[edit.seq], edit) for edit in edits]) >= at_least


def _due(brief: Brief, limits: dict[str, int], found: Sequence[Use]) -> bool:
    """Whether the page is large enough, by its tokens or, if that is set, by its tool uses."""
    trigger_uses: int = brief.setting("trigger_uses", 0)
    if trigger_uses:
        return len(found) > trigger_uses
    return brief.view.tokens >= max(limits["trigger_tokens"], limits["total_tokens"])


# --- tool uses ---


def uses(view: View) -> Iterator[Use]:
    """The answered tool uses, oldest first, of units in which every call has its result."""
    for unit in units(view.slots):
        if len(unit) > 1:
            yield from _unit_uses([view.slots[index] for index in unit])


def _unit_uses(slots: Sequence[Slot]) -> list[Use]:
    calls = {
        block.id: (block, slot, at)
        for slot in slots
        for at, block in enumerate(slot.message.blocks)
        if isinstance(block, ToolCall)
    }
    found = [
        Use(*calls[block.call], block, slot, at)
        for slot in slots
        for at, block in enumerate(slot.message.blocks)
        if isinstance(block, ToolResult) and block.call in calls
    ]
    return found if {use.call.id for use in found} == set(calls) else []


def _old(brief: Brief, found: Sequence[Use], limits: dict[str, int]) -> list[Use]:
    """The uses that may be cleared: not the newest, not what is protected or excluded, not what
    is cleared already."""
    held = protected(brief.view)
    excluded = {*brief.config.exclude_tools, *_names(brief, "exclude_tools")}
    older = found[: max(0, len(found) - limits["keep"])]
    if limits["protect_tokens"]:
        older = older[: _unprotected(brief, older, limits["protect_tokens"])]
    return [
        use
        for use in older
        if use.call.name not in excluded
        and use.answer.seq not in held
        and not _is_cleared(use.result)
    ]


def _unprotected(brief: Brief, older: Sequence[Use], protect: int) -> int:
    """How many of the uses lie before the newest that hold this many tokens; the one that
    crosses the line is held."""
    tokens, index = 0, len(older)
    while index and tokens < protect:
        index -= 1
        tokens += part_tokens(brief, older[index].answer, older[index].result)
    return index


def part_tokens(brief: Brief, slot: Slot, block: ToolResult | ToolCall) -> int:
    """The tokens of a block; where it is alone in its slot, the slot's without its frame, and
    nothing is counted."""
    if len(slot.message.blocks) == 1:
        return slot.tokens - brief.count(Message(role=slot.message.role))
    return block_tokens(brief.count, slot.message, block)


def _is_cleared(result: ToolResult) -> bool:
    first = result.content[0] if result.content else Text(CLEARED)
    return isinstance(first, Text) and first.text.startswith(CLEARED)


# --- edits ---


def _upto_target(brief: Brief, older: Iterable[Use], *, fixed: bool) -> Iterator[Replace]:
    """The edits for these uses, as many as the target needs, or for all if a preset fixes the
    amount. What is no larger than a placeholder stays."""
    placeholder = Text(f"{CLEARED}; unfold #{brief.view.head} to read it]")
    least = block_tokens(brief.count, Message(role="user"), placeholder)
    left = brief.excess
    for use in older:
        if left <= 0 and not fixed:
            return
        output = part_tokens(brief, use.answer, use.result)
        if output > least:
            left -= output - least
            yield _result_edit(brief, use)
        if _is_input_meant(brief, use.call):
            edit = _input_edit(brief, use)
            gain = _freed(brief, [(use.caller, edit)])
            left -= max(0, gain)
            yield from [edit] if gain > 0 else []


def _is_input_meant(brief: Brief, call: ToolCall) -> bool:
    meant = brief.settings.get("clear_inputs", False)
    named = call.name in meant if isinstance(meant, list | tuple) else bool(meant)
    return named and CLEARED not in text_of(call)[:24]


def _result_edit(brief: Brief, use: Use) -> Replace:
    """The placeholder names the handle, and the artifact if the result was a stub for one."""
    whole = (
        f"{use.answer.span} or {use.result.artifact}"
        if use.result.artifact
        else f"{use.answer.span}"
    )
    text = f"{CLEARED}; unfold {whole} to read it]"
    return Replace(
        batch=brief.batch,
        seq=use.answer.seq,
        block=use.block,
        text=text,
        reason="an old tool result",
    )


def _input_edit(brief: Brief, use: Use) -> Replace:
    text = f"{CLEARED}; unfold {use.caller.span}]"
    if isinstance(use.call.arguments, str):
        text = f'{{"…": "{text}"}}'
    reason = "the input of an old tool use"
    return Replace(
        batch=brief.batch, seq=use.caller.seq, block=use.call_block, text=text, reason=reason
    )


def _freed(brief: Brief, edits: Iterable[tuple[Slot, Replace]]) -> int:
    """What the edits take off their slots, counted."""
    pairs = ((slot.message, slot.message.blocks[edit.block], edit) for slot, edit in edits)
    return sum(
        block_tokens(brief.count, message, block)
        - block_tokens(brief.count, message, shortened(block, edit))
        for message, block, edit in pairs
    )


def _names(brief: Brief, setting: str) -> list[str]:
    names: Any = brief.settings.get(setting, ())
    if not isinstance(names, list | tuple):
        raise Invalid(f"the setting {setting} is {names!r}", hint="give a list of tool names")
    return [str(name) for name in names]


# --- thinking ---


def _thinking(brief: Brief) -> list[Edit]:
    """Removes the thinking of all but the newest turns that have any, as many as `thinking` says; 0
    leaves all.

    Thinking is signed, so it goes whole or not at all, and not where it is all that a message says.
    """
    turns = brief.setting("thinking", 0)
    held = protected(brief.view) if turns else set()
    old = _thoughtful_turns(brief.view)[:-turns] if turns > 0 else []
    return [
        Replace(batch=brief.batch, seq=slot.seq, block=at, reason="the thinking of an older turn")
        for turn in old
        for slot in turn
        for at, block in enumerate(slot.message.blocks)
        if isinstance(block, Thinking)
        and block != Thinking()
        and slot.seq not in held
        and _says_more(slot)
    ]


def _thoughtful_turns(view: View) -> list[list[Slot]]:
    """The slots that think, by turn: a turn is what lies between two requests."""
    turns: list[list[Slot]] = [[]]
    for slot in view.slots:
        if is_request(slot):
            turns.append([])
        if any(isinstance(block, Thinking) for block in slot.message.blocks):
            turns[-1].append(slot)
    return [turn for turn in turns if turn]


def _says_more(slot: Slot) -> bool:
    others = (block for block in slot.message.blocks if not isinstance(block, Thinking))
    return any(isinstance(block, ToolCall | ToolResult) or text_of(block) for block in others)
