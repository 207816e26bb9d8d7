"""The strategies by name, each with the settings it takes. A new one is a file in this room and a
line here; a caller may register its own, and say which settings that one takes.

Settings are checked here and nowhere else: those of the configuration when a conversation is
opened, those of a call before its plan is drawn up. The types are declared here and not in the
strategies, so that no strategy has to be imported to check them.
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

# What every strategy takes in a call, and none in the configuration, where it is a setting of all.
IN_A_CALL: Settings = {KEEP_RECENT: int}

# By name: the module of this room whose function has that name, and its settings with their types.
BUILT_IN: dict[str, tuple[str, Settings]] = {
    "dedup": ("dedup", {"same_chars": int}),
    "gist": ("gist", {"instructions": str}),
    "hide": ("hide", {"preset": str, "fraction": float}),
    "fit": ("fit", {}),
    "native": ("native", {}),
    "clear": ("clear", _CLEAR),
    "keep": ("keep", {"head": int, "tail": int, "lines": int, "min_tokens": int}),
    "window": ("window", {"by": str, "keep": int, "max_tokens": int, "max_age_hours": float}),
    "hierarchical": ("hierarchical", {"keep": int, "focus": int}),
    "importance": ("importance", _IMPORTANCE),
    "relevance": ("importance", _IMPORTANCE),
    "summarize": ("summarize", {"keep": int, "threshold": int, "instructions": str}),
}
# Of settings that are names: the names. The strategies say the same (`PRESETS`, `WAYS`, `RESTS`).
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "hide": {"preset": ("", "none", "lastTwo", "half", "quarter", "auto", "condense")},
    "clear": {"preset": ("", "clear_tool_uses", "prune")},
    "window": {"by": ("messages", "tokens", "age")},
    "importance": {"preset": ("", "threshold"), "rest": ("hide", "summarize")},
    "relevance": {"preset": ("", "threshold"), "rest": ("hide", "summarize")},
}
# Not strategies, but read by several: how tool calls are understood.
SHARED: dict[str, Settings] = {"actions": {"cwd": str, "ignore_case": bool}}
# What a name may not have: it is written into the log, and `+` stands between several.
_NAME = re.compile(r"[^\s+\x00-\x1f]{1,100}")
_registered: dict[str, tuple[Strategy, Settings | None]] = {}


def register(name: str, strategy: Strategy, *, settings: Settings | None = None) -> None:
    """Makes a caller's own strategy usable by name. `settings` are those it takes, with their
    types (`{"tokens_max": int}`), and any other is refused. Without them it takes anything."""
    if not is_text(name) or not _NAME.fullmatch(name):
        hint = "letters, digits, dashes and underscores, as in my-strategy"
        raise Invalid(f"{quoted(name)} is not the name of a strategy", hint=hint)
    _registered[name] = (strategy, settings)


def forget(name: str) -> None:
    """Takes back what was registered by this name. Nothing if nothing was."""
    _registered.pop(name, None)


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name in _registered:
        return _registered[name][0]
    if name in BUILT_IN:
        return _built_in(name)
    raise _unknown(name)


def _unknown(name: str) -> Invalid:
    hint = suggestion(name, sorted({*BUILT_IN, *_registered}))
    return Invalid(f"there is no strategy {name!r}", hint=f"{hint}; your own are registered first")


def _built_in(name: str) -> Strategy:
    """One of the strategies of this room, imported when it is needed."""
    module = import_module(f"refold.strategies.{BUILT_IN[name][0]}")
    found: Strategy = getattr(module, name)
    return found


def rungs(names: Sequence[str]) -> list[tuple[str, Strategy]]:
    """A ladder by names."""
    return [(name, strategy(name)) for name in names]


# --- settings ---


def check_tables(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses a setting of the configuration that its strategy does not take, and a misspelt
    strategy. One that is like none here is left alone, and told by `unknown_tables`: it may be
    registered in another program that shares the file."""
    for name, given in tables.items():
        if not _is_known(name) and nearest(name, [*BUILT_IN, *SHARED, *_registered]):
            raise _unknown(name)
        check_settings(given, [name], f"strategy.{name}")


def unknown_tables(tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """In words, which tables of settings are for a strategy that nobody has registered here."""
    unknown = [name for name in tables if not _is_known(name)]
    return [f"strategy.{name}: no strategy of that name is registered" for name in unknown]


def check_ladder(names: Sequence[str]) -> None:
    """Refuses a ladder with a strategy that is not known."""
    for name in names:
        if name not in BUILT_IN and name not in _registered:
            raise _unknown(name)


def _is_known(name: str) -> bool:
    return name in BUILT_IN or name in SHARED or name in _registered


def check_settings(given: Mapping[str, Any], names: Sequence[str], origin: str = "") -> None:
    """Refuses a setting that none of these strategies takes, and a value of a wrong type. What
    is given in a call is for all of its strategies: each takes what it knows."""
    tables = [_settings_of(name) for name in names]
    if not origin:
        tables.append(IN_A_CALL)
    known = _kinds_by_setting(tables)
    origin = origin or f"the call of {'+'.join(names)}"
    if None not in tables:
        _check_known(given, list(known), origin)
    _check_values(given, known, origin)
    _check_choices(given, names, origin)


def _settings_of(name: str) -> Settings | None:
    """The settings of a strategy; None if it takes anything."""
    if name in _registered:
        return _registered[name][1]
    if name in BUILT_IN:
        return BUILT_IN[name][1]
    return SHARED.get(name)


def _kinds_by_setting(tables: Sequence[Settings | None]) -> dict[str, list[type]]:
    """For every setting the types that one of the strategies takes."""
    found: dict[str, list[type]] = {}
    for table in tables:
        for name, kinds in (table or {}).items():
            several = kinds if isinstance(kinds, tuple) else (kinds,)
            found.setdefault(name, []).extend(several)
    return found


def _check_known(given: Mapping[str, Any], known: Sequence[str], origin: str) -> None:
    if given and not known:
        first = next(iter(given))
        raise Invalid(f"{origin} has an unknown name {first!r}", hint="it takes no settings")
    check_names(given, origin, known)


def _check_values(
    given: Mapping[str, Any], known: Mapping[str, Sequence[type]], origin: str
) -> None:
    for name, value in given.items():
        if name in known:
            check_kind(f"{name} of {origin}", value, known[name])
            _check_not_negative(name, value, origin)


def _check_not_negative(name: str, value: object, origin: str) -> None:
    """Refuses a number below 0: every number of a strategy is a size, a count or a share."""
    if isinstance(value, int | float) and value < 0:
        raise Invalid(f"{name} of {origin} is {value}", hint="give a number from 0")


def _check_choices(given: Mapping[str, Any], names: Sequence[str], origin: str) -> None:
    """Refuses a value that none of the strategies has a name for."""
    tables = [CHOICES.get(name, {}) for name in names if name not in _registered]
    for setting, value in given.items():
        known = [choice for table in tables for choice in table.get(setting, ())]
        if known and value not in known:
            hint = suggestion(value, [name for name in known if name])
            raise Invalid(f"{origin} has no {setting} {shown(value)}", hint=hint)
