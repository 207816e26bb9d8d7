"""Faults of a request: lines with the place and the reason for which the provider would refuse it.

First what the checks of all dialects share, then the faults of the options of a call: limits,
sampling, thinking, tool choice, names of tools. One table has the documented bounds of every
provider, and one function applies them; what only one provider has (thinking, edits of the
context) is a rule of its own. An absent option has no fault. Neighbours: the dialects' `check`
knows messages and the shapes of tools, and calls this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any

from msgspec import Struct

from refold.checked import quoted, shown
from refold.dialects.wire import at, objects_in

Faults = Iterator[str]


def faults_in(
    place: str, items: Iterable[Any], find: Callable[[Any], Iterable[str]], between: str = ": "
) -> Faults:
    """The faults of every item of a list, each prefixed with its position."""
    for index, item in enumerate(items):
        for fault in find(item):
            yield f"{place}[{index}]{between}{fault}"


def tool_faults(tools: Any, find: Callable[[Any], Iterable[str]]) -> Faults:
    """The faults of tools, which must be a list that is not empty."""
    if isinstance(tools, list) and tools:
        yield from faults_in("tools", tools, find)
    else:
        yield "tools: not a list with at least one tool"


def name_faults(fields: Mapping[str, Any], key: str) -> Faults:
    """The fault of a field that must be a string that is not empty."""
    value = fields.get(key)
    if not is_name(value):
        yield f"{key} is {value!r}"


def pattern_faults(fields: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> Faults:
    """The fault of a field that must match a pattern."""
    value = fields.get(key)
    if not matches(pattern, value):
        yield f"{key} is {value!r}"


def type_faults(fields: Mapping[str, Any], key: str, *types: type) -> Faults:
    """The fault of a field that must be of one of these types."""
    value = fields.get(key)
    if not isinstance(value, types):
        yield f"{key} is {type(value).__name__}"


def is_name(value: Any) -> bool:
    """Whether this is a string that is not empty."""
    return isinstance(value, str) and bool(value)


def matches(pattern: re.Pattern[str], value: Any) -> bool:
    """Whether this is a string that matches the pattern."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def is_object_schema(schema: Any) -> bool:
    """Whether this is the schema of an object, which all arguments of tools are."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return isinstance(kind, str) and kind.lower() == "object"


def takes_object(parameters: Any) -> bool:
    """Whether this is the schema of an object, or there is none."""
    return parameters is None or parameters == {} or is_object_schema(parameters)


def kind_in(part: Any) -> Any:
    """The `type` field of an object; None for any other value."""
    return part.get("type") if isinstance(part, dict) else None


def repeated(ids: list[str]) -> list[str]:
    """The repeated ids, once for each repetition."""
    return [id for index, id in enumerate(ids) if id in ids[:index]]


# --- options ---

Request = Mapping[str, Any]


class _Bounds(Struct, frozen=True, kw_only=True):
    """The bounds of one provider: `counts` are whole numbers and their least value, `shares` other
    numbers and their range, `stops` the field of stop sequences and their largest number."""

    counts: dict[str, int]
    shares: dict[str, tuple[float, float]]
    stops: tuple[str, float]
    tools_max: float = inf


_SHARE = (0.0, 1.0)
BOUNDS = {
    "anthropic": _Bounds(
        counts={"max_tokens": 1, "top_k": 0},
        shares={"temperature": (0.0, 1.0), "top_p": _SHARE},
        stops=("stop_sequences", inf),
    ),
    "openai_chat": _Bounds(
        counts={"max_tokens": 1, "max_completion_tokens": 1, "n": 1, "top_logprobs": 0},
        shares={
            "temperature": (0.0, 2.0), "top_p": _SHARE, "presence_penalty": (-2.0, 2.0),
            "frequency_penalty": (-2.0, 2.0),
        },
        stops=("stop", 4),
        tools_max=128,
    ),
    "openai_responses": _Bounds(
        counts={"max_output_tokens": 16, "max_tool_calls": 1, "top_logprobs": 0},
        shares={"temperature": (0.0, 2.0), "top_p": _SHARE},
        stops=("", inf),
        tools_max=128,
    ),
    "gemini": _Bounds(
        counts={"max_output_tokens": 1, "candidate_count": 1, "top_k": 1},
        shares={"temperature": (0.0, 2.0), "top_p": _SHARE},
        stops=("stop_sequences", 5),
    ),
}  # fmt: skip


def option_faults(dialect: str, options: Request, names: list[Any]) -> Faults:
    """The faults of options, with the names of the defined tools."""
    bounds = BOUNDS[dialect]
    for key, least in bounds.counts.items():
        value = options.get(key)
        if value is not None and (type(value) is not int or value < least):
            yield f"{key}: {shown(value)}, not a whole number of at least {least}"
    for key, (lowest, highest) in bounds.shares.items():
        value = options.get(key)
        if value is None:
            continue
        if type(value) not in (int, float) or not lowest <= value <= highest:
            yield f"{key}: {shown(value)}, not a number from {lowest:g} to {highest:g}"
    key, most = bounds.stops
    stops = options.get(key)
    stops = [stops] if isinstance(stops, str) and key == "stop" else stops
    if stops is not None and not (isinstance(stops, list) and all(map(is_name, stops))):
        yield f"{key}: not texts"
    elif stops is not None and len(stops) > most:
        yield f"{key}: {len(stops)} sequences, at most {most} are allowed"
    if len(names) > bounds.tools_max:
        yield f"tools: {len(names)} tools, at most {bounds.tools_max} are allowed"
    named = [name for name in names if is_name(name)]
    yield from (f"tools: a second tool called {quoted(name, 60)}" for name in repeated(named))
    yield from _FAULTS[dialect](options, named)


def _missing(choice: Any, name: Any, names: list[str]) -> Faults:
    if name not in names:
        yield f"tool_choice: {shown(choice)} names no tool of this request"


# --- Anthropic ---

_BUDGET_MIN, _TOP_P_MIN = 1_024, 0.95
_INTERLEAVED = "interleaved-thinking-"
_COMPACT_MIN = 50_000
_EDITS = ("clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112")
_COMPACTS_WITHOUT = ("context_management", "stop_sequences", "output_config", "output_format")


def _anthropic_faults(options: Request, names: list[str]) -> Faults:
    choice: Any = options.get("tool_choice")
    thinking: Any = options.get("thinking")
    kind = kind_in(choice)
    is_forced = kind in ("any", "tool")
    if choice is not None and kind not in ("auto", "any", "tool", "none"):
        yield f"tool_choice: {shown(choice)}, not of type auto, any, tool or none"
    elif choice is not None and not options.get("tools"):
        yield "tool_choice: there are no tools"
    elif kind == "tool" and isinstance(choice, Mapping):
        yield from _missing(choice, choice.get("name"), names)
    if any(not text.strip() for text in options.get("stop_sequences") or () if is_name(text)):
        yield "stop_sequences: a sequence of white space"
    is_on = thinking is not None and kind_in(thinking) != "disabled"
    if is_on:
        yield from _thinking_faults(options, thinking)
        if is_forced:
            yield f"tool_choice: {kind} forces a tool while thinking is on"
    edits = at(options, ("context_management", "edits"))
    for index, edit in enumerate(objects_in(edits)):
        place = f"context_management.edits[{index}]"
        if edit.get("type") not in _EDITS:
            yield f"{place}: unknown type {shown(edit.get('type'))}"
        elif edit["type"] == _EDITS[1]:
            if not is_on:
                yield f"{place}: thinking is cleared while it is off"
            if index:
                yield f"{place}: clear_thinking is not the first edit"
        elif edit["type"] == _EDITS[2]:
            tokens = at(edit, ("trigger", "value"))
            if type(tokens) is int and tokens < _COMPACT_MIN:
                yield f"{place}: a trigger of {tokens} tokens, at least {_COMPACT_MIN} are needed"
    if options.get("compaction") is not None:
        yield from (
            f"{key}: not with a compaction" for key in _COMPACTS_WITHOUT if options.get(key)
        )
        if is_forced:
            yield f"tool_choice: {kind} forces a tool in a compaction"


def _thinking_faults(options: Request, thinking: Any) -> Faults:
    """The faults of thinking, and of the options that cannot be combined with it."""
    kind, most = kind_in(thinking), options.get("max_tokens")
    budget: Any = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    if kind not in ("enabled", "adaptive"):
        yield f"thinking: {shown(thinking)}, not of type enabled, adaptive or disabled"
    elif kind == "enabled" and (type(budget) is not int or budget < _BUDGET_MIN):
        yield f"thinking: budget_tokens is {shown(budget)}, at least {_BUDGET_MIN} are needed"
    elif kind == "enabled" and type(most) is int and budget >= most:
        # Thinking counts toward the limit of the answer, except between calls.
        betas = options.get("betas") or ()
        if not any(str(beta).startswith(_INTERLEAVED) for beta in betas):
            yield f"max_tokens: {most}, which is not above the thinking budget of {budget}"
    if options.get("temperature", 1) not in (1, None):
        yield f"temperature: {shown(options['temperature'])} while thinking is on"
    if options.get("top_k") is not None:
        yield "top_k: set while thinking is on"
    top_p = options.get("top_p")
    if type(top_p) is float and top_p < _TOP_P_MIN:
        yield f"top_p: {top_p}, below {_TOP_P_MIN} while thinking is on"


# --- OpenAI ---

_MODES = ("none", "auto", "required")


def _chat_faults(options: Request, names: list[str]) -> Faults:
    choice = options.get("tool_choice")
    if options.get("max_tokens") is not None and options.get("max_completion_tokens") is not None:
        yield "max_tokens: set beside max_completion_tokens"
    for key in ("tool_choice", "parallel_tool_calls"):
        if options.get(key) is not None and not options.get("tools"):
            yield f"{key}: there are no tools"
    if not options.get("tools"):
        return
    if isinstance(choice, dict):
        yield from _chosen_faults(choice, names, lambda one: at(one, (str(kind_in(one)), "name")))
    elif choice is not None and choice not in _MODES:
        yield f"tool_choice: {shown(choice)}, not none, auto, required or a tool"


def _responses_faults(options: Request, names: list[str]) -> Faults:
    choice = options.get("tool_choice")
    if isinstance(choice, dict):
        yield from _chosen_faults(choice, names, lambda one: at(one, ("name",)))
    elif choice is not None and choice not in _MODES:
        yield f"tool_choice: {shown(choice)}, not none, auto, required or a tool"
    elif choice == "required" and not options.get("tools"):
        yield "tool_choice: there are no tools"
    if options.get("previous_response_id") is not None and options.get("conversation") is not None:
        yield "previous_response_id: set beside conversation"


def _chosen_faults(choice: Request, names: list[str], name_of: Callable[[Any], Any]) -> Faults:
    """The faults of a choice that names one tool, or several that are allowed."""
    kind = choice.get("type")
    if kind in ("function", "custom"):
        yield from _missing(choice, name_of(choice), names)
    elif kind == "allowed_tools":
        allowed = choice.get("allowed_tools", choice)
        for tool in objects_in(at(allowed, ("tools",))):
            if kind_in(tool) in ("function", "custom"):
                yield from _missing(tool, name_of(tool), names)
    elif not is_name(kind):
        yield f"tool_choice: {shown(choice)}, not none, auto, required or a tool"


# --- Gemini ---

_CALLING = ("tool_config", "function_calling_config")


def _gemini_faults(options: Request, names: list[str]) -> Faults:
    budget = at(options, ("thinking_config", "thinking_budget"))
    if type(budget) is int and budget < -1:
        yield f"thinking_config: a budget of {budget} tokens"
    calling = at(options, _CALLING)
    mode = str(at(calling, ("mode",))).upper()
    allowed = at(calling, ("allowed_function_names",))
    if isinstance(allowed, list):
        if mode not in ("ANY", "VALIDATED"):
            yield "tool_config: allowed_function_names is only for the mode ANY or VALIDATED"
        for name in allowed:
            if name not in names:
                yield f"tool_config: {shown(name)} names no tool of this request"
    if mode == "ANY" and not names:
        yield "tool_config: there are no functions"


_FAULTS: dict[str, Callable[[Request, list[str]], Faults]] = {
    "anthropic": _anthropic_faults,
    "openai_chat": _chat_faults,
    "openai_responses": _responses_faults,
    "gemini": _gemini_faults,
}
