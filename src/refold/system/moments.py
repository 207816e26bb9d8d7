"""A moment that a caller names: a time of day with its date, also as text in ISO form, or
milliseconds since 1970.

Everything is kept in milliseconds. Neighbours: search takes moments as bounds, `Context` as the
time when something happened.
"""

from __future__ import annotations

import math
from datetime import datetime

from refold.errors import Invalid

Moment = int | datetime | str
A_TIME = "milliseconds since 1970, a datetime, or a text such as 2026-01-31"
MS_MAX = 2**62
# A smaller number is a place in a log, which has fewer events; one below the second is in seconds.
EPOCH_FROM, EPOCH_MS_FROM = 1_000_000_000, 100_000_000_000
HAPPENED_MS_MAX = 253_402_300_799_999  # the end of the year 9999


def ms_of(name: str, moment: Moment) -> int:
    """A moment in milliseconds; Invalid with the argument's name if it is none, or too far off. A
    text without a zone is in local time."""
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment.strip())
        ms = round(moment.timestamp() * 1_000) if isinstance(moment, datetime) else moment
    except (ValueError, OverflowError, OSError):
        ms = MS_MAX + 1  # not ISO, or a naive time at the end of the calendar
    if isinstance(ms, bool) or not isinstance(ms, int) or not -MS_MAX <= ms <= MS_MAX:
        raise Invalid(f"{name} is not a time", hint=A_TIME)
    return ms


def happened_ms(moment: Moment | None) -> int | None:
    """When something happened, in milliseconds; Invalid for a time that no event can have."""
    if moment is None:
        return None
    ms = ms_of("at", moment)
    if not 0 <= ms <= HAPPENED_MS_MAX:
        raise Invalid("at is before 1970, or thousands of years away", hint=A_TIME)
    return ms


def moment_in(given: float | str | datetime) -> int | None:
    """The moment in milliseconds that a value is: a datetime, seconds or milliseconds since 1970,
    or a text in ISO form, without a zone in local time. None for what is no time."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given.strip())
        except ValueError:
            return None
    if isinstance(given, datetime):
        return ms_of("the time", given)
    if not math.isfinite(given) or given < EPOCH_FROM:
        return None
    return ms_of("the time", round(given if given >= EPOCH_MS_FROM else given * 1_000))
