"""The sliding window: the last messages stay, the rest is hidden behind a notice.

`keep` says how many messages stay; `max_tokens` bounds their size instead, newest first. The window begins at a seam,
so it may hold a few messages more; system messages, the first request and what is protected stay before it.
Neighbour: `hide` takes away only as much as the target asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.laws import units
from refold.core.model import Edit, View
from refold.core.plan import Ask
from refold.strategies.brief import Brief
from refold.strategies.hide import hidden, staying


def window(brief: Brief) -> list[Edit | Ask]:
    """Hides everything before the window."""
    slots, whole = brief.view.slots, units(brief.view.slots)
    most, wanted = brief.setting("max_tokens", 0), brief.setting("keep", brief.config.keep_recent)
    start = _start_by_tokens(brief.view, whole, most) if most else _start(whole, len(slots) - max(1, wanted))
    going = {index for index in range(start) if slots[index].message.role != "system"}
    return hidden(brief, going - staying(brief.view, whole), "before the window")


def _start(whole: Sequence[range], latest: int) -> int:
    """The last seam that is not behind this index."""
    return max((unit.start for unit in whole if unit.start <= latest), default=0)


def _start_by_tokens(view: View, whole: Sequence[range], most: int) -> int:
    """The first seam from which everything fits; the newest unit always does."""
    start, tokens = len(view.slots), 0
    for unit in reversed(whole):
        tokens += sum(view.slots[index].tokens for index in unit)
        if tokens > most and start < len(view.slots):
            break
        start = unit.start
    return start
