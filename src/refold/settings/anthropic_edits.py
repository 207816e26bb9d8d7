"""Anthropic's `context_management`, as it stands in a request, in our own settings.

    {"context_management": {"edits": [{"type": "clear_tool_uses_20250919", "keep": ...}]}}

Tool results are cleared by `clear` at the trigger that is given; thinking of older turns goes when
results do, or in steps where only thinking is named. `compact_20260112` is the size at which the
page is compacted. The usual ladder follows, so that a page always fits. What we do otherwise,
`unused` says. Neighbours: `sources` reads it wherever a setting may be, `magenta` is the other
block of this name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from refold import decoding
from refold.config import Config, check_names
from refold.errors import Invalid

EDITS = "edits"
PLACE = f"context_management.{EDITS}"
ALL_USES = 1_000_000_000  # of tool uses: none is cleared
STEADY = 1  # a trigger in tokens: from the beginning, in steps
LATER = "it is done by `clear`, at the trigger of clear_tool_uses or in steps, and not in each call"
GOES_ON = "the conversation goes on by itself after a compaction"
HINT = "see docs/guides/strategies.md"


class _Limit(Struct, frozen=True, forbid_unknown_fields=True):
    """A trigger: so many tokens of input, or tool uses."""

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
    """The settings that the edits mean."""
    edits = _checked(given, origin)
    strategy: dict[str, dict[str, Any]] = {}
    settings: dict[str, Any] = {
        "ladder": ("clear", *Config().ladder),
        "strategy": strategy,
    }
    for edit in edits:
        if isinstance(edit, ClearToolUses):
            strategy["clear"] = {**strategy.get("clear", {}), **_uses_settings(edit)}
        elif isinstance(edit, ClearThinking):
            strategy["clear"] = {**_only_thinking(edits), **strategy.get("clear", {})}
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


def _only_thinking(edits: Sequence[Edit]) -> dict[str, Any]:
    """What `clear` needs beside the thinking where no edit names tool uses."""
    if any(isinstance(edit, ClearToolUses) for edit in edits):
        return {}
    return {"preset": "clear_tool_uses", "keep": ALL_USES, "trigger_tokens": STEADY}


def _turns(edit: ClearThinking) -> int:
    """How many turns keep their thinking; 0 means all."""
    if edit.keep == "all" or edit.keep.type == "all":
        return 0
    return edit.keep.value


def unused(given: Mapping[str, Any], origin: str) -> list[str]:
    """What the edits ask for and we do otherwise, in words."""
    lines: list[str] = []
    for edit in _checked(given, origin):
        if isinstance(edit, ClearThinking) and _turns(edit):
            lines.append(f"{PLACE} clear_thinking_20251015: {LATER}")
        if isinstance(edit, Compact) and edit.pause_after_compaction:
            lines.append(f"{PLACE} pause_after_compaction: {GOES_ON}")
    return lines


# --- checking ---


def _checked(given: Mapping[str, Any], origin: str) -> list[Edit]:
    check_names(given, f"{origin}: context_management", (EDITS,))
    if not isinstance(given[EDITS], list | tuple):
        raise Invalid(f"{origin}: {PLACE} is not a list", hint=HINT)
    return [_edit(edit, f"{origin}: {PLACE}[{at}]") for at, edit in enumerate(given[EDITS])]


def _edit(given: object, place: str) -> Edit:
    try:
        edit: Edit = decoding.convert(given, Edit)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Invalid(f"{place}: {error}", hint=f"{_known()}; {HINT}") from error
    _check_numbers(edit, place)
    return edit


def _known() -> str:
    tags = (str(kind.__struct_config__.tag) for kind in get_args(Edit))
    return "known types: " + ", ".join(tags)


def _check_numbers(edit: Edit, place: str) -> None:
    """Refuses a number below 0, and a number of turns below 1."""
    for name in edit.__struct_fields__:
        value = getattr(getattr(edit, name), "value", None)
        least = 1 if isinstance(edit, ClearThinking) else 0
        if value is not None and value < least:
            raise Invalid(f"{place}.{name} is {value}", hint=f"give a number from {least}")
