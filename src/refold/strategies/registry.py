"""The strategies by name, each with its settings. A new strategy is a file in this room and a line
here; a caller may register its own, with its settings.

Settings are checked here and nowhere else: the configuration's when a conversation is opened, a
call's before its plan is made. The types are declared here and not in the strategies, so that a
check imports no strategy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from refold.checked import quoted, shown
from refold.config import check_names
from refold.display import is_text, nearest, suggestion
from refold.errors import Invalid
from refold.strategies.brief import KEEP_RECENT, Strategy, check_kind

Kinds = type | tuple[type, ...]
Settings = Mapping[str, Kinds]

_LIST = (list, tuple)
_IMPORTANCE: Settings = {
    "preset": str,
    "threshold": float,
    "rest": str,
    "weights": dict,
    "keep_recent": int,
    "max_tokens": int,
    "trigger_tokens": int,
}
_CLEAR: Settings = {
    "preset": str,
    "keep": int,
    "trigger_tokens": int,
    "trigger_uses": int,
    "protect_tokens": int,
    "total_tokens": int,
    "clear_at_least": int,
    "clear_inputs": (bool, *_LIST),
    "exclude_tools": _LIST,
    "thinking": int,
}

# Every strategy takes this in a call, and none in the configuration, where it is a general setting.
IN_A_CALL: Settings = {KEEP_RECENT: int}

# By name: the module of this room that has a function of that name, and its settings with types.
BUILT_IN: dict[str, tuple[str, Settings]] = {
    "dedup": ("dedup", {"same_chars": int}),
    "gist": ("gist", {"instructions": str}),
    "hide": ("hide", {"preset": str, "fraction": float}),
    "fit": ("fit", {}),
    "native": ("native", {}),
    "clear": ("clear", _CLEAR),
    "keep": ("shorten_results", {"head": int, "tail": int, "lines": int, "min_tokens": int}),
    "window": ("window", {"by": str, "keep": int, "max_tokens": int, "max_age_hours": float}),
    "hierarchical": ("hierarchical", {"keep": int, "focus": int}),
    "importance": ("importance", _IMPORTANCE),
    "relevance": ("importance", _IMPORTANCE),
    "summarize": ("summarize", {"keep": int, "threshold": int, "instructions": str}),
}
# The valid names, for settings that are names. The strategies have the same (`PRESETS`, `WAYS`).
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "hide": {"preset": ("", "none", "lastTwo", "half", "quarter", "auto", "condense")},
    "clear": {"preset": ("", "clear_tool_uses", "prune")},
    "window": {"by": ("messages", "tokens", "age")},
    "importance": {"preset": ("", "threshold"), "rest": ("hide", "summarize")},
    "relevance": {"preset": ("", "threshold"), "rest": ("hide", "summarize")},
}
# Not strategies, but read by several: how tool calls are interpreted.
SHARED: dict[str, Settings] = {"actions": {"cwd": str, "ignore_case": bool}}
# A name is written to the log, and `+` separates several names.
_NAME = re.compile(r"[^\s+\x00-\x1f]{1,100}")
_registered: dict[str, tuple[Strategy, Settings | None]] = {}


def register(name: str, strategy: Strategy, *, settings: Settings | None = None) -> None:
    """Makes a caller's own strategy usable by name. `settings` are its settings with their types
    (`{"tokens_max": int}`), and any other is refused. Without them it takes anything."""
    if not is_text(name) or not _NAME.fullmatch(name):
        hint = "letters, digits, dashes and underscores, as in my-strategy"
        raise Invalid(f"{quoted(name)} is not the name of a strategy", hint=hint)
    _registered[name] = (strategy, settings)


def forget(name: str) -> None:
    """Removes a registered strategy, if there is one of this name."""
    _registered.pop(name, None)


def strategy(name: str) -> Strategy:
    """The strategy of that name; a built-in one is imported when it is needed."""
    if name in _registered:
        return _registered[name][0]
    if name not in BUILT_IN:
        raise _unknown(name)
    module = import_module(f"refold.strategies.{BUILT_IN[name][0]}")
    built_in: Strategy = getattr(module, name)
    return built_in


def _unknown(name: str) -> Invalid:
    hint = suggestion(name, sorted({*BUILT_IN, *_registered}))
    return Invalid(f"there is no strategy {name!r}", hint=f"{hint}; your own are registered first")


def rungs(names: Sequence[str]) -> list[tuple[str, Strategy]]:
    """The strategies of a ladder, with their names."""
    return [(name, strategy(name)) for name in names]


# --- settings ---


def check_tables(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses an unknown setting in the configuration, and a misspelt strategy. A name unlike any
    other is left alone and listed by `unknown_tables`: another program that shares the file may
    have registered it."""
    for name, settings in tables.items():
        if not _is_known(name) and nearest(name, [*BUILT_IN, *SHARED, *_registered]):
            raise _unknown(name)
        check_settings(settings, [name], f"strategy.{name}")


def unknown_tables(tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each table of settings for a strategy that is not registered here."""
    unknown = [name for name in tables if not _is_known(name)]
    return [f"strategy.{name}: no strategy of that name is registered" for name in unknown]


def check_ladder(names: Sequence[str]) -> None:
    """Refuses a ladder with an unknown strategy."""
    for name in names:
        if name not in BUILT_IN and name not in _registered:
            raise _unknown(name)


def _is_known(name: str) -> bool:
    return name in BUILT_IN or name in SHARED or name in _registered


def check_settings(settings: Mapping[str, Any], names: Sequence[str], origin: str = "") -> None:
    """Refuses an unknown setting, a value of a wrong type, a negative number, and an unknown
    choice. The settings of a call are for all of its strategies: each takes its own."""
    tables = [_settings_of(name) for name in names]
    if not origin:
        tables.append(IN_A_CALL)
        origin = f"the call of {'+'.join(names)}"
    known: dict[str, list[type]] = {}
    for table in tables:
        for setting, kinds in (table or {}).items():
            known.setdefault(setting, []).extend(kinds if isinstance(kinds, tuple) else (kinds,))
    if None not in tables:
        if settings and not known:
            first = next(iter(settings))
            raise Invalid(f"{origin} has an unknown name {first!r}", hint="it takes no settings")
        check_names(settings, origin, list(known))
    for setting, value in settings.items():
        if setting in known:
            check_kind(f"{setting} of {origin}", value, known[setting])
            # Every number of a strategy is a size, a count or a share.
            if isinstance(value, int | float) and value < 0:
                raise Invalid(f"{setting} of {origin} is {value}", hint="use a number from 0")
    choices = [CHOICES.get(name, {}) for name in names if name not in _registered]
    for setting, value in settings.items():
        valid = [choice for table in choices for choice in table.get(setting, ())]
        if valid and value not in valid:
            hint = suggestion(value, [choice for choice in valid if choice])
            raise Invalid(f"{origin} has no {setting} {shown(value)}", hint=hint)


def _settings_of(name: str) -> Settings | None:
    """The settings of a strategy; None if it takes anything."""
    if name in _registered:
        return _registered[name][1]
    if name in BUILT_IN:
        return BUILT_IN[name][1]
    return SHARED.get(name)
