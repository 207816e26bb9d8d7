"""The strategies by name. A new one is a file beside this and a line here; a caller may register its own."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module

from refold.errors import Invalid
from refold.strategies.brief import Strategy

BUILT_IN: dict[str, str] = {
    # name: module of this room; the function has the name of the strategy
    "dedup": "dedup",
    "gist": "gist",
    "hide": "hide",
    "fit": "fit",
    "clear": "clear",
    "keep": "keep",
    "window": "window",
    "importance": "importance",
    "relevance": "importance",
    "summarize": "summarize",
}
_registered: dict[str, Strategy] = {}


def register(name: str, strategy: Strategy) -> None:
    """Makes a strategy of the caller's own usable by name."""
    _registered[name] = strategy


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name in _registered:
        return _registered[name]
    if name not in BUILT_IN:
        known = sorted({*BUILT_IN, *_registered})
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)
        raise Invalid(f"there is no strategy {name!r}", hint=hint)
    found: Strategy = getattr(import_module(f"refold.strategies.{BUILT_IN[name]}"), name)
    return found


def rungs(names: Sequence[str]) -> list[tuple[str, Strategy]]:
    """A ladder by names."""
    return [(name, strategy(name)) for name in names]
