"""The sliding window: the last messages stay, the rest is hidden behind a notice.

`keep` says how many messages stay; `max_tokens` bounds their size instead, newest first. The window begins at a seam,
so it may hold a few messages more; system messages, the first request and what is protected stay before it.
Neighbour: `hide` takes away only as much as the target asks for.
"""

from __future__ import annotations

from refold.core.laws import seams, units
from refold.core.model import Edit, View
from refold.core.plan import Ask
from refold.strategies.brief import Brief
from refold.strategies.hide import hidden, staying


def window(brief: Brief) -> list[Edit | Ask]:
    """Hides everything before the window."""
    most = brief.setting("max_tokens", 0)
    start = _start_by_tokens(brief.view, most) if most else _start(brief)
    slots = brief.view.slots
    going = {index for index in range(start) if slots[index].message.role != "system"}
    return hidden(brief, going - staying(brief.view), "before the window")


def _start(brief: Brief) -> int:
    """The last seam that leaves at least the wanted number of messages behind it."""
    slots = brief.view.slots
    wanted = max(1, brief.setting("keep", brief.config.keep_recent))
    return max((edge for edge in seams(slots) if edge <= len(slots) - wanted), default=0)


def _start_by_tokens(view: View, most: int) -> int:
    """The first seam from which everything fits; the newest unit always does."""
    start, tokens = len(view.slots), 0
    for unit in reversed(units(view.slots)):
        tokens += sum(view.slots[index].tokens for index in unit)
        if tokens > most and start < len(view.slots):
            break
        start = unit.start
    return start
