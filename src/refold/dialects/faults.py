"""What the validators share: faults with their places, and the questions they ask of a value.

A fault is a line that says where something stands and what the provider would refuse about it.
Neighbours: the dialects' `check`, and nothing else: what renders a request must not check it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Faults = Iterator[str]


def faults_in(
    place: str, items: Iterable[Any], find: Callable[[Any], Iterable[str]], between: str = ": "
) -> Faults:
    """The faults of every item of a list, each with its place before it."""
    for index, item in enumerate(items):
        for fault in find(item):
            yield f"{place}[{index}]{between}{fault}"


def tool_faults(tools: Any, find: Callable[[Any], Iterable[str]]) -> Faults:
    """The faults of tools that must be a list, and not an empty one."""
    if isinstance(tools, list) and tools:
        yield from faults_in("tools", tools, find)
    else:
        yield "tools: not a list with at least one tool"


def name_faults(fields: Mapping[str, Any], key: str) -> Faults:
    """The fault of a field that must be a text that says something."""
    value = fields.get(key)
    if not is_name(value):
        yield f"{key} is {value!r}"


def pattern_faults(fields: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> Faults:
    """The fault of a field that must be a text of that pattern."""
    value = fields.get(key)
    if not matches(pattern, value):
        yield f"{key} is {value!r}"


def type_faults(fields: Mapping[str, Any], key: str, *types: type) -> Faults:
    """The fault of a field that must be of one of these types."""
    value = fields.get(key)
    if not isinstance(value, types):
        yield f"{key} is {type(value).__name__}"


def is_name(value: Any) -> bool:
    """Whether this is a text that says something."""
    return isinstance(value, str) and bool(value)


def matches(pattern: re.Pattern[str], value: Any) -> bool:
    """Whether this is a text of that pattern."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def kind_in(part: Any) -> Any:
    """The type that an object says it has; None for what is not an object."""
    return part.get("type") if isinstance(part, dict) else None


def repeated(ids: list[str]) -> list[str]:
    """The ids that came before, once for every time they come again."""
    return [id for index, id in enumerate(ids) if id in ids[:index]]
