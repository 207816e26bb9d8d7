"""Clearing tool uses: a placeholder with a handle replaces the content of old tool results.

Call and result stay paired and in order; only their content is removed, the oldest first. Without a
preset clearing stops at the target; the preset `clear_tool_uses` clears all but the newest uses,
`prune` all but the newest 40,000 tokens of results. Results of excluded tools and unfinished pairs
are never cleared. `thinking` also removes the reasoning of older turns. Neighbours:
`shorten_results` shortens results to their needed lines, `fit` cuts what is still too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.core.laws import is_request, units
from refold.core.model import Edit, Message, Replace, Slot, Text, Thinking, ToolCall, ToolResult
from refold.core.plan import Ask
from refold.core.shortened import text_of
from refold.strategies.brief import Brief, check_choice, check_kind, reach
from refold.strategies.protected_messages import protected

LIMITS = {"trigger_tokens": 0, "keep": 3, "protect_tokens": 0, "total_tokens": 0}
PRESETS: dict[str, dict[str, int]] = {
    "": LIMITS,
    "clear_tool_uses": {**LIMITS, "trigger_tokens": 100_000},
    "prune": {**LIMITS, "keep": 0, "protect_tokens": 40_000, "total_tokens": 20_000},
}
CLEARED = "[cleared"


def clear(brief: Brief) -> list[Edit | Ask]:
    """Clears old tool results, and old thinking if the settings ask for it."""
    preset = brief.setting("preset", "")
    check_choice("unknown preset of clear:", preset, tuple(PRESETS))
    limits = {limit: brief.setting(limit, default) for limit, default in PRESETS[preset].items()}
    trigger_uses = brief.setting("trigger_uses", 0)
    thoughts = _clear_thinking(brief)
    answered = list(uses(brief.slots))
    if trigger_uses:
        is_due = len(answered) > trigger_uses
    else:
        is_due = brief.view.tokens >= max(limits["trigger_tokens"], limits["total_tokens"])
    if not is_due:
        return [*thoughts]
    old = _old_uses(brief, answered, limits)
    edits = list(_clear_uses(brief, old, is_fixed=bool(preset)))
    # Freeing less than `clear_at_least` is not worth the lost cache.
    if at_least := brief.setting("clear_at_least", 0):
        slots = {slot.seq: slot for slot in brief.slots}
        if sum(brief.freed_tokens(slots[edit.seq], edit) for edit in edits) < at_least:
            return [*thoughts]
    return [*thoughts, *edits]


def _old_uses(brief: Brief, answered: Sequence[Use], limits: dict[str, int]) -> list[Use]:
    """The uses that may be cleared: not the newest, protected, excluded or already cleared ones."""
    names = brief.settings.get("exclude_tools", ())
    check_kind("exclude_tools", names, (list, tuple))
    excluded = {*brief.config.exclude_tools, *map(str, names)}
    held = protected(brief.view)
    count = max(0, len(answered) - limits["keep"])
    # The use that crosses the limit is protected as well.
    tokens = 0
    while count and tokens < limits["protect_tokens"]:
        count -= 1
        tokens += result_tokens(brief, answered[count])
    return [
        use
        for use in answered[:count]
        if use.answer.seq not in held
        and use.call.name not in excluded
        and not _is_cleared(use.result)
    ]


def _is_cleared(result: ToolResult) -> bool:
    """Whether nothing is left to clear; a result without content counts as cleared."""
    if not result.content:
        return True
    first = result.content[0]
    return isinstance(first, Text) and first.text.startswith(CLEARED)


# --- edits ---


def _clear_uses(brief: Brief, old: Sequence[Use], *, is_fixed: bool) -> Iterator[Replace]:
    """Enough edits to reach the target, or edits of all uses if a preset fixes the amount."""
    placeholder = Text(_placeholder(brief, f"#{brief.view.head}"))
    placeholder_tokens = brief.block_tokens(Message(role="user"), placeholder)
    left = brief.excess
    for use in old:
        if left <= 0 and not is_fixed:
            return
        gain = result_tokens(brief, use) - placeholder_tokens
        if gain > 0:
            left -= gain
            handles = str(use.answer.span)
            if use.result.artifact:
                handles += f" or {use.result.artifact}"
            yield Replace(
                batch=brief.batch,
                seq=use.answer.seq,
                block=use.block,
                text=_placeholder(brief, handles),
                reason="an old tool result",
            )
        if edit := _input_edit(brief, use):
            gain = brief.freed_tokens(use.caller, edit)
            if gain > 0:
                left -= gain
                yield edit


def _placeholder(brief: Brief, handles: str) -> str:
    return f"{CLEARED}{reach(brief.view, handles, 'to read it')}]"


def _input_edit(brief: Brief, use: Use) -> Replace | None:
    """Clears the input of a call if `clear_inputs` is true or names its tool."""
    tools = brief.settings.get("clear_inputs", False)
    is_chosen = use.call.name in tools if isinstance(tools, list | tuple) else bool(tools)
    if not is_chosen or CLEARED in text_of(use.call)[:24]:
        return None
    text = f"{CLEARED}{reach(brief.view, str(use.caller.span))}]"
    if isinstance(use.call.arguments, str):  # arguments that came as JSON text stay JSON
        text = f'{{"…": "{text}"}}'
    return Replace(
        batch=brief.batch,
        seq=use.caller.seq,
        block=use.call_block,
        text=text,
        reason="the input of an old tool use",
    )


# --- thinking ---


def _clear_thinking(brief: Brief) -> list[Edit]:
    """Removes thinking except in the newest `thinking` turns that have any; 0 keeps all of it.

    Thinking is signed, so a block is removed completely or not at all. A message of nothing but
    thinking stays.
    """
    kept_turns = brief.setting("thinking", 0)
    if kept_turns <= 0:
        return []
    turns: list[list[Slot]] = [[]]  # of slots with thinking; a turn lies between two requests
    for slot in brief.slots:
        if is_request(slot):
            turns.append([])
        if any(isinstance(block, Thinking) for block in slot.message.blocks):
            turns[-1].append(slot)
    held = protected(brief.view)
    return [
        Replace(
            batch=brief.batch, seq=slot.seq, block=index, reason="the thinking of an older turn"
        )
        for turn in [turn for turn in turns if turn][:-kept_turns]
        for slot in turn
        if slot.seq not in held and _has_other_content(slot)
        for index, block in enumerate(slot.message.blocks)
        if isinstance(block, Thinking) and block != Thinking()
    ]


def _has_other_content(slot: Slot) -> bool:
    """Whether a message has content besides its thinking."""
    return any(
        isinstance(block, ToolCall | ToolResult)
        or (not isinstance(block, Thinking) and bool(text_of(block)))
        for block in slot.message.blocks
    )


# --- tool uses ---


class Use(Struct, frozen=True):
    """An answered tool call on the page: the call and its result, each with its slot and block."""

    call: ToolCall
    caller: Slot
    call_block: int
    result: ToolResult
    answer: Slot
    block: int


def uses(slots: Sequence[Slot]) -> Iterator[Use]:
    """The answered tool uses, oldest first, of units in which every call has its result."""
    for unit in units(slots):
        if len(unit) < 2:
            continue
        blocks = [
            (slot, index, block)
            for slot in slots[unit.start : unit.stop]
            for index, block in enumerate(slot.message.blocks)
        ]
        calls = {
            block.id: (block, slot, index)
            for slot, index, block in blocks
            if isinstance(block, ToolCall)
        }
        answered = [
            Use(*calls[block.call], block, slot, index)
            for slot, index, block in blocks
            if isinstance(block, ToolResult) and block.call in calls
        ]
        if {use.call.id for use in answered} == calls.keys():
            yield from answered


def result_tokens(brief: Brief, use: Use) -> int:
    """The tokens of a result. If it is the slot's only block, its size follows from the slot's,
    without counting."""
    message = use.answer.message
    if len(message.blocks) == 1:
        return use.answer.tokens - brief.count(Message(role=message.role))
    return brief.block_tokens(message, use.result)
