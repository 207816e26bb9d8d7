"""Anthropic's `context_management`, as it is in a request, translated to our own settings.

    {"context_management": {"edits": [{"type": "clear_tool_uses_20250919", "keep": ...}]}}

`clear` removes tool results at the given trigger, and with them the thinking of older turns; if
only thinking is named, it works in steps. `compact_20260112` sets the size at which the page is
compacted. The usual ladder follows, so that a page always fits. `unused` reports differences.
Neighbours: `sources` reads the block, `magenta` is the other block of this name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from refold import decoding
from refold.config import Config, check_names
from refold.errors import Invalid

EDITS = "edits"
PLACE = f"context_management.{EDITS}"
ALL_USES = 1_000_000_000  # keeps all tool uses
STEADY = 1  # trigger in tokens: from the beginning, in steps
LATER = "`clear` does it, at the trigger of clear_tool_uses or in steps, and not in each call"
GOES_ON = "the conversation continues automatically after a compaction"
HINT = "see docs/guides/strategies.md"


class _Limit(Struct, frozen=True, forbid_unknown_fields=True):
    """A trigger: a number of input tokens, or of tool uses."""

    type: Literal["input_tokens", "tool_uses"]
    value: int


class _Tokens(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["input_tokens"]
    value: int


class _Uses(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["tool_uses"]
    value: int


class _Turns(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["thinking_turns", "all"]
    value: int = 1


class ClearToolUses(
    Struct, frozen=True, tag="clear_tool_uses_20250919", forbid_unknown_fields=True
):
    trigger: _Limit = _Limit("input_tokens", 100_000)
    keep: _Uses = _Uses("tool_uses", 3)
    clear_at_least: _Tokens | None = None
    exclude_tools: tuple[str, ...] | None = None
    clear_tool_inputs: bool | tuple[str, ...] | None = None


class ClearThinking(Struct, frozen=True, tag="clear_thinking_20251015", forbid_unknown_fields=True):
    keep: _Turns | Literal["all"] = _Turns("thinking_turns", 1)


class Compact(Struct, frozen=True, tag="compact_20260112", forbid_unknown_fields=True):
    trigger: _Tokens | None = _Tokens("input_tokens", 150_000)
    pause_after_compaction: bool = False
    instructions: str | None = None


Edit = ClearToolUses | ClearThinking | Compact


def settings_of(given: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The edits as settings."""
    edits = _checked(given, origin)
    # If no edit names tool uses, `clear` only removes thinking.
    has_uses = any(isinstance(edit, ClearToolUses) for edit in edits)
    only_thinking = {"preset": "clear_tool_uses", "keep": ALL_USES, "trigger_tokens": STEADY}
    strategy: dict[str, dict[str, Any]] = {}
    settings: dict[str, Any] = {
        "ladder": ("clear", *Config().ladder),
        "strategy": strategy,
    }
    for edit in edits:
        if isinstance(edit, ClearToolUses):
            strategy["clear"] = {**strategy.get("clear", {}), **_uses_settings(edit)}
        elif isinstance(edit, ClearThinking):
            strategy["clear"] = {**({} if has_uses else only_thinking), **strategy.get("clear", {})}
            strategy["clear"]["thinking"] = _turns(edit)
        else:
            settings["tokens_cap"] = edit.trigger.value if edit.trigger else 150_000
            if edit.instructions:
                strategy["gist"] = {"instructions": edit.instructions}
    return settings


def _uses_settings(edit: ClearToolUses) -> dict[str, Any]:
    """The settings of `clear` for one edit."""
    by_tokens = edit.trigger.type == "input_tokens"
    settings: dict[str, Any] = {
        "preset": "clear_tool_uses",
        "trigger_tokens" if by_tokens else "trigger_uses": edit.trigger.value,
        "keep": edit.keep.value,
    }
    if edit.clear_at_least is not None:
        settings["clear_at_least"] = edit.clear_at_least.value
    if edit.exclude_tools is not None:
        settings["exclude_tools"] = edit.exclude_tools
    if edit.clear_tool_inputs is not None:
        settings["clear_inputs"] = edit.clear_tool_inputs
    return settings


def _turns(edit: ClearThinking) -> int:
    """The number of turns that keep their thinking; 0 means all."""
    if edit.keep == "all" or edit.keep.type == "all":
        return 0
    return edit.keep.value


def unused(given: Mapping[str, Any], origin: str) -> list[str]:
    """A line for every edit that refold handles differently."""
    lines: list[str] = []
    for edit in _checked(given, origin):
        if isinstance(edit, ClearThinking) and _turns(edit):
            lines.append(f"{PLACE} clear_thinking_20251015: {LATER}")
        if isinstance(edit, Compact) and edit.pause_after_compaction:
            lines.append(f"{PLACE} pause_after_compaction: {GOES_ON}")
    return lines


def _checked(given: Mapping[str, Any], origin: str) -> list[Edit]:
    check_names(given, f"{origin}: context_management", (EDITS,))
    if not isinstance(given[EDITS], list | tuple):
        raise Invalid(f"{origin}: {PLACE} is not a list", hint=HINT)
    return [_edit(edit, f"{origin}: {PLACE}[{at}]") for at, edit in enumerate(given[EDITS])]


def _edit(given: object, path: str) -> Edit:
    """One edit; Invalid for an unknown type, a number below 0, or a number of turns below 1."""
    try:
        edit: Edit = decoding.convert(given, Edit)
    except (msgspec.ValidationError, RecursionError) as error:
        tags = ", ".join(str(kind.__struct_config__.tag) for kind in get_args(Edit))
        raise Invalid(f"{path}: {error}", hint=f"known types: {tags}; {HINT}") from error
    least = 1 if isinstance(edit, ClearThinking) else 0
    for name in edit.__struct_fields__:
        value = getattr(getattr(edit, name), "value", None)
        if value is not None and value < least:
            raise Invalid(f"{path}.{name} is {value}", hint=f"use a number from {least}")
    return edit
