"""The sliding window: the last messages stay, the rest is hidden behind a notice.

`keep` says how many messages stay; `max_tokens` bounds their size instead, newest first; with
`max_age_hours`, what is younger stays as well. `by` may say which is meant: by age, a day is the
default. The window begins at a seam, so it may hold a few messages more; system messages, the first
request and what is protected stay before it. Neighbour: `hide` takes away only as much as the
target asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.laws import units
from refold.core.model import Edit, View
from refold.core.plan import Ask
from refold.errors import Invalid
from refold.strategies.brief import Brief
from refold.strategies.hide import hidden, staying

WAYS = ("messages", "tokens", "age")
AGE_HOURS = 24.0
HOUR_MS = 3_600_000


def window(brief: Brief) -> list[Edit | Ask]:
    """Hides everything before the window."""
    slots, whole = brief.view.slots, units(brief.view.slots)
    start, reason = _begin(brief, whole)
    going = {index for index in range(start) if slots[index].message.role != "system"}
    return hidden(brief, going - staying(brief.view, whole), lambda _: reason)


def _begin(brief: Brief, whole: Sequence[range]) -> tuple[int, str]:
    """Where the window begins, and why there. Of two bounds the narrower one holds."""
    way = _way(brief)
    most, hours = brief.setting("max_tokens", 0), _hours(brief, way)
    starts = [_start_by_tokens(brief.view, whole, most)] if most else []
    recent = _start(
        whole, len(brief.view.slots) - max(1, brief.setting("keep", brief.config.keep_recent))
    )
    if hours is not None:
        starts.append(min(recent, _start_by_age(brief, whole, hours)))
    reason = f"older than {hours:g} hours" if hours is not None else "before the window"
    return max(starts, default=recent), reason


def _way(brief: Brief) -> str:
    """By what the window is meant to be bounded."""
    way: str = brief.setting("by", WAYS[0])
    if way not in WAYS:
        raise Invalid(f"there is no window by {way!r}", hint="known: " + ", ".join(WAYS))
    if way == "tokens" and "max_tokens" not in brief.settings:
        raise Invalid("a window by tokens without a size", hint="set max_tokens")
    return way


def _hours(brief: Brief, way: str) -> float | None:
    """How old a message may be; None if its age does not count."""
    if way != "age" and "max_age_hours" not in brief.settings:
        return None
    hours: float = brief.setting("max_age_hours", AGE_HOURS)
    if hours < 0:
        raise Invalid(
            f"max_age_hours is {hours}", hint="give a number of hours that is not negative"
        )
    return hours


def _start(whole: Sequence[range], latest: int) -> int:
    """The last seam that is not behind this index."""
    return max((unit.start for unit in whole if unit.start <= latest), default=0)


def _start_by_age(brief: Brief, whole: Sequence[range], hours: float) -> int:
    """The first seam from which something is young enough. A summary is as old as the newest
    message it stands for."""
    slots = brief.view.slots
    ages = brief.ages([slot.last for slot in slots])
    young = (
        unit.start
        for unit in whole
        if min(ages.get(slots[i].last, 0) for i in unit) <= hours * HOUR_MS
    )
    return next(young, len(slots))


def _start_by_tokens(view: View, whole: Sequence[range], most: int) -> int:
    """The first seam from which everything fits; the newest unit always does."""
    start, tokens = len(view.slots), 0
    for unit in reversed(whole):
        tokens += sum(view.slots[index].tokens for index in unit)
        if tokens > most and start < len(view.slots):
            break
        start = unit.start
    return start
