"""From which sizes on the proxy acts, where its user says nothing else.

An agent behind a base URL has no tool that gives back what is out of its sight, so a result is a
stub at its first send only if it would take half of the window, or all of a small one; others leave
with a compaction, which quotes their telling lines. And the agent pays for its whole page at every
call: a page of PAGE_TOKENS has nearly all that its next steps need, so a larger window is compacted
at a smaller share of it. `bench/proxy_pages.py` has the figures. Neighbours: `book` opens
conversations with these, `observer` counts what they would have saved.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from refold.config import Config
from refold.core.budget import whole_tokens

PAGE_TOKENS = 36_000
RATIO_MIN = 0.6
_USUAL = Config()
RATIOS = ("warn_ratio", "compact_ratio", "critical_ratio")
LARGE = "offload_tokens"


def settings(window: int, said: Container[str]) -> dict[str, Any]:
    """The settings for a window, without those that the user has said something about."""
    found: dict[str, Any] = {}
    if LARGE not in said:
        found[LARGE] = whole_tokens(window)
    if not any(name in said for name in RATIOS):
        compact = compact_ratio(window)
        found["compact_ratio"] = compact
        found["warn_ratio"] = compact * _USUAL.warn_ratio / _USUAL.compact_ratio
    return found


def compact_ratio(window: int) -> float:
    """At which share of a window a compaction comes: as everywhere in a small one."""
    return min(_USUAL.compact_ratio, max(RATIO_MIN, PAGE_TOKENS / window))
