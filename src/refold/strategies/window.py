"""The sliding window: the last messages stay, the rest is hidden behind a notice.

`keep` says how many messages stay; `max_tokens` limits their size instead, newest first; with
`max_age_hours`, younger messages stay as well. `by` may say which of them is meant; by age, the
default is a day. The window begins at a seam, so it may hold a few messages more; system messages,
the first request and what is protected stay before it. Neighbour: `hide` takes away only as much as
the target asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.laws import units
from refold.core.model import Edit
from refold.core.plan import Ask
from refold.errors import Invalid
from refold.strategies.brief import Brief, check_choice, check_needed, last_seam, tail_start
from refold.strategies.hide import hide_edits, newest_work, staying

WAYS = ("messages", "tokens", "age")
AGE_HOURS = 24.0
HOUR_MS = 3_600_000


def window(brief: Brief) -> list[Edit | Ask]:
    """Hides everything before the window."""
    whole = units(brief.slots)
    start, reason = _window_start(brief, whole)
    before = enumerate(brief.slots[:start])
    going = {index for index, slot in before if slot.message.role != "system"}
    stays = staying(brief.view, whole).union(newest_work(brief.view, whole))
    return hide_edits(brief, going - stays, lambda _: reason)


# --- where the window starts ---


def _window_start(brief: Brief, whole: Sequence[range]) -> tuple[int, str]:
    """Where the window starts, and why there. Of two limits the narrower one counts."""
    hours = _hours(brief, _check_way(brief))
    recent = _start_by_count(brief, whole)
    starts = _start_by_tokens(brief)
    if hours is None:
        return max(starts, default=recent), "before the window"
    starts.append(min(recent, _start_by_age(brief, whole, hours)))
    return max(starts), f"older than {hours:g} hours"


def _start_by_tokens(brief: Brief) -> list[int]:
    """The first seam from which everything keeps to `max_tokens`; none if that is not set."""
    tokens_max = brief.setting("max_tokens", 0)
    if not tokens_max:
        return []
    messages = len(brief.slots)  # so that only tokens count
    return [tail_start(brief.view, keep_messages=messages, keep_tokens=tokens_max)]


def _check_way(brief: Brief) -> str:
    """By what the window is meant to be limited."""
    way: str = brief.setting("by", "messages")
    check_choice("there is no window by", way, WAYS)
    check_needed("window", brief.settings, brief.task)
    return way


def _hours(brief: Brief, way: str) -> float | None:
    """How old a message may be; None if its age does not count."""
    if way != "age" and "max_age_hours" not in brief.settings:
        return None
    hours: float = brief.setting("max_age_hours", AGE_HOURS)
    _check_hours(hours)
    return hours


def _check_hours(hours: float) -> None:
    if hours < 0:
        hint = "give a number of hours that is not negative"
        raise Invalid(f"max_age_hours is {hours}", hint=hint)


def _start_by_count(brief: Brief, whole: Sequence[range]) -> int:
    """The last seam that leaves at least `keep` messages; to keep none means none."""
    keep = brief.setting("keep", brief.config.keep_recent)
    return last_seam(whole, len(brief.slots) - keep) if keep else len(brief.slots)


def _start_by_age(brief: Brief, whole: Sequence[range], hours: float) -> int:
    """The first seam from which something is young enough. A summary is as old as the newest
    message it stands for."""
    slots = brief.slots
    ages = brief.ages([slot.last for slot in slots])
    for unit in whole:
        if min(ages.get(slots[index].last, 0) for index in unit) <= hours * HOUR_MS:
            return unit.start
    return len(slots)
