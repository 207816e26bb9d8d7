"""The sliding window: the last messages stay, the rest is hidden behind a notice.

`keep` is the number of messages that stay; `max_tokens` limits their size instead, newest first;
with `max_age_hours`, younger messages stay as well. `by` selects the limit; by age, the default is
a day. The window begins at a seam, so it may have a few more messages. System messages, the first
request and protected messages stay before it. Neighbour: `hide` removes only as much as the
target needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.config import recent_messages
from refold.core.laws import units
from refold.core.model import Edit
from refold.core.plan import Ask
from refold.errors import Invalid
from refold.strategies.brief import Brief, check_choice, check_needed
from refold.strategies.hide import hide_edits, newest_work, staying
from refold.strategies.protected_messages import last_seam, tail_start

WAYS = ("messages", "tokens", "age")
AGE_HOURS = 24.0
HOUR_MS = 3_600_000


def window(brief: Brief) -> list[Edit | Ask]:
    """Hides everything before the window."""
    page_units = units(brief.slots)
    start, reason = _window_start(brief, page_units)
    before = enumerate(brief.slots[:start])
    hidden = {index for index, slot in before if slot.message.role != "system"}
    stays = staying(brief.view, page_units).union(newest_work(brief.view, page_units))
    return hide_edits(brief, hidden - stays, lambda _: reason)


def _window_start(brief: Brief, page_units: Sequence[range]) -> tuple[int, str]:
    """The start of the window, and the reason for it; the narrower of two limits applies."""
    way: str = brief.setting("by", "messages")
    check_choice("unknown window by", way, WAYS)
    check_needed("window", brief.settings, brief.task)
    hours: float = brief.setting("max_age_hours", AGE_HOURS)
    if hours < 0:
        raise Invalid(f"max_age_hours is {hours}", hint="use a number from 0")
    size = len(brief.slots)
    keep = brief.setting("keep", recent_messages(brief.config))
    recent = last_seam(page_units, size - keep) if keep else size
    starts: list[int] = []
    if tokens_max := brief.setting("max_tokens", 0):
        starts = [tail_start(brief.view, keep_messages=size, keep_tokens=tokens_max)]
    if way != "age" and "max_age_hours" not in brief.settings:
        return max(starts, default=recent), "before the window"
    starts.append(min(recent, _start_by_age(brief, page_units, hours)))
    return max(starts), f"older than {hours:g} hours"


def _start_by_age(brief: Brief, page_units: Sequence[range], hours: float) -> int:
    """The first seam followed by a young enough message. A summary is as old as the newest message
    it covers."""
    slots = brief.slots
    ages = brief.ages([slot.last for slot in slots])
    for unit in page_units:
        if min(ages.get(slots[index].last, 0) for index in unit) <= hours * HOUR_MS:
            return unit.start
    return len(slots)
